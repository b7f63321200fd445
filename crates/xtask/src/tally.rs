//! Counts the results that `cargo test` prints, while they pass through.

use std::io::{BufRead, BufReader, Read, Write};

use anyhow::{Context, Result};
use serde_json::{Value, json};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    /// Test programs that ran to their end.
    pub(crate) suites: u64,
    /// Names of the tests that failed: after ten minutes of output nobody wants to search for them.
    pub(crate) failures: Vec<String>,
}

impl Tally {
    /// Copies `from` to `to` line by line and adds up the result lines.
    pub(crate) fn follow(&mut self, from: impl Read, mut to: impl Write) -> Result<()> {
        let mut lines = BufReader::new(from);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).context("reading the tests' output")? > 0 {
            to.write_all(&line).and_then(|()| to.flush()).context("printing the tests' output")?;
            self.add(&String::from_utf8_lossy(&line));
            line.clear();
        }
        Ok(())
    }

    /// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else {
            let failed = line.strip_prefix("test ").and_then(|line| line.trim_end().strip_suffix(" ... FAILED"));
            self.failures.extend(failed.map(str::to_owned));
            return;
        };
        let count = |word: &str| {
            let before = result.split(word).next().filter(|before| before.len() < result.len())?;
            before.rsplit([' ', ';']).next()?.parse::<u64>().ok()
        };
        self.passed += count(" passed").unwrap_or(0);
        self.failed += count(" failed").unwrap_or(0);
        self.ignored += count(" ignored").unwrap_or(0);
        self.suites += 1;
    }

    pub(crate) fn json(&self, seconds: f64) -> Value {
        let mut line = json!({
            "passed": self.passed,
            "failed": self.failed,
            "ignored": self.ignored,
            "suites": self.suites,
            "seconds": (seconds * 10.0).round() / 10.0,
        });
        if !self.failures.is_empty() {
            line["failures"] = json!(self.failures);
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\nrunning 2 tests\ntest a ... ok\ntest b::c ... FAILED\n\
        test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s\n\
        a test prints: test result: ok. 100 passed; 0 failed\n\
        test result: FAILED. 11 passed; 3 failed; 0 ignored; 0 measured; 4 filtered out; finished in 0.01s\n";

    #[test]
    fn result_lines_add_up_and_everything_passes_through() {
        let mut tally = Tally::default();
        let mut printed = Vec::new();
        tally.follow(OUTPUT.as_bytes(), &mut printed).unwrap();
        assert_eq!(tally, Tally { passed: 13, failed: 3, ignored: 1, suites: 2, failures: vec!["b::c".to_owned()] });
        assert_eq!(printed, OUTPUT.as_bytes());
    }

    #[test]
    fn output_that_is_not_utf8_and_has_no_last_line_end_is_no_error() {
        let mut tally = Tally::default();
        tally.follow(&b"\xff\xfe\ntest result: ok. 1 passed; 0 failed"[..], Vec::new()).unwrap();
        assert_eq!((tally.passed, tally.suites), (1, 1));
    }

    #[test]
    fn the_json_line_has_the_counts() {
        let tally = Tally { passed: 13, failed: 3, ignored: 1, suites: 2, failures: Vec::new() };
        assert_eq!(tally.json(2.345).to_string(), r#"{"failed":3,"ignored":1,"passed":13,"seconds":2.3,"suites":2}"#);
    }
}
