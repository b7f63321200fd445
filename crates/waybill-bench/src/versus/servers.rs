//! What the shared servers used during a round.

use std::ops::Sub;

use anyhow::{Context as _, Result};

use crate::{process::cpu_seconds, world::World};

/// Totals so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Servers {
    /// Flushes of the write-ahead log to the disk.
    pub(crate) flushes: f64,
    /// Octets of write-ahead log.
    pub(crate) wal: f64,
    /// CPU seconds of PostgreSQL's processes, of Redis, and of this one (load and sink).
    pub(crate) postgres_s: f64,
    pub(crate) redis_s: f64,
    pub(crate) driver_s: f64,
}

impl Sub for Servers {
    type Output = Servers;

    fn sub(self, before: Servers) -> Servers {
        Servers {
            flushes: self.flushes - before.flushes,
            wal: self.wal - before.wal,
            postgres_s: self.postgres_s - before.postgres_s,
            redis_s: self.redis_s - before.redis_s,
            driver_s: self.driver_s - before.driver_s,
        }
    }
}

pub(super) async fn read(world: &World) -> Result<Servers> {
    let pid = |name: &str| std::env::var(name).ok().and_then(|pid| pid.parse::<u32>().ok());
    Ok(Servers {
        flushes: flushes(world).await?,
        wal: sqlx::query_scalar("/* bench */ SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::float8")
            .fetch_one(world.store.pool())
            .await
            .context("asking for the position of the write-ahead log")?,
        postgres_s: pid("WAYBILL_BENCH_POSTGRES_PID").map_or(0.0, family_seconds),
        redis_s: pid("WAYBILL_BENCH_REDIS_PID").and_then(|pid| cpu_seconds(pid).ok()).unwrap_or_default(),
        driver_s: cpu_seconds(std::process::id())?,
    })
}

/// PostgreSQL 18 moved the counter. 0 before 14, which has none.
async fn flushes(world: &World) -> Result<f64> {
    let version: i32 = sqlx::query_scalar("/* bench */ SELECT current_setting('server_version_num')::int")
        .fetch_one(world.store.pool())
        .await?;
    let question = match version {
        180_000.. => "/* bench */ SELECT coalesce(sum(fsyncs), 0)::float8 FROM pg_stat_io WHERE object = 'wal'",
        140_000.. => "/* bench */ SELECT wal_sync::float8 FROM pg_stat_wal",
        _ => return Ok(0.0),
    };
    sqlx::query_scalar(question).fetch_one(world.store.pool()).await.context("asking for flushes")
}

/// CPU time of a process and its children, those included that have ended.
fn family_seconds(pid: u32) -> f64 {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0.0 };
    let running = entries.flatten().filter_map(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let (before, after) = stat.rsplit_once(')')?;
        let own: u32 = before.split_whitespace().next()?.parse().ok()?;
        let fields: Vec<&str> = after.split_whitespace().collect();
        let parent: u32 = fields.get(1)?.parse().ok()?;
        // utime and stime; for the parent also cutime and cstime, which are those of its ended children. In hundredths.
        let ticks = |range: std::ops::Range<usize>| -> Option<u64> {
            fields.get(range)?.iter().map(|field| field.parse::<u64>().ok()).sum()
        };
        if own == pid {
            ticks(11..15)
        } else if parent == pid {
            ticks(11..13)
        } else {
            None
        }
    });
    running.sum::<u64>() as f64 / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_child_still_counts() {
        let before = family_seconds(std::process::id());
        let status = std::process::Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"])
            .status()
            .unwrap();
        assert!(status.success());
        assert!(family_seconds(std::process::id()) > before);
        assert_eq!(family_seconds(u32::MAX), 0.0);
    }
}
