//! The few forms of arguments that the commands take.

use anyhow::{Result, bail};

/// The words after the command's name. A command takes what it knows and then calls [`Args::finish`].
pub(crate) struct Args {
    ours: Vec<String>,
    theirs: Vec<String>,
}

impl Args {
    pub(crate) fn new(words: impl Iterator<Item = String>) -> Self {
        let mut ours: Vec<String> = words.collect();
        let theirs = match ours.iter().position(|word| word == "--") {
            Some(at) => ours.split_off(at).into_iter().skip(1).collect(),
            None => Vec::new(),
        };
        Self { ours, theirs }
    }

    /// `--name`
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.ours.len();
        self.ours.retain(|word| word != name);
        self.ours.len() != before
    }

    /// `--name VALUE` or `--name=VALUE`
    pub(crate) fn value(&mut self, name: &str) -> Result<Option<String>> {
        let Some(at) = self.ours.iter().position(|word| word.split('=').next() == Some(name)) else {
            return Ok(None);
        };
        let word = self.ours.remove(at);
        if let Some((_, value)) = word.split_once('=') {
            return Ok(Some(value.to_owned()));
        }
        if self.ours.get(at).is_none_or(|next| next.starts_with("--")) {
            bail!("{name} needs a value");
        }
        Ok(Some(self.ours.remove(at)))
    }

    /// What came after `--`, once everything else is known to be understood.
    pub(crate) fn finish(self) -> Result<Vec<String>> {
        if let Some(word) = self.ours.first() {
            bail!("unknown argument {word:?}, see cargo xtask help");
        }
        Ok(self.theirs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Args {
        Args::new(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_values_and_the_rest_are_told_apart() {
        let mut args = args("--wheels --only store -- --nocapture --only x");
        assert!(args.flag("--wheels"));
        assert!(!args.flag("--nocapture"));
        assert_eq!(args.value("--only").unwrap().as_deref(), Some("store"));
        assert_eq!(args.value("--only").unwrap(), None);
        assert_eq!(args.finish().unwrap(), ["--nocapture", "--only", "x"]);
    }

    #[test]
    fn a_value_may_follow_an_equals_sign_and_must_exist() {
        assert_eq!(args("--only=a=b").value("--only").unwrap().as_deref(), Some("a=b"));
        assert!(args("--only").value("--only").is_err());
        assert!(args("--only --check").value("--only").is_err());
    }

    #[test]
    fn a_word_that_nobody_took_is_an_error() {
        assert_eq!(
            args("--chekc").finish().unwrap_err().to_string(),
            "unknown argument \"--chekc\", see cargo xtask help"
        );
    }
}
