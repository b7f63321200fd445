//! A fresh database per test, copied from a template that is migrated once per server and schema.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool, postgres::PgPoolOptions};
use std::hash::{DefaultHasher, Hash, Hasher};

static MIGRATOR: sqlx::migrate::Migrator = sqlx::migrate!("../../migrations");

/// A database of one test's own. Dropped with [`TestDb::close`]; what a failed test leaves goes with the server.
pub struct TestDb {
    pub pool: PgPool,
    pub url: String,
    name: String,
    server: String,
}

/// Address of the test server.
///
/// # Panics
/// Without `DATABASE_URL`, with the command that sets it.
pub fn server_url() -> String {
    std::env::var("DATABASE_URL").expect("DATABASE_URL is not set: run the tests with `cargo xtask test`, which starts a PostgreSQL and a Redis of its own")
}

fn with_database(server: &str, name: &str) -> String {
    let (base, query) = server.split_once('?').map_or((server, ""), |(b, q)| (b, q));
    let authority_end = base.find("://").map_or(0, |i| i + 3);
    let base = base[authority_end..].find('/').map_or(base, |i| &base[..authority_end + i]);
    if query.is_empty() { format!("{base}/{name}") } else { format!("{base}/{name}?{query}") }
}

impl TestDb {
    /// Creates a migrated database with a small pool.
    pub async fn new() -> TestDb {
        Self::with_connections(8).await
    }

    pub async fn with_connections(max: u32) -> TestDb {
        Self::create(server_url(), max).await
    }

    /// On another server than that of `DATABASE_URL`.
    pub async fn on_server(url: &str) -> TestDb {
        Self::create(url.to_owned(), 8).await
    }

    async fn create(server: String, max: u32) -> TestDb {
        let mut admin = PgConnection::connect(&server).await.expect("connects to DATABASE_URL");
        let template = ensure_template(&mut admin, &server).await;
        let name = format!("waybill_test_{}", uuid::Uuid::now_v7().simple());
        admin
            .execute(AssertSqlSafe(format!("CREATE DATABASE {name} TEMPLATE {template}")))
            .await
            .expect("creates a test database");
        admin.close().await.expect("closes");
        let url = with_database(&server, &name);
        let pool =
            PgPoolOptions::new().max_connections(max).connect(&url).await.expect("connects to the test database");
        TestDb { pool, url, name, server }
    }

    /// Drops the database. Optional; keeps a long test run's disk small.
    pub async fn close(self) {
        self.pool.close().await;
        let mut admin = PgConnection::connect(&self.server).await.expect("connects");
        admin
            .execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)))
            .await
            .expect("drops the test database");
    }
}

/// Test processes run side by side: one of them builds the template under a lock, the others wait for it.
async fn ensure_template(admin: &mut PgConnection, server: &str) -> String {
    let mut hasher = DefaultHasher::new();
    for migration in MIGRATOR.iter() {
        migration.checksum.hash(&mut hasher);
    }
    let template = format!("waybill_template_{:x}", hasher.finish());
    admin.execute("SELECT pg_advisory_lock(4711)").await.expect("locks");
    let found: Option<i32> = sqlx::query_scalar("SELECT 1 FROM pg_database WHERE datname = $1")
        .bind(&template)
        .fetch_optional(&mut *admin)
        .await
        .expect("looks up");
    if found.is_none() {
        let building = format!("{template}_building");
        admin.execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {building} WITH (FORCE)"))).await.expect("drops");
        admin.execute(AssertSqlSafe(format!("CREATE DATABASE {building}"))).await.expect("creates the template");
        let mut connection =
            PgConnection::connect(&with_database(server, &building)).await.expect("connects to the template");
        MIGRATOR.run(&mut connection).await.expect("migrates the template");
        connection.close().await.expect("closes");
        admin
            .execute(AssertSqlSafe(format!("ALTER DATABASE {building} RENAME TO {template}")))
            .await
            .expect("renames the template");
    }
    admin.execute("SELECT pg_advisory_unlock(4711)").await.expect("unlocks");
    template
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_s_name_is_replaced() {
        assert_eq!(with_database("postgres://u:p@127.0.0.1:5432/postgres", "x"), "postgres://u:p@127.0.0.1:5432/x");
        assert_eq!(
            with_database("postgres://127.0.0.1:5432?sslmode=disable", "x"),
            "postgres://127.0.0.1:5432/x?sslmode=disable"
        );
    }

    #[tokio::test]
    async fn two_tests_have_two_migrated_databases() {
        let (a, b) = tokio::join!(TestDb::new(), TestDb::new());
        assert_ne!(a.url, b.url);
        let tables: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM information_schema.tables WHERE table_name IN ('jobs', 'sends', 'ledger')",
        )
        .fetch_one(&a.pool)
        .await
        .unwrap();
        assert_eq!(tables, 3);
        a.close().await;
        b.close().await;
    }
}
