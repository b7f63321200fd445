//! Reads variables, collects what is wrong with them, and remembers each for the table.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

/// One line of the configuration table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    pub(crate) default: String,
    pub(crate) help: &'static str,
}

impl Variable {
    /// As a Markdown table row.
    pub(crate) fn row(&self) -> String {
        format!("| `{}` | {} | {} |", self.name, self.default, self.help)
    }
}

/// All problems of one environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigErrors(pub Vec<(String, String)>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the configuration is not usable:")?;
        self.0.iter().try_for_each(|(name, problem)| write!(f, "\n  {name}: {problem}"))
    }
}

impl std::error::Error for ConfigErrors {}

/// Where variables come from.
pub(crate) type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

pub(crate) struct Reader {
    get: Environment,
    errors: Vec<(String, String)>,
    variables: Vec<Variable>,
}

impl Reader {
    pub(crate) fn new(get: Environment) -> Self {
        Self { get, errors: Vec::new(), variables: Vec::new() }
    }

    fn value(&mut self, name: &'static str, default: String, help: &'static str) -> Option<String> {
        self.variables.push(Variable { name, default, help });
        self.look(name)
    }

    pub(crate) fn environment(&self) -> Environment {
        self.get.clone()
    }

    /// A variable that is read elsewhere.
    pub(crate) fn document(&mut self, name: &'static str, default: &str, help: &'static str) {
        self.variables.push(Variable { name, default: default.to_owned(), help });
    }

    pub(crate) fn problem(&mut self, name: &str, problem: String) {
        self.errors.push((name.to_owned(), problem));
    }

    /// A variable that another one may stand in for.
    pub(crate) fn alternative(&mut self, name: &'static str, default: &str, help: &'static str) -> Option<String> {
        self.value(name, default.to_owned(), help)
    }

    /// The value that another variable's choice makes necessary.
    pub(crate) fn needed_by(&mut self, choice: &str, name: &str, value: Option<String>, what: &str) -> String {
        value.unwrap_or_else(|| {
            self.problem(name, format!("is not set; {choice} needs it: {what}"));
            String::new()
        })
    }

    /// One of a few words; the first is the default.
    pub(crate) fn choice<const N: usize>(
        &mut self,
        name: &'static str,
        words: [&'static str; N],
        help: &'static str,
    ) -> &'static str {
        let text = self.text(name, words[0], help);
        words.into_iter().find(|word| *word == text).unwrap_or_else(|| {
            self.problem(name, format!("`{text}`: expected {}", words.join(" or ")));
            words[0]
        })
    }

    /// A variable that is read and documented elsewhere.
    pub(crate) fn look(&self, name: &str) -> Option<String> {
        (self.get)(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty())
    }

    pub(crate) fn optional(&mut self, name: &'static str, help: &'static str) -> Option<String> {
        self.value(name, "not set".into(), help)
    }

    pub(crate) fn text(&mut self, name: &'static str, default: &str, help: &'static str) -> String {
        self.value(name, format!("`{default}`"), help).unwrap_or_else(|| default.to_owned())
    }

    /// # Panics
    /// When the built-in default itself can't be read, which the tests would show.
    pub(crate) fn parsed<T: FromStr>(&mut self, name: &'static str, default: &str, help: &'static str) -> T
    where
        T::Err: fmt::Display,
    {
        let text = self.text(name, default, help);
        text.parse().unwrap_or_else(|e| {
            self.problem(name, format!("`{text}`: {e}"));
            default.parse().unwrap_or_else(|_| unreachable!("the built-in default of {name} is readable"))
        })
    }

    pub(crate) fn optional_parsed<T: FromStr>(&mut self, name: &'static str, help: &'static str) -> Option<T>
    where
        T::Err: fmt::Display,
    {
        let text = self.optional(name, help)?;
        text.parse().map_err(|e| self.problem(name, format!("`{text}`: {e}"))).ok()
    }

    pub(crate) fn number<T: FromStr + fmt::Display + Copy>(
        &mut self,
        name: &'static str,
        default: T,
        help: &'static str,
    ) -> T {
        let Some(text) = self.value(name, format!("`{default}`"), help) else { return default };
        text.parse().unwrap_or_else(|_| {
            self.problem(name, format!("`{text}` is not a whole number"));
            default
        })
    }

    pub(crate) fn millis(&mut self, name: &'static str, default: u64, help: &'static str) -> Duration {
        Duration::from_millis(self.number(name, default, help))
    }

    pub(crate) fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// # Errors
    /// Everything that was wrong.
    pub(crate) fn finish<T>(self, value: T) -> Result<T, ConfigErrors> {
        if self.errors.is_empty() { Ok(value) } else { Err(ConfigErrors(self.errors)) }
    }
}
