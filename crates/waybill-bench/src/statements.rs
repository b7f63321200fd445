//! The server's view: which statements ran, and how often, where `pg_stat_statements` is loaded.
//!
//! It is a check of the process's own counter, and it says where a budget went.

use anyhow::Result;

use crate::world::World;

/// Calls of one statement during a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) calls: u64,
    pub(crate) rows: u64,
    /// One line.
    pub(crate) text: String,
}

/// Whether there is a view to look at.
pub(crate) async fn available(world: &World) -> bool {
    let made = sqlx::query("CREATE EXTENSION IF NOT EXISTS pg_stat_statements").execute(world.store.pool()).await;
    // Without the library in `shared_preload_libraries` the extension can be made, but not used.
    made.is_ok() && forget(world).await.is_ok()
}

/// Forgets everything seen so far.
pub(crate) async fn forget(world: &World) -> Result<()> {
    sqlx::query("SELECT pg_stat_statements_reset()").execute(world.store.pool()).await?;
    Ok(())
}

/// The process's statements since [`forget`], most frequent first; those of the local queue, which stands for SQS, and our own apart.
pub(crate) async fn seen(world: &World) -> Result<Vec<Statement>> {
    let rows: Vec<(i64, i64, String)> = sqlx::query_as(
        "/* bench */ SELECT calls, rows, query FROM pg_stat_statements
         WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY calls DESC",
    )
    .fetch_all(world.store.pool())
    .await?;
    let statement = |(calls, rows, text): (i64, i64, String)| Statement {
        calls: calls.unsigned_abs(),
        rows: rows.unsigned_abs(),
        text: text.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    Ok(rows.into_iter().map(statement).filter(|found| counts(&found.text)).collect())
}

/// Ours: `bench`, the view itself. The queue's: its table, its notifications.
fn counts(text: &str) -> bool {
    !["/* bench */", "pg_stat_statements", "queue_messages", "pg_notify", "LISTEN"]
        .iter()
        .any(|part| text.contains(part))
}

/// A table for people: calls and rows per delivery.
pub(crate) fn table(statements: &[Statement], deliveries: u64) -> String {
    let per = |count: u64| count as f64 / deliveries.max(1) as f64;
    let line = |s: &Statement| format!("   {:>7.4} {:>7.3}  {}", per(s.calls), per(s.rows), short(&s.text));
    let lines: Vec<String> = statements.iter().filter(|s| per(s.calls) >= 0.001).map(line).collect();
    format!("     calls    rows  per delivery, as PostgreSQL saw them\n{}", lines.join("\n"))
}

fn short(text: &str) -> String {
    text.chars().take(130).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_and_the_bench_are_not_counted() {
        assert!(counts("INSERT INTO jobs SELECT $1"));
        assert!(counts("BEGIN"));
        assert!(!counts("DELETE FROM queue_messages WHERE queue = $1"));
        assert!(!counts("/* bench */ SELECT count(*) FROM deliveries"));
        assert!(!counts("SELECT pg_notify($1, $2)"));
    }

    #[test]
    fn the_table_is_per_delivery() {
        let statement = Statement { calls: 50, rows: 500, text: "SELECT 1".into() };
        let rare = Statement { calls: 0, rows: 0, text: "rare".into() };
        let table = table(&[statement, rare], 500);
        assert!(table.contains("0.1000") && table.contains("1.000") && !table.contains("rare"), "{table}");
    }
}
