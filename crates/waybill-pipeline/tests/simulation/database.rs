//! A real PostgreSQL whose clock the simulation sets, and whose every statement waits at the gate.
//!
//! - Time: the schema `sim` stands before `pg_catalog` in the connections' search path and has a `now()` of its own, which reads a row.
//! - Statements: the pool asks before it hands out a connection, and each statement of the store takes one; so the gate is asked before
//!   each statement (before each transaction, where there is one). One of them runs at a time.
//! - The connections stay open over all seeds; the tables are emptied for each.

use crate::gate::{Gate, Kind};
use sqlx::{
    AssertSqlSafe, PgPool, Row as _,
    postgres::{PgConnectOptions, PgPoolOptions, PgSslMode},
};
use std::{
    future::Future,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::runtime::{Builder, Runtime};
use waybill_testkit::db::TestDb;

const CLOCK: &str = "
    CREATE SCHEMA sim;
    CREATE UNLOGGED TABLE sim.clock (at timestamptz NOT NULL);
    INSERT INTO sim.clock VALUES ('2026-01-01T00:00:00Z');
    CREATE FUNCTION sim.now() RETURNS timestamptz LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT at FROM sim.clock); END';
    CREATE FUNCTION sim.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql STABLE AS 'BEGIN RETURN (SELECT at FROM sim.clock); END';
    DO $$
    DECLARE c record;
    BEGIN
        -- Defaults were bound to the real now() when their tables were made.
        FOR c IN SELECT table_name, column_name FROM information_schema.columns
                 WHERE table_schema = 'public' AND column_default = 'now()' LOOP
            EXECUTE format('ALTER TABLE public.%I ALTER COLUMN %I SET DEFAULT sim.now()', c.table_name, c.column_name);
        END LOOP;
    END $$";

/// Nothing here has to outlive the server, and emptying a logged table would wait for the disk. Those that refer to others go first.
const UNLOGGED: &str = "
    DO $$
    DECLARE t regclass;
    BEGIN
        LOOP
            SELECT c.oid INTO t FROM pg_class c
            WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relpersistence = 'p' AND NOT EXISTS (
                SELECT FROM pg_constraint f JOIN pg_class r ON r.oid = f.conrelid
                WHERE f.contype = 'f' AND f.confrelid = c.oid AND r.relpersistence = 'p')
            LIMIT 1;
            EXIT WHEN t IS NULL;
            EXECUTE format('ALTER TABLE %s SET UNLOGGED', t);
        END LOOP;
    END $$";

/// The connections of one process, whichever process it is at the time.
pub(crate) struct Slot {
    pub(crate) pool: PgPool,
    gate: Arc<Mutex<Option<(Gate, usize)>>>,
}

impl Slot {
    /// `None`: statements of the simulation itself.
    pub(crate) fn use_gate(&self, gate: Option<(Gate, usize)>) {
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = gate;
    }

    /// No statement is running: each connection is idle or waits at the gate.
    pub(crate) fn is_quiet(&self) -> bool {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let waiting = gate.map_or(0, |(gate, process)| {
            gate.look(|w| (w.process == process && w.kind == Kind::Statement).then_some(())).len()
        });
        self.pool.num_idle() + waiting == self.pool.size() as usize
    }
}

pub(crate) struct Database {
    runtime: Runtime,
    db: TestDb,
    own: Slot,
    pub(crate) slots: Vec<Arc<Slot>>,
    tables: Vec<String>,
}

