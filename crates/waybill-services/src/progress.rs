//! Where the slow steps are announced.

use std::fmt;

type Report = dyn Fn(&str) + Send + Sync;

/// A callback for the steps that take long enough for a person to wonder, such as "getting PostgreSQL (25 MB, once)".
#[derive(Default)]
pub struct Progress(Option<Box<Report>>);

impl Progress {
    /// Calls `report` with one short line for each slow step.
    pub fn new(report: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(report)))
    }

    /// Says nothing.
    pub fn silent() -> Self {
        Self(None)
    }

    pub(crate) fn say(&self, step: &str) {
        if let Some(report) = &self.0 {
            report(step);
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Progress(set)" } else { "Progress(silent)" })
    }
}
