//! Gates in the database: they hold a real process at one statement, so that it can be killed exactly there. The product has no
//! failpoints; a trigger that waits for a lock does the same from outside.

use super::World;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

/// While open statements of a kind wait; closing (or dropping the connection) lets them go on.
pub struct Gate {
    connection: PgConnection,
}

const KEY: i64 = 0x6761_7465;

impl Gate {
    /// `gate_after_ten()` may be used in `when`: it lets the first ten rows pass (a trigger's WHEN takes no subquery).
    ///
    /// Holds every `operation` (such as `INSERT`) on `table` for whose row the SQL condition `when` (over NEW or OLD) holds.
    pub async fn close(world: &World, operation: &str, table: &str, when: &str) -> Gate {
        let mut connection = PgConnection::connect(&world.db.url).await.expect("connects");
        connection.execute(AssertSqlSafe(format!("SELECT pg_advisory_lock({KEY})"))).await.expect("locks");
        let row = if operation == "DELETE" { "OLD" } else { "NEW" };
        let statements = format!(
            "CREATE OR REPLACE FUNCTION gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 PERFORM pg_advisory_xact_lock_shared({KEY}); RETURN {row};
             END $$;
             CREATE SEQUENCE IF NOT EXISTS gate_count;
             CREATE OR REPLACE FUNCTION gate_after_ten() RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT nextval(''gate_count'') > 10';
             DROP TRIGGER IF EXISTS gate ON {table};
             CREATE TRIGGER gate BEFORE {operation} ON {table} FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION gate();"
        );
        connection.execute(AssertSqlSafe(statements)).await.expect("builds the gate");
        Gate { connection }
    }

    /// Waits until a statement stands at the gate.
    pub async fn somebody_waits(&mut self) {
        for _ in 0..2_000 {
            let waiting: i64 = sqlx::query_scalar("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")
                .fetch_one(&mut self.connection)
                .await
                .expect("looks at locks");
            if waiting > 0 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("nobody came to the gate");
    }

    /// Ends the statements that stand at the gate as the death of their process would, then opens it.
    pub async fn open_after_death(mut self, table: &str) {
        // A killed client's backend notices only when it writes to its socket; it would pass the gate first.
        self.connection
            .execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")
            .await
            .expect("ends the waiting statements");
        self.open(table).await;
    }

    pub async fn open(mut self, table: &str) {
        self.connection
            .execute(AssertSqlSafe(format!("SELECT pg_advisory_unlock({KEY}); DROP TRIGGER IF EXISTS gate ON {table}")))
            .await
            .expect("opens the gate");
        let _ = self.connection.close().await;
    }
}
