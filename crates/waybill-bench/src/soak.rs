//! Below capacity for a long time, with faults: what grows that should not?
//!
//! First the capacity is measured in a closed loop, then a share of it is posted in an open loop, minute by minute, while the first provider
//! refuses one request in a hundred, another way each minute. Every few seconds memory, files, connections, tables and the backlog are read.
//!
//! Compared are medians: of the second fifth of the run (the first one warms up) and of the last one. Tables that keep every row grow by
//! design; what must not grow there is what a delivery adds.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::time::Instant;
use waybill_sink::{Fault, FaultKind, Provider};

use crate::{
    books::{self, Books},
    load::{self, Load, percentile},
    phases::say,
    process::Waybill,
    report::{per_second, rounded},
    world::{Kind, World},
};

const RECIPIENTS: usize = 10;
const SAMPLE: Duration = Duration::from_secs(5);
/// One request in a hundred; which way, by minute.
const FAULTS: [FaultKind; 4] = [FaultKind::Http500, FaultKind::Throttle, FaultKind::Reset, FaultKind::NoMessageId];
const FAULT_PERCENT: u8 = 1;

/// How long, and at which load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Soak {
    pub(crate) minutes: usize,
    /// Of the capacity that was measured just before.
    pub(crate) share: f64,
}

/// Everything that is read every few seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sample {
    rss_mb: f64,
    files: f64,
    connections: f64,
    /// Octets of the tables whose rows come and go, with their indexes.
    passing: f64,
    /// The same of those that keep every row.
    kept: f64,
    /// Mails that a provider had accepted by then.
    accepted: f64,
}

/// What a reading may grow by between the second and the last fifth.
struct Rule {
    name: &'static str,
    read: fn(&Sample) -> f64,
    /// A tenth, and this much more: readings jitter.
    slack: f64,
}

const RULES: &[Rule] = &[
    Rule { name: "rss_mb", read: |s| s.rss_mb, slack: 4.0 },
    Rule { name: "files", read: |s| s.files, slack: 8.0 },
    Rule { name: "connections", read: |s| s.connections, slack: 1.0 },
    // Two segments' worth of what one checkpoint's vacuum leaves.
    Rule { name: "passing_bytes", read: |s| s.passing, slack: 4e6 },
];

