//! The smallest zip archive: one executable file (PKWARE's APPNOTE 6.3.3, sections 4.3.7, 4.3.12 and 4.3.16).

use std::io::Write;

use anyhow::{Context, Result};
use flate2::{Compression, Crc, write::DeflateEncoder};

const VERSION_2_0: u16 = 20;
/// In the high byte: the attributes are those of Unix.
const MADE_ON_UNIX: u16 = 3 << 8;
const DEFLATED: u16 = 8;
/// 1 January 1980: the same file gives the same archive.
const DATE: u16 = 1 << 5 | 1;
/// A regular file that everybody may run.
const MODE: u32 = 0o100_755;

/// An archive that holds `content` as `name`, executable.
pub(crate) fn executable(name: &str, content: &[u8]) -> Result<Vec<u8>> {
    let mut crc = Crc::new();
    crc.update(content);
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content)?;
    let packed = encoder.finish()?;
    let length = |bytes: usize| u32::try_from(bytes).context("too large for this archive (4 GiB)");

    // What the local header and the directory's entry have in common.
    let mut common = Vec::new();
    for field in [VERSION_2_0, 0, DEFLATED, 0, DATE] {
        common.extend(field.to_le_bytes());
    }
    for field in [crc.sum(), length(packed.len())?, length(content.len())?] {
        common.extend(field.to_le_bytes());
    }
    common.extend(u16::try_from(name.len()).context("too long a name")?.to_le_bytes());

    let mut archive = b"PK\x03\x04".to_vec();
    archive.extend(&common);
    archive.extend(0_u16.to_le_bytes());
    archive.extend(name.as_bytes());
    archive.extend(&packed);

    let mut entry = b"PK\x01\x02".to_vec();
    entry.extend((MADE_ON_UNIX | VERSION_2_0).to_le_bytes());
    entry.extend(&common);
    // Extra field, comment, disk, internal attributes.
    entry.extend([0; 8]);
    entry.extend((MODE << 16).to_le_bytes());
    entry.extend(0_u32.to_le_bytes());
    entry.extend(name.as_bytes());

    let directory_at = length(archive.len())?;
    let directory_length = length(entry.len())?;
    archive.extend(entry);
    archive.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    archive.extend(directory_length.to_le_bytes());
    archive.extend(directory_at.to_le_bytes());
    archive.extend(0_u16.to_le_bytes());
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::DeflateDecoder;
    use std::io::Read;

    fn number(bytes: &[u8], at: usize) -> usize {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
    }

    #[test]
    fn the_directory_leads_to_the_file_which_is_executable_and_whole() {
        let content = b"binary ".repeat(10_000);
        let archive = executable("bootstrap", &content).unwrap();
        assert_eq!(archive, executable("bootstrap", &content).unwrap(), "reproducible");
        let end = archive.len() - 22;
        assert_eq!(&archive[end..end + 4], b"PK\x05\x06");
        let (length, at) = (number(&archive, end + 12), number(&archive, end + 16));
        let entry = &archive[at..at + length];
        assert_eq!((&entry[..4], &entry[46..]), (&b"PK\x01\x02"[..], &b"bootstrap"[..]));
        assert_eq!(number(entry, 38) >> 16, 0o100_755);
        let file = number(entry, 42);
        assert_eq!(&archive[file..file + 4], b"PK\x03\x04");
        assert_eq!(archive[file + 14..file + 30], entry[16..32], "checksum and lengths");
        let packed = &archive[file + 30 + 9..][..number(entry, 20)];
        let mut unpacked = Vec::new();
        DeflateDecoder::new(packed).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, content);
        let mut crc = Crc::new();
        crc.update(&content);
        assert_eq!((number(entry, 16), number(entry, 24)), (crc.sum() as usize, content.len()));
    }
}
