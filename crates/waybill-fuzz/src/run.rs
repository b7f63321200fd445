//! The driver for the stable toolchain: the corpus, changed at random by a seed.

use crate::{
    Target,
    mutate::{Luck, mutate},
};
use anyhow::{Context, Result};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

/// An input for which something does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub input: Vec<u8>,
    pub message: String,
}

/// The files of a target's folder, in the order of their names.
///
/// # Errors
/// When there is no such folder, or a file of it can't be read.
pub fn corpus(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
        .with_context(|| format!("reading {}", folder.display()))?
        .into_iter()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).with_context(|| format!("reading {}", file.display()))).collect()
}

/// Runs a target on its corpus and then on changed inputs while `more` (which is told how many runs there were) says so. Returns how
/// many runs there were.
///
/// # Errors
/// The first input for which something does not hold, made as short as cutting pieces off makes it.
pub fn run(target: &Target, corpus: &[Vec<u8>], seed: u64, mut more: impl FnMut(u64) -> bool) -> Result<u64, Found> {
    let mut runs = 0;
    for input in corpus {
        runs += 1;
        try_one(target, input).map_err(|message| shorten(target, input, message))?;
    }
    let mut luck = Luck(seed);
    while more(runs) {
        runs += 1;
        let input = mutate(corpus, target.words, &mut luck);
        try_one(target, &input).map_err(|message| shorten(target, &input, message))?;
    }
    Ok(runs)
}

fn try_one(target: &Target, input: &[u8]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| (target.check)(input))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        text.unwrap_or("panicked").to_owned()
    })
}

/// Cuts pieces off, large ones first, as long as something still does not hold.
fn shorten(target: &Target, input: &[u8], message: String) -> Found {
    let mut found = Found { input: input.to_vec(), message };
    let mut size = found.input.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at + size <= found.input.len() {
            let mut shorter = found.input.clone();
            drop(shorter.drain(at..at + size));
            match try_one(target, &shorter) {
                Err(message) => found = Found { input: shorter, message },
                Ok(()) => at += size,
            }
        }
        size /= 2;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_bang(input: &[u8]) {
        assert!(!input.contains(&b'!'), "a bang");
    }

    const TARGET: Target = Target { name: "bang", check: no_bang, words: &["!"] };

    #[test]
    fn what_does_not_hold_is_found_and_shortened_to_what_matters() {
        let found = run(&TARGET, &[b"hello".to_vec()], 1, |runs| runs < 10_000).unwrap_err();
        assert_eq!(found, Found { input: b"!".to_vec(), message: "a bang".into() });
    }

    #[test]
    fn the_same_seed_makes_the_same_inputs() {
        let inputs = |seed| {
            let mut luck = Luck(seed);
            (0..200).map(|_| mutate(&[b"{\"a\":1}".to_vec()], &["x"], &mut luck)).collect::<Vec<_>>()
        };
        assert_eq!(inputs(3), inputs(3));
        assert_ne!(inputs(3), inputs(4));
    }

    #[test]
    fn the_corpus_is_run_even_where_there_is_no_time() {
        assert_eq!(run(&TARGET, &[b"a".to_vec(), b"b".to_vec()], 1, |_| false), Ok(2));
        assert!(run(&TARGET, &[b"a!".to_vec()], 1, |_| false).is_err());
    }
}
