//! What can go wrong, one variant per step. Written by hand: a derive would bring in a parser for Rust.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a service could not be started or stopped.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServiceError {
    /// A file, folder or process operation failed; `doing` says which.
    Io { doing: String, source: io::Error },
    /// Neither an installed server nor the wheel could be had.
    NoBinaries { service: &'static str, install: &'static str, detail: String },
    /// `WAYBILL_PG_BINARIES` holds an unknown word.
    UnknownSource { value: String },
    /// The database name is not a plain lower-case identifier of at most 63 bytes.
    DatabaseName { name: String },
    /// As root, neither a user `postgres` nor a user `nobody` exists to run the server as.
    NoUnprivilegedUser,
    /// The folder that stands in for one that the server's user can't enter belongs to somebody else.
    ForeignFolder { path: PathBuf, owner: u32 },
    /// The data directory was made by a major version that no binaries were found for.
    WrongVersion { data: PathBuf, made_by: String, found: String },
    /// Another process runs a server on this data directory.
    InUse { data: PathBuf, pid: u32 },
    /// The data directory has no password file beside it, so nobody can log in any more.
    PasswordLost { data: PathBuf },
    /// `initdb`, the single-user backend or `pip` failed.
    Step { step: &'static str, detail: String },
    /// The server ended before it was ready.
    Ended { service: &'static str, status: String, log: String },
    /// The server did not answer in time.
    NotReady { service: &'static str, seconds: u64, last: String, log: String },
    /// No free port could be had in several tries.
    NoPort { service: &'static str },
}

impl ServiceError {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, .. } => write!(f, "{doing} failed"),
            Self::NoBinaries { service, install, detail } => write!(f, "no {service} found: {install} ({detail})"),
            Self::UnknownSource { value } => {
                write!(f, "WAYBILL_PG_BINARIES is {value:?}, but must be system, wheel or auto")
            }
            Self::DatabaseName { name } => {
                write!(f, "the database name {name:?} must be a lower-case identifier of 1 to 63 characters")
            }
            Self::NoUnprivilegedUser => f.write_str(
                "PostgreSQL must not run as root, and there is neither a user postgres nor a user nobody to run it as",
            ),
            Self::ForeignFolder { path, owner } => {
                write!(f, "{} belongs to user id {owner}; remove it or ask its owner to", path.display())
            }
            Self::WrongVersion { data, made_by, found } => write!(
                f,
                "{} was made by PostgreSQL {made_by}, but only PostgreSQL {found} was found: install version \
                 {made_by}, or remove the folder to begin with an empty database",
                data.display()
            ),
            Self::InUse { data, pid } => write!(f, "another waybill dev runs on {} (pid {pid})", data.display()),
            Self::PasswordLost { data } => write!(
                f,
                "the password file of {} is missing: put it back, or remove the folder to begin with an empty database",
                data.display()
            ),
            Self::Step { step, detail } => write!(f, "{step} failed: {detail}"),
            Self::Ended { service, status, log } => write!(f, "{service} ended with {status}; its log says:\n{log}"),
            Self::NotReady { service, seconds, last, log } => {
                write!(f, "{service} was not ready after {seconds} s ({last}); its log says:\n{log}")
            }
            Self::NoPort { service } => write!(f, "no free port for {service} in several tries"),
        }
    }
}

impl Error for ServiceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        if let Self::Io { source, .. } = self { Some(source) } else { None }
    }
}
