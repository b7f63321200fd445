//! What a phase cost, by the process's own counters.

use std::ops::Sub;

use anyhow::{Context as _, Result};

use crate::{process::Waybill, world::World};

/// Totals of the process since its start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Counters {
    /// Round trips to PostgreSQL, those of the local queue apart.
    pub(crate) sql: f64,
    /// Requests to the queue, as SQS would bill them.
    pub(crate) queue: f64,
    /// Round trips to Redis; a pipeline is one.
    pub(crate) redis: f64,
    /// CPU seconds.
    pub(crate) cpu: f64,
    /// Octets of write-ahead log, those of the local queue included.
    pub(crate) wal: f64,
    /// Octets that the process has logged.
    pub(crate) log: f64,
    /// Renders, and the seconds that they took.
    pub(crate) renders: f64,
    pub(crate) render_s: f64,
}

impl Counters {
    pub(crate) async fn read(world: &World, process: &Waybill) -> Result<Counters> {
        let url = format!("http://{}/metrics", world.ops);
        let text = world.http.get(url).send().await.context("asking for /metrics")?.error_for_status()?.text().await?;
        let total = |name: &str| value(&text, name).with_context(|| format!("/metrics has no {name}"));
        Ok(Counters {
            sql: total("waybill_sql_statements")?,
            queue: total("waybill_queue_requests")?,
            redis: total("waybill_redis_round_trips")?,
            cpu: process.cpu_seconds()?,
            wal: sqlx::query_scalar("/* bench */ SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8")
                .fetch_one(world.store.pool())
                .await
                .context("asking for the position of the write-ahead log")?,
            log: process.logged()? as f64,
            // Not there before the first render.
            renders: value(&text, "waybill_render_seconds_count").unwrap_or_default(),
            render_s: value(&text, "waybill_render_seconds_sum").unwrap_or_default(),
        })
    }
}

impl Sub for Counters {
    type Output = Counters;

    fn sub(self, before: Counters) -> Counters {
        Counters {
            sql: self.sql - before.sql,
            queue: self.queue - before.queue,
            redis: self.redis - before.redis,
            cpu: self.cpu - before.cpu,
            wal: self.wal - before.wal,
            log: self.log - before.log,
            renders: self.renders - before.renders,
            render_s: self.render_s - before.render_s,
        }
    }
}

/// The value of a metric without labels in the Prometheus text format.
fn value(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_found_by_its_whole_name() {
        let text = "# TYPE waybill_sql gauge\nwaybill_sql_statements 12\nwaybill_sql 3.5\nwaybill_sql{a=\"b\"} 9\n";
        assert_eq!(value(text, "waybill_sql"), Some(3.5));
        assert_eq!(value(text, "waybill_sql_statements"), Some(12.0));
        assert_eq!(value(text, "waybill_queue"), None);
    }
}
