//! The server's view: which statements ran, and how often, where `pg_stat_statements` is loaded.
//!
//! It is a check of the process's own counter, and it says where a budget went.

use anyhow::Result;

use crate::world::World;

/// Calls of one statement during a phase.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement {
    pub(crate) calls: u64,
    pub(crate) rows: u64,
    /// Time in the server's executor, in milliseconds.
    pub(crate) ms: f64,
    /// Octets of write-ahead log.
    pub(crate) wal: f64,
    /// Of the local queue, which stands for SQS: shown, and not counted.
    pub(crate) queue: bool,
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

/// The process's statements since [`forget`], most frequent first; our own are left out.
pub(crate) async fn seen(world: &World) -> Result<Vec<Statement>> {
    let rows: Vec<(i64, i64, f64, f64, String)> = sqlx::query_as(
        "/* bench */ SELECT calls, rows, total_exec_time, wal_bytes::float8, query FROM pg_stat_statements
         WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY calls DESC",
    )
    .fetch_all(world.store.pool())
    .await?;
    Ok(rows.into_iter().filter_map(statement).collect())
}

/// `None` for the bench's own.
fn statement((calls, rows, ms, wal, text): (i64, i64, f64, f64, String)) -> Option<Statement> {
    let mentions = |parts: &[&str]| parts.iter().any(|part| text.contains(part));
    let queue = mentions(&["queue_messages", "pg_notify", "LISTEN"]);
    let ours = mentions(&["/* bench */", "pg_stat_statements"]);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!ours).then(|| Statement { calls: calls.unsigned_abs(), rows: rows.unsigned_abs(), ms, wal, queue, text })
}

/// Round trips, those of the queue apart.
pub(crate) fn calls(statements: &[Statement]) -> u64 {
    statements.iter().filter(|statement| !statement.queue).map(|statement| statement.calls).sum()
}

/// A table for people: calls, rows, time and log per delivery.
pub(crate) fn table(statements: &[Statement], deliveries: u64) -> String {
    let per = |count: u64| count as f64 / deliveries.max(1) as f64;
    let line = |s: &Statement| {
        let queue = if s.queue { "queue" } else { "" };
        let (ms, wal) = (s.ms / deliveries.max(1) as f64, s.wal / deliveries.max(1) as f64);
        format!("   {:>7.4} {:>7.3} {ms:>7.4} {wal:>6.0} {queue:5} {}", per(s.calls), per(s.rows), short(&s.text))
    };
    let lines: Vec<String> = statements.iter().filter(|s| per(s.calls) >= 0.001).map(line).collect();
    format!("     calls    rows      ms    wal       per delivery, as PostgreSQL saw them\n{}", lines.join("\n"))
}

fn short(text: &str) -> String {
    text.chars().take(130).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str, calls: i64, rows: i64) -> Option<Statement> {
        statement((calls, rows, 5.0, 500.0, text.to_owned()))
    }

    #[test]
    fn the_queue_is_shown_and_not_counted_and_the_bench_is_neither() {
        assert_eq!(seen("/* bench */ SELECT count(*) FROM deliveries", 1, 1), None);
        let all = [
            seen("INSERT INTO jobs\n  SELECT $1", 5, 5),
            seen("BEGIN", 2, 0),
            seen("DELETE FROM queue_messages WHERE queue = $1", 10, 100),
            seen("SELECT pg_notify($1, $2)", 10, 0),
        ];
        assert_eq!(calls(&all.into_iter().flatten().collect::<Vec<_>>()), 7);
    }

    #[test]
    fn the_table_is_per_delivery() {
        let table = table(&[seen("SELECT 1", 50, 500).unwrap(), seen("rare", 0, 0).unwrap()], 500);
        assert!(table.contains("0.1000") && table.contains("1.000") && !table.contains("rare"), "{table}");
    }
}
