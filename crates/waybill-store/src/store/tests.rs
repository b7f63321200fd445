use super::*;
use crate::testing::*;
use sqlx::Executor;

async fn empty() -> (waybill_testkit::db::TestDb, Store) {
    let (db, store) = open().await;
    store.pool().execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await.unwrap();
    (db, store)
}

#[tokio::test]
async fn pg_06_three_replicas_migrate_an_empty_database_at_once() {
    let (db, store) = empty().await;
    assert_eq!(store.schema_version().await.unwrap(), SchemaState::Empty);
    let (a, b, c) = tokio::join!(store.migrate(), store.migrate(), store.migrate());
    for result in [a, b, c] {
        result.unwrap();
    }
    assert_eq!(store.schema_version().await.unwrap(), SchemaState::UpToDate);
    let applied = number(&store, "SELECT count(*) FROM _sqlx_migrations").await;
    assert_eq!(applied, migrator().iter().count() as i64);
    // Of this database: other tests have locks of their own on the server.
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    assert_eq!(number(&store, locks).await, 0);
    db.close().await;
}

#[tokio::test]
async fn pg_06_a_migration_that_is_cut_off_leaves_nothing() {
    let (db, store) = empty().await;
    let mut half = store.pool().begin().await.unwrap();
    migrator().run(&mut *half).await.unwrap();
    drop(half);
    assert_eq!(store.schema_version().await.unwrap(), SchemaState::Empty);
    store.migrate().await.unwrap();
    assert_eq!(store.schema_version().await.unwrap(), SchemaState::UpToDate);
    db.close().await;
}

#[tokio::test]
async fn an_older_and_a_newer_schema_are_told_apart() {
    let (db, store) = open().await;
    let want = migrator().iter().map(|m| m.version).max().unwrap();
    store.pool().execute("DELETE FROM _sqlx_migrations WHERE version > 1").await.unwrap();
    assert_eq!(store.schema_version().await.unwrap(), SchemaState::Behind { have: 1, want });
    store.pool().execute("UPDATE _sqlx_migrations SET version = 9999").await.unwrap();
    assert_eq!(store.schema_version().await.unwrap(), SchemaState::Ahead { have: 9999, want });
    db.close().await;
}

#[tokio::test]
async fn pg_05_an_exhausted_pool_is_unavailable_and_soon() {
    let (db, _) = open().await;
    // Long enough for a busy machine to open a connection, short beside a caller's patience.
    let store = Store::connect(&db.url, 2, 2 * SECOND).await.unwrap();
    let busy = (store.pool().begin().await.unwrap(), store.pool().begin().await.unwrap());
    let job = new_job(tenant(&Store::from_pool(db.pool.clone())).await);
    let start = tokio::time::Instant::now();
    let error = store.accept(&[job], &accept_options()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
    assert!(store.ping().await.unwrap_err().is_unavailable());
    assert!(start.elapsed() < Duration::from_secs(15));
    drop(busy);
    store.ping().await.unwrap();
    assert_eq!(number(&store, "SELECT count(*) FROM jobs").await, 0);
    db.close().await;
}

#[tokio::test]
async fn a_connection_that_the_server_ended_costs_at_most_one_call() {
    let (db, _) = open().await;
    let store = Store::connect(&db.url, 1, SECOND).await.unwrap();
    let backend: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(store.pool()).await.unwrap();
    sqlx::query("SELECT pg_terminate_backend($1, 5000)").bind(backend).execute(&db.pool).await.unwrap();
    // Whether the pool has noticed already is a matter of microseconds.
    if let Err(error) = store.ping().await {
        assert!(error.is_unavailable(), "{error:?}");
    }
    store.ping().await.unwrap();
    db.close().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let error = Store::connect("postgres://127.0.0.1:1/none", 1, SECOND).await.unwrap_err();
    assert!(error.is_unavailable(), "{error:?}");
}

#[tokio::test]
async fn a_table_is_found_by_its_index_however_small_the_planner_believes_it_to_be() {
    let (db, _) = open().await;
    let store = Store::connect(&db.url, 2, Duration::from_secs(10)).await.unwrap();
    store.pool().execute("INSERT INTO tenants (id, name) VALUES (gen_random_uuid(), 'one')").await.unwrap();
    store.pool().execute("ANALYZE tenants").await.unwrap();
    let explain = "EXPLAIN SELECT name FROM tenants WHERE id = '01a22fa0-2ec4-7101-9bb2-43b435aa1dca'";
    let plan = async |pool: &PgPool| -> String {
        let lines: Vec<String> = sqlx::query_scalar(explain).fetch_all(pool).await.unwrap();
        lines.join("\n")
    };
    let (theirs, ours) = (plan(&db.pool).await, plan(store.pool()).await);
    assert!(theirs.contains("Seq Scan"), "the test's own premise: {theirs}");
    assert!(ours.contains("tenants_pkey"), "{ours}");
    let jit: String = sqlx::query_scalar("SELECT current_setting('jit')").fetch_one(store.pool()).await.unwrap();
    assert_eq!(jit, "off");
    db.close().await;
}