impl Database {
    /// With so many connections for each slot.
    pub(crate) fn new(connections: &[u32]) -> Self {
        // A thread of its own reads and writes the sockets, whichever process waits for them.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (db, own, slots, tables) = runtime.block_on(async {
            let db = TestDb::with_connections(1).await;
            sqlx::raw_sql(CLOCK).execute(&db.pool).await.unwrap();
            sqlx::raw_sql(UNLOGGED).execute(&db.pool).await.unwrap();
            let tables: Vec<String> = sqlx::query_scalar(
                "SELECT format('public.%I', tablename) FROM pg_tables
                 WHERE schemaname = 'public' AND tablename NOT IN ('_sqlx_migrations', 'queue_messages', 'api_keys', 'intake_sources')
                 ORDER BY tablename",
            )
            .fetch_all(&db.pool)
            .await
            .unwrap();
            let (mut slots, url) = (Vec::new(), db.url.clone());
            for connections in connections {
                slots.push(Arc::new(slot(&url, *connections).await));
            }
            (db, slot(&url, 1).await, slots, tables)
        });
        let database = Self { runtime, db, own, slots, tables };
        (0..database.slots.len()).for_each(|slot| database.refill(slot));
        database
    }

    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// For the simulation itself: the same clock, no gate.
    pub(crate) fn pool(&self) -> &PgPool {
        &self.own.pool
    }

    /// Empties the tables and sets the clock back. `VACUUM` leaves them without a page, as new ones are: where rows stand decides in which
    /// order those of the same time are found, and a seed has to find the same order again.
    pub(crate) fn reset(&self) {
        // Without triggers: the ledger refuses to be deleted, and foreign keys would be looked up one by one.
        let mut empty = String::from("SET session_replication_role = replica; SET synchronous_commit = off;");
        self.tables.iter().for_each(|table| empty += &format!("DELETE FROM {table};"));
        empty += "SELECT setval(pg_get_serial_sequence('public.jobs', 'seq'), 1, false);
                  UPDATE sim.clock SET at = '2026-01-01T00:00:00Z'; SET session_replication_role = origin;";
        let vacuum = format!("VACUUM (PROCESS_TOAST false) {}, sim.clock", self.tables.join(", "));
        self.run(async {
            sqlx::raw_sql(AssertSqlSafe(empty)).execute(self.pool()).await.unwrap();
            sqlx::raw_sql(AssertSqlSafe(vacuum)).execute(self.pool()).await.unwrap();
        });
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.run(async {
            sqlx::query("UPDATE sim.clock SET at = at + $1 * interval '1 millisecond'")
                .bind(by.as_millis() as f64)
                .execute(self.pool())
                .await
                .unwrap();
        });
    }

    /// Opens what a killed process left closed, so that every statement of the next one meets an idle connection and the gate.
    pub(crate) fn refill(&self, slot: usize) {
        let slot = &self.slots[slot];
        self.run(async {
            let wanted = slot.pool.options().get_max_connections();
            if slot.pool.num_idle() < wanted as usize {
                let opened = futures::future::join_all((0..wanted).map(|_| slot.pool.acquire())).await;
                drop(opened);
                while slot.pool.num_idle() < wanted as usize {
                    tokio::time::sleep(Duration::from_micros(100)).await;
                }
            }
        });
    }

    /// Seconds until the first open row is due, and how many rows are open.
    pub(crate) fn open(&self) -> (i64, Option<f64>) {
        let sql = format!(
            "SELECT count(*) AS open, extract(epoch FROM min(due) - sim.now())::float8 AS due_in FROM ({OPEN}) o"
        );
        let row = self.run(sqlx::query(AssertSqlSafe(sql)).fetch_one(self.pool())).unwrap();
        (row.get("open"), row.get("due_in"))
    }

    pub(crate) fn show_open(&self) -> Vec<String> {
        let sql = format!("SELECT what || ' due in ' || due - sim.now() FROM ({OPEN}) o ORDER BY due");
        self.run(sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(self.pool())).unwrap()
    }

    pub(crate) fn close(self) {
        self.runtime.block_on(async {
            for slot in &self.slots {
                slot.pool.close().await;
            }
            self.own.pool.close().await;
            self.db.close().await;
        });
    }
}

/// What is not over.
const OPEN: &str = "
    SELECT 'delivery ' || id || ' ' || state AS what, due_at AS due FROM deliveries WHERE due_at IS NOT NULL
    UNION ALL SELECT 'job ' || id, due_at FROM jobs WHERE due_at IS NOT NULL
    UNION ALL SELECT 'job in line ' || id, ordering_due_at FROM jobs WHERE ordering_due_at IS NOT NULL
    UNION ALL SELECT 'document ' || id, due_at FROM documents WHERE due_at IS NOT NULL
    UNION ALL SELECT 'outbox ' || job_id, publish_after FROM outbox";

async fn slot(url: &str, connections: u32) -> Slot {
    // Ten thousands of round trips over the loopback: not encrypted, unless the address says so.
    let encrypted = if url.contains("sslmode") { None } else { Some(PgSslMode::Disable) };
    let options = PgConnectOptions::from_str(url).unwrap();
    let options = encrypted.map_or(options.clone(), |mode| options.ssl_mode(mode)).options([
        ("search_path", "sim,public,pg_catalog"),
        ("synchronous_commit", "off"),
        ("plan_cache_mode", "force_generic_plan"),
        ("jit", "off"),
    ]);
    let gate = Arc::<Mutex<Option<(Gate, usize)>>>::default();
    let asked = gate.clone();
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .min_connections(0)
        // The wait at the gate counts as a wait for a connection.
        .acquire_timeout(Duration::from_secs(10 * 365 * 86_400))
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .before_acquire(move |_, _| {
            let gate = asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Box::pin(async move {
                if let Some((gate, process)) = gate {
                    gate.pass(process, Kind::Statement, "statement".into()).await;
                }
                Ok(true)
            })
        })
        .connect_with(options)
        .await
        .unwrap();
    Slot { pool, gate }
}
