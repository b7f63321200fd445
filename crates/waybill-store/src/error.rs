use sqlx::migrate::MigrateError;

/// Why the store could not do what it was asked for. Nothing was changed, or (a connection that broke during a commit) repeating the
/// call is safe: every write of this crate is conditional.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No connection in time, a broken one, a server that starts, stops, is full or read-only. Answer 503, or try again later.
    #[error("the database is unavailable")]
    Unavailable { source: sqlx::Error },
    /// Somebody else holds what was asked for (lock timeout, deadlock, serialization). Nothing happened; try again.
    #[error("another transaction holds the rows")]
    Conflict { source: sqlx::Error },
    /// The statement itself failed. Trying again can't help.
    #[error("the database refused a statement")]
    Database { source: sqlx::Error },
    #[error("the schema could not be migrated")]
    Migration { source: MigrateError },
    /// A row holds a word that this build does not know (written by a newer build, or by hand).
    #[error("column `{column}` holds `{value}`, which this build does not know")]
    UnknownWord { column: &'static str, value: String },
    /// A mistake of the caller's.
    #[error("the call is malformed; wanted: {what}")]
    BadCall { what: &'static str },
    /// The id belongs to another tenant.
    #[error("this {what} belongs to another tenant")]
    OtherTenant { what: &'static str },
}

impl StoreError {
    /// Whether waiting may help: the caller answers 503 with `Retry-After`, or leaves its message on the queue.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// The unique constraint that refused the statement, if one did.
    pub(crate) fn unique_violation(error: &sqlx::Error) -> Option<&str> {
        let database = error.as_database_error()?;
        if database.is_unique_violation() { database.constraint() } else { None }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(source: sqlx::Error) -> Self {
        match kind(&source) {
            Kind::Unavailable => Self::Unavailable { source },
            Kind::Conflict => Self::Conflict { source },
            Kind::Other => Self::Database { source },
        }
    }
}

impl From<MigrateError> for StoreError {
    fn from(error: MigrateError) -> Self {
        // The migrator wraps the driver's errors; a lock that was not free in time stays a conflict.
        if let MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _) = error {
            return match kind(&source) {
                Kind::Unavailable => Self::Unavailable { source },
                Kind::Conflict => Self::Conflict { source },
                Kind::Other => Self::Migration { source: MigrateError::Execute(source) },
            };
        }
        Self::Migration { source: error }
    }
}

enum Kind {
    Unavailable,
    Conflict,
    Other,
}

#[expect(clippy::wildcard_enum_match_arm, reason = "sqlx::Error is non-exhaustive")]
fn kind(error: &sqlx::Error) -> Kind {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        // A connection that was cut in the middle of an answer.
        | sqlx::Error::Protocol(_) => Kind::Unavailable,
        sqlx::Error::Database(database) => database.code().map_or(Kind::Other, |code| sqlstate(&code)),
        _ => Kind::Other,
    }
}

/// SQLSTATE classes: PostgreSQL documentation, appendix A.
fn sqlstate(code: &str) -> Kind {
    match code {
        // lock_not_available, serialization_failure, deadlock_detected.
        "55P03" | "40001" | "40P01" => Kind::Conflict,
        // admin_shutdown, crash_shutdown, cannot_connect_now, database_dropped, idle_session_timeout, query_canceled (time-out).
        "57P01" | "57P02" | "57P03" | "57P04" | "57P05" | "57014" => Kind::Unavailable,
        // read_only_sql_transaction: a failover is under way and we still talk to the old primary.
        "25006" => Kind::Unavailable,
        // 08: connection exceptions. 53: too many connections, disk or memory full.
        code if code.starts_with("08") || code.starts_with("53") => Kind::Unavailable,
        _ => Kind::Other,
    }
}