/// Early and late, and whether that is flat.
#[derive(Debug, Clone, PartialEq)]
struct Trend {
    name: &'static str,
    early: f64,
    late: f64,
    flat: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Soaked {
    capacity: f64,
    rate: f64,
    minutes: usize,
    books: Books,
    trends: Vec<Trend>,
    /// p50 and p95 by minute, in ms.
    latencies: Vec<(f64, f64)>,
    complaints: usize,
}

pub(crate) async fn run(soak: Soak) -> Result<Soaked> {
    let world = Arc::new(World::make().await?);
    let mut process = Waybill::start(&world, "sendgrid,ses").await?;
    let mut soaked = Soaked { minutes: soak.minutes, ..Soaked::default() };
    for (phase, events) in [("warm", 300), ("capacity", 2_000)] {
        world.forget();
        let load = notes(phase, events);
        let started = load::closed(&world, &load).await?;
        let (books, last) = books::balance(&world, &mut process, load.deliveries()).await?;
        soaked.books.add(&books);
        soaked.capacity = per_second(load.deliveries(), last - started);
    }
    let rate = ((soaked.capacity * soak.share / RECIPIENTS as f64).round() as u32).max(1);
    soaked.rate = f64::from(rate) * RECIPIENTS as f64;
    say(&format!("capacity {:.0} deliveries/s; {} minutes at {:.0}", soaked.capacity, soak.minutes, soaked.rate));
    world.forget();
    let mut samples = Vec::new();
    for minute in 0..soak.minutes {
        let kind = FAULTS[minute % FAULTS.len()];
        world.sink.set_faults(vec![Fault::new(Provider::SendGrid, kind).percent(FAULT_PERCENT)]);
        let load = notes(&format!("m{minute}"), 60 * rate as usize);
        let open = {
            let posting = load::open(&world, &load, rate);
            tokio::pin!(posting);
            let mut next = Instant::now() + SAMPLE;
            loop {
                tokio::select! {
                    open = &mut posting => break open?,
                    () = tokio::time::sleep_until(next) => {
                        next += SAMPLE;
                        samples.push(sample(&world, &process).await?);
                    }
                }
            }
        };
        process.still_runs()?;
        // So that the last mails of this minute are in its latencies.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let found = open.latencies(&world, &load.phase);
        world.sink.clear_mailbox();
        soaked.latencies.push((percentile(&found, 0.5), percentile(&found, 0.95)));
        if let (Some(last), Some((p50, p95))) = (samples.last(), soaked.latencies.last()) {
            say(&format!("minute {}, {}: {last}; p50 {p50:.0} ms, p95 {p95:.0} ms", minute + 1, kind.as_str()));
        }
    }
    world.sink.set_faults(Vec::new());
    let wanted = (soak.minutes * 60 * rate as usize * RECIPIENTS) as u64;
    let (books, _) = books::balance(&world, &mut process, wanted).await?;
    soaked.books.add(&books);
    soaked.trends = trends(&samples, &soaked.latencies);
    soaked.complaints = process.complaints();
    if soaked.broken().is_empty() {
        process.stop().await?;
        world.tidy();
    }
    Ok(soaked)
}

fn notes(phase: &str, events: usize) -> Load {
    Load { kind: Kind::Note, phase: phase.to_owned(), events, recipients: RECIPIENTS }
}

async fn sample(world: &World, process: &Waybill) -> Result<Sample> {
    let (passing, kept, connections): (f64, f64, f64) = sqlx::query_as(
        "/* bench */ SELECT
            coalesce(sum(pg_total_relation_size(c.oid)) FILTER (WHERE c.relname IN ('outbox', 'queue_messages')), 0)::float8,
            coalesce(sum(pg_total_relation_size(c.oid)) FILTER (WHERE c.relname NOT IN ('outbox', 'queue_messages')), 0)::float8,
            (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database())::float8
         FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace",
    )
    .fetch_one(world.store.pool())
    .await
    .context("reading the sizes of the tables")?;
    Ok(Sample {
        rss_mb: process.rss_mb()?,
        files: process.open_files()?,
        connections: connections - f64::from(world.store.pool().size()),
        passing,
        kept,
        accepted: world.sink.accepted() as f64,
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    percentile(&values, 0.5)
}

/// Octets that a delivery added to the tables that keep every row.
fn growth(samples: &[Sample]) -> f64 {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return f64::NAN };
    (last.kept - first.kept) / (last.accepted - first.accepted)
}

fn trends(samples: &[Sample], latencies: &[(f64, f64)]) -> Vec<Trend> {
    let fifth = samples.len() / 5;
    let (early, late) = (&samples[fifth..2 * fifth], &samples[samples.len() - fifth..]);
    let trend = |name, early: f64, late: f64, most: f64| Trend { name, early, late, flat: late <= most };
    let mut found: Vec<Trend> = RULES
        .iter()
        .map(|rule| {
            let of = |part: &[Sample]| median(part.iter().map(rule.read));
            trend(rule.name, of(early), of(late), of(early) * 1.1 + rule.slack)
        })
        .collect();
    found.push(trend("kept_bytes_per_delivery", growth(early), growth(late), growth(early) * 1.1));
    let fifth = (latencies.len() / 5).max(1);
    let of = |part: &[(f64, f64)]| median(part.iter().map(|minute| minute.1));
    let (early, late) =
        (of(&latencies[fifth.min(latencies.len() - 1)..][..fifth]), of(&latencies[latencies.len() - fifth..]));
    // Times jitter more than sizes; a queue that grows shows in it at once.
    found.push(trend("p95_ms", early, late, early * 2.0 + 20.0));
    found
}

impl Soaked {
    /// One line per broken promise.
    pub(crate) fn broken(&self) -> Vec<String> {
        let mut broken: Vec<String> = self
            .trends
            .iter()
            .filter(|trend| !trend.flat)
            .map(|trend| format!("{} grew from {:.1} to {:.1}", trend.name, trend.early, trend.late))
            .collect();
        if !self.books.good() {
            broken.push(format!("the books don't balance: {:?}", self.books));
        }
        broken
    }

    pub(crate) fn to_json(&self) -> Value {
        let trends = self.trends.iter().map(|trend| {
            let about = json!({"early": rounded(trend.early, 1), "late": rounded(trend.late, 1), "flat": trend.flat});
            (trend.name.to_owned(), about)
        });
        json!({
            "minutes": self.minutes,
            "capacity_per_s": rounded(self.capacity, 0),
            "deliveries_per_s": rounded(self.rate, 0),
            "deliveries": self.books.wanted,
            "lost": self.books.lost,
            "duplicates_known": self.books.duplicates,
            "log_complaints": self.complaints,
            "trends": Value::Object(trends.collect()),
        })
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} mails, {:.1} MB, {} files, {} connections, tables {:.1} MB passing and {:.0} MB kept",
            self.accepted,
            self.rss_mb,
            self.files,
            self.connections,
            self.passing / 1e6,
            self.kept / 1e6
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fifty samples in ten minutes; `grow` per sample.
    fn samples(rss: f64, passing: f64, kept_per_delivery: impl Fn(f64) -> f64) -> Vec<Sample> {
        let mut kept = 0.0;
        let one = |n: usize| {
            let n = n as f64;
            kept += 1_000.0 * kept_per_delivery(n);
            Sample {
                rss_mb: 40.0 + rss * n,
                files: 60.0,
                connections: 12.0,
                passing: 5e6 + passing * n,
                kept,
                accepted: 1_000.0 * n,
            }
        };
        (0..50).map(one).collect()
    }

    fn grew(samples: &[Sample], latencies: &[(f64, f64)]) -> Vec<&'static str> {
        trends(samples, latencies).into_iter().filter(|trend| !trend.flat).map(|trend| trend.name).collect()
    }

    #[test]
    fn what_stays_is_flat_and_what_grows_is_named() {
        let quiet = [(10.0, 20.0); 10];
        assert!(grew(&samples(0.0, 0.0, |_| 3_000.0), &quiet).is_empty());
        // Jitter is not growth.
        assert!(grew(&samples(0.05, 1_000.0, |n| 3_000.0 + n), &quiet).is_empty());
        assert_eq!(grew(&samples(0.5, 0.0, |_| 3_000.0), &quiet), ["rss_mb"]);
        assert_eq!(grew(&samples(0.0, 5e5, |_| 3_000.0), &quiet), ["passing_bytes"]);
        assert_eq!(grew(&samples(0.0, 0.0, |n| 3_000.0 + 20.0 * n), &quiet), ["kept_bytes_per_delivery"]);
        let slower: Vec<(f64, f64)> = (0..10).map(|n| (10.0, 20.0 + 20.0 * f64::from(n))).collect();
        assert_eq!(grew(&samples(0.0, 0.0, |_| 3_000.0), &slower), ["p95_ms"]);
    }

    #[test]
    fn lost_and_doubled_mails_break_the_promise_however_flat_all_is() {
        let mut soaked = Soaked { trends: trends(&samples(0.0, 0.0, |_| 1.0), &[(1.0, 2.0); 10]), ..Soaked::default() };
        assert!(soaked.broken().is_empty());
        soaked.books = Books { wanted: 10, lost: 1, duplicates: 0 };
        assert_eq!(soaked.broken().len(), 1);
        assert_eq!(soaked.to_json()["lost"], 1);
        assert_eq!(soaked.to_json()["trends"]["rss_mb"]["flat"], true);
    }
}
