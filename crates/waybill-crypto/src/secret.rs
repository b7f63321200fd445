use std::fmt;

/// A secret text: it prints as `[redacted]`, can't be serialised, and is read only where [`Secret::expose`] is written.
///
/// It does not promise to erase its memory; a process that others can read has lost its secrets anyway.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself. Every use of this word is worth a look in a review.
    pub fn expose(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// For command line and environment parsers; never fails.
impl std::str::FromStr for Secret {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_print_itself_not_even_inside_a_struct() {
        #[derive(Debug)]
        #[expect(dead_code, reason = "only its Debug form is read")]
        struct Config {
            token: Secret,
        }
        let printed = format!("{:?} {:#?}", Secret::from("hunter2"), Config { token: Secret::new("hunter2") });
        assert!(!printed.contains("hunter2"), "{printed}");
        assert!(printed.contains("token: [redacted]"), "{printed}");
    }
}
