//! A server's log: opened for it, and its end read for error messages.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::ServiceError;

const LINES: usize = 15;
const MOST_BYTES: u64 = 16 * 1024;

/// Opens a log for a server to append to.
pub(crate) fn open(path: &Path) -> Result<File, ServiceError> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(ServiceError::io(format!("making {}", parent.display())))?;
    }
    let opened = File::options().append(true).create(true).open(path);
    opened.map_err(ServiceError::io(format!("opening the log {}", path.display())))
}

/// The size of a log now, so that a later [`of_log`] shows only what was written since.
pub(crate) fn mark(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

/// The last lines that were written after `mark`; empty if the log can't be read, because the error that it explains
/// matters more.
pub(crate) fn of_log(path: &Path, mark: u64) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let start = mark.max(file.metadata()?.len().saturating_sub(MOST_BYTES));
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    of_text(&String::from_utf8_lossy(&read().unwrap_or_default()))
}

pub(crate) fn of_text(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_last_lines_without_empty_ones() {
        let text: String = (1..=20).map(|n| format!("line {n}\n\n")).collect();
        let tail = of_text(&text);
        assert_eq!(tail.lines().count(), LINES);
        assert!(tail.starts_with("line 6\n") && tail.ends_with("line 20"), "{tail}");
    }
}
