use crate::StoreError;
use sqlx::{
    Connection, PgPool,
    migrate::Migrator,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use std::{
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use waybill_core::{
    outcome::OnUnknown,
    state::{DeliveryState, DocumentState, JobState, Reason},
    text::storable,
};

/// Characters of a `detail` that are kept.
const MAX_DETAIL: usize = 500;
/// How long a migration waits for another migrator, and for each table lock.
const MIGRATION_LOCK_TIMEOUT: &str = "10s";
/// A connection that was idle for longer is tried before it is handed out. A fresh one is not: that would double the round trips.
const PING_AFTER_IDLE: Duration = Duration::from_secs(10);
/// Of each connection. Every statement finds its rows by an index, whatever the tables' sizes. Without this the planner reads whole tables
/// while it believes that they are empty, which is until the first autovacuum of a new database, and keeps such plans for as long. Compiling
/// a statement (`jit`) costs more than any of them, and planning it anew for each short array (`plan_cache_mode`) as much as running it.
const SESSION: &str = "SELECT set_config('enable_seqscan', 'off', false), set_config('jit', 'off', false),
    set_config('plan_cache_mode', 'force_generic_plan', false)";

/// The database. Cheap to clone; all clones share the pool and the count of statements.
#[derive(Clone, Debug)]
pub struct Store {
    pool: PgPool,
    statements: Arc<AtomicU64>,
}

/// What the schema is, seen from this build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaState {
    UpToDate,
    /// Run `waybill migrate` first.
    Behind {
        have: i64,
        want: i64,
    },
    /// A newer build migrated it. Fine during a deployment: migrations expand first and contract later.
    Ahead {
        have: i64,
        want: i64,
    },
    Empty,
}

fn migrator() -> Migrator {
    let mut migrator = sqlx::migrate!("../../migrations");
    // Its own lock is a session lock, which sticks to a pooled backend behind PgBouncer (PG-06). `migrate` takes a better one.
    migrator.set_locking(false);
    migrator
}

impl Store {
    /// Opens a pool and makes sure that one connection works.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the server can't be reached within `acquire_timeout`.
    pub async fn connect(url: &str, max_connections: u32, acquire_timeout: Duration) -> Result<Store, StoreError> {
        let options = PgConnectOptions::from_str(url)?.application_name("waybill");
        let pool = PgPoolOptions::new()
            .max_connections(max_connections)
            .acquire_timeout(acquire_timeout)
            .test_before_acquire(false)
            .after_connect(|connection, _| {
                Box::pin(async move {
                    sqlx::query(SESSION).persistent(false).execute(connection).await?;
                    Ok(())
                })
            })
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    if meta.idle_for > PING_AFTER_IDLE {
                        return Ok(connection.ping().await.is_ok());
                    }
                    Ok(true)
                })
            })
            .connect_with(options)
            .await?;
        Ok(Self::from_pool(pool))
    }

    pub fn from_pool(pool: PgPool) -> Store {
        Store { pool, statements: Arc::default() }
    }

    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Round trips sent so far, `BEGIN` and `COMMIT` included. The bench compares it with its budget.
    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// The pool, for exactly one statement, which is counted.
    pub(crate) fn db(&self) -> &PgPool {
        self.count(1);
        &self.pool
    }

    /// A transaction whose statements are planned for the values that they are given: for those whose best plan depends on which filters
    /// are set. Three round trips more than one statement.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub(crate) async fn planned_for_its_values(&self) -> Result<sqlx::PgTransaction<'static>, StoreError> {
        // Sent as one.
        self.count(1);
        Ok(self.pool.begin_with("BEGIN; SET LOCAL plan_cache_mode = force_custom_plan").await?)
    }

    /// Counts round trips that do not go through [`Store::db`]: those inside a transaction, its BEGIN and COMMIT.
    pub(crate) fn count(&self, round_trips: u64) {
        self.statements.fetch_add(round_trips, Ordering::Relaxed);
    }

    /// Brings the schema up to this build, all of it or nothing: one transaction, guarded by a transaction-level lock, so that several
    /// replicas may try at once and a killed one leaves nothing behind.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when another migrator or a long transaction held a lock for 10 s; [`StoreError::Migration`] when the
    /// schema was changed by hand or a migration is faulty.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let mut transaction = self.pool.begin().await?;
        sqlx::query("SELECT set_config('lock_timeout', $1, true)")
            .bind(MIGRATION_LOCK_TIMEOUT)
            .execute(&mut *transaction)
            .await?;
        sqlx::query("SELECT pg_advisory_xact_lock(hashtext('waybill migrations'))").execute(&mut *transaction).await?;
        migrator().run(&mut *transaction).await?;
        transaction.commit().await?;
        Ok(())
    }

    /// Compares the schema's version with the one this build wants. Changes nothing.
    pub async fn schema_version(&self) -> Result<SchemaState, StoreError> {
        let table: Option<String> =
            sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations')::text").fetch_one(self.db()).await?;
        let want = migrator().iter().map(|m| m.version).max().unwrap_or(0);
        if table.is_none() {
            return Ok(SchemaState::Empty);
        }
        let have: Option<i64> =
            sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations WHERE success").fetch_one(self.db()).await?;
        Ok(match have {
            None => SchemaState::Empty,
            Some(have) if have < want => SchemaState::Behind { have, want },
            Some(have) if have > want => SchemaState::Ahead { have, want },
            Some(_) => SchemaState::UpToDate,
        })
    }

    /// One round trip, for readiness.
    pub async fn ping(&self) -> Result<(), StoreError> {
        sqlx::query("SELECT 1").execute(self.db()).await?;
        Ok(())
    }
}

/// A span of time for `make_interval(secs => ..)`.
pub(crate) fn secs(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

/// Seconds from `extract(epoch from ..)::float8`; what is over is zero.
pub(crate) fn span(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::ZERO)
}

/// A text from outside, in the form that a `detail` column may hold.
pub(crate) fn detail(text: &str) -> String {
    storable(text, MAX_DETAIL)
}

fn word<T>(column: &'static str, text: &str, parsed: Option<T>) -> Result<T, StoreError> {
    parsed.ok_or_else(|| StoreError::UnknownWord { column, value: storable(text, 50) })
}

pub(crate) fn delivery_state(text: &str) -> Result<DeliveryState, StoreError> {
    word("deliveries.state", text, DeliveryState::parse(text))
}

pub(crate) fn job_state(text: &str) -> Result<JobState, StoreError> {
    word("jobs.state", text, JobState::parse(text))
}

pub(crate) fn document_state(text: &str) -> Result<DocumentState, StoreError> {
    word("documents.state", text, DocumentState::parse(text))
}

pub(crate) fn reason(text: Option<&str>) -> Result<Option<Reason>, StoreError> {
    text.map(|text| word("reason", text, Reason::parse(text))).transpose()
}

pub(crate) fn on_unknown(text: Option<&str>) -> Result<Option<OnUnknown>, StoreError> {
    text.map(|text| word("on_unknown", text, OnUnknown::parse(text))).transpose()
}

#[cfg(test)]
mod tests;
