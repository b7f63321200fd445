//! The result: one JSON object, and which promises it breaks.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    cost::{self, DocumentUse, Use},
    counters::Counters,
    versus::Versus,
};

/// The promises per delivery, and of memory at rest.
const QUEUE_REQUESTS: f64 = 0.35;
const PG_ROUND_TRIPS: f64 = 0.5;
const REDIS_ROUND_TRIPS: f64 = 0.2;
const IDLE_RSS_MB: f64 = 60.0;
/// Memory of the renderer's Lambda, which gives it one vCPU (`infra/topology.json`).
const LAMBDA_GB: f64 = 1.769;

/// What a delivery costs in a phase.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Counted {
    deliveries: u64,
    queue_requests: f64,
    pg_round_trips: f64,
    redis_round_trips: f64,
    /// The same as `pg_round_trips`, as PostgreSQL counted it.
    pg_seen_by_server: Option<f64>,
    cpu_s_per_1000: f64,
    wal_bytes: f64,
    log_bytes: f64,
    /// Renders per delivery, and seconds per render.
    renders: f64,
    render_s: f64,
    deliveries_per_s: f64,
}

impl Counted {
    pub(crate) fn new(deliveries: u64, cost: &Counters, seen: Option<f64>, deliveries_per_s: f64) -> Self {
        let per = |total: f64| total / deliveries.max(1) as f64;
        Self {
            deliveries,
            queue_requests: per(cost.queue),
            pg_round_trips: per(cost.sql),
            redis_round_trips: per(cost.redis),
            pg_seen_by_server: seen.map(per),
            cpu_s_per_1000: per(cost.cpu) * 1_000.0,
            wal_bytes: per(cost.wal),
            log_bytes: per(cost.log),
            renders: per(cost.renders),
            render_s: if cost.renders > 0.0 { cost.render_s / cost.renders } else { 0.0 },
            deliveries_per_s,
        }
    }

    fn json(&self) -> Value {
        json!({
            "deliveries": self.deliveries,
            "queue_requests": rounded(self.queue_requests, 4),
            "pg_round_trips": rounded(self.pg_round_trips, 4),
            "redis_round_trips": rounded(self.redis_round_trips, 4),
            "pg_seen_by_server": self.pg_seen_by_server.map(|seen| rounded(seen, 4)),
            "cpu_s_per_1000": rounded(self.cpu_s_per_1000, 2),
            "wal_bytes": rounded(self.wal_bytes, 0),
            "log_bytes": rounded(self.log_bytes, 0),
            "deliveries_per_s": rounded(self.deliveries_per_s, 0),
        })
    }

    /// What a delivery of this phase uses on AWS. `size`: octets of a document.
    fn used(&self, size: f64) -> Use {
        let document = DocumentUse {
            size,
            s3_puts: 1.0,
            // The renderer's adapter, the pipeline's own check, and the worker that sends it.
            s3_gets: 3.0,
            lambda_s: self.render_s,
            lambda_gb: LAMBDA_GB,
        };
        Use {
            sqs_requests: self.queue_requests,
            // On AWS the Lambda renders.
            cpu_s: (self.cpu_s_per_1000 / 1_000.0 - self.renders * self.render_s).max(0.0),
            log_bytes: self.log_bytes,
            documents: self.renders,
            document,
        }
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} deliveries, {:.0}/s; each: {:.3} queue requests, {:.3} PostgreSQL and {:.3} Redis round trips",
            self.deliveries, self.deliveries_per_s, self.queue_requests, self.pg_round_trips, self.redis_round_trips
        )
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Idle {
    pub(crate) rss_mb: f64,
    pub(crate) sql_per_s: f64,
    pub(crate) queue_per_s: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Cold {
    /// From the start of the process to readiness.
    pub(crate) ready_ms: f64,
    /// From the first post to the provider's acceptance.
    pub(crate) first_mail_ms: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Latency {
    pub(crate) rate: u32,
    pub(crate) p50_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) latest_start_ms: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Report {
    /// All phases ran; otherwise the books of one did not balance, and what comes after it is zero.
    pub(crate) complete: bool,
    pub(crate) idle: Idle,
    pub(crate) cold: Cold,
    /// The phase that the budgets are about.
    pub(crate) load: Counted,
    pub(crate) latency: Latency,
    pub(crate) with_document: Counted,
    /// Octets of a rendered document.
    pub(crate) document_size: f64,
    pub(crate) sendgrid: Counted,
    /// The same load with other numbers of recipients.
    pub(crate) recipients: Vec<(usize, Counted)>,
    /// The most under load.
    pub(crate) rss_mb: f64,
    /// After all phases of the first process.
    pub(crate) rss_after_mb: f64,
    /// Of all phases.
    pub(crate) deliveries: u64,
    pub(crate) lost: u64,
    pub(crate) duplicates: u64,
    /// Lines of the logs at WARN or ERROR.
    pub(crate) log_complaints: usize,
    /// Beside the peer, if it was asked for.
    pub(crate) versus: Option<Versus>,
}

impl Report {
    /// Name, value, bound, and whether the value may be as large as the bound.
    fn budgets(&self) -> [(&'static str, f64, f64, bool); 6] {
        [
            ("queue_requests", self.load.queue_requests, QUEUE_REQUESTS, true),
            ("pg_round_trips", self.load.pg_round_trips, PG_ROUND_TRIPS, true),
            ("redis_round_trips", self.load.redis_round_trips, REDIS_ROUND_TRIPS, true),
            ("idle_rss_mb", self.idle.rss_mb, IDLE_RSS_MB, false),
            ("lost", self.lost as f64, 0.0, true),
            ("duplicates", self.duplicates as f64, 0.0, true),
        ]
    }

    /// One line per broken promise.
    pub(crate) fn broken(&self) -> Vec<String> {
        let measured = |name: &str| self.complete || matches!(name, "lost" | "duplicates");
        let broken = self.budgets().into_iter().filter(|budget| measured(budget.0) && !kept(budget));
        broken.map(|(name, value, bound, _)| format!("{name} is {value:.4}, its bound is {bound}")).collect()
    }

    pub(crate) fn to_json(&self) -> Value {
        let budgets = self
            .budgets()
            .into_iter()
            .map(|budget| (budget.0.to_owned(), json!({"bound": budget.2, "kept": kept(&budget)})));
        let recipients = self.recipients.iter().map(|(count, counted)| (count.to_string(), counted.json()));
        let mut all = json!({
            "complete": self.complete,
            "queue_requests": rounded(self.load.queue_requests, 4),
            "pg_round_trips": rounded(self.load.pg_round_trips, 4),
            "redis_round_trips": rounded(self.load.redis_round_trips, 4),
            "pg_seen_by_server": self.load.pg_seen_by_server.map(|seen| rounded(seen, 4)),
            "cpu_s_per_1000": rounded(self.load.cpu_s_per_1000, 2),
            "deliveries_per_s": rounded(self.load.deliveries_per_s, 0),
            "p50_ms": rounded(self.latency.p50_ms, 1),
            "p95_ms": rounded(self.latency.p95_ms, 1),
            "p99_ms": rounded(self.latency.p99_ms, 1),
            "latency_events_per_s": self.latency.rate,
            "latest_start_ms": rounded(self.latency.latest_start_ms, 1),
            "rss_mb": rounded(self.rss_mb, 1),
            "rss_after_mb": rounded(self.rss_after_mb, 1),
            "idle_rss_mb": rounded(self.idle.rss_mb, 1),
            "idle_sql_per_s": rounded(self.idle.sql_per_s, 1),
            "idle_queue_requests_per_s": rounded(self.idle.queue_per_s, 2),
            "cold": {"ready_ms": rounded(self.cold.ready_ms, 0), "first_mail_ms": rounded(self.cold.first_mail_ms, 0)},
            "deliveries": self.deliveries,
            "lost": self.lost,
            "duplicates": self.duplicates,
            "log_complaints": self.log_complaints,
            "with_document": self.with_document.json(),
            "sendgrid": self.sendgrid.json(),
            "by_recipients": Value::Object(recipients.collect()),
            "aws_usd_per_million": {
                "mails": cost::per_million(&self.load.used(0.0)),
                "with_document": cost::per_million(&self.with_document.used(self.document_size)),
            },
            "budgets": Value::Object(budgets.collect()),
            "duplicates_known": self.duplicates,
        });
        if let (Some(all), Some(versus)) = (all.as_object_mut(), &self.versus) {
            all.extend(versus.to_json());
        }
        all
    }
}

/// A value that is no number keeps no promise.
fn kept(budget: &(&'static str, f64, f64, bool)) -> bool {
    let (_, value, bound, inclusive) = *budget;
    if inclusive { value <= bound } else { value < bound }
}

pub(crate) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

pub(crate) fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(0.001)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(sql: f64, idle_rss_mb: f64, lost: u64) -> Report {
        let cost =
            Counters { sql, queue: 300.0, redis: 100.0, cpu: 0.5, wal: 9e6, log: 1e5, renders: 0.0, render_s: 0.0 };
        let load = Counted::new(1_000, &cost, Some(sql), 900.0);
        let idle = Idle { rss_mb: idle_rss_mb, ..Idle::default() };
        Report { load, idle, lost, deliveries: 1_000, complete: true, ..Report::default() }
    }

    #[test]
    fn a_promise_at_its_bound_is_kept_and_memory_must_be_below() {
        assert_eq!(report(500.0, 59.9, 0).broken(), Vec::<String>::new());
        assert_eq!(report(501.0, 60.0, 1).broken().len(), 3);
        assert_eq!(report(f64::NAN, 1.0, 0).broken().len(), 1);
    }

    #[test]
    fn the_keys_that_are_read_by_others_are_there() {
        let json = report(400.0, 40.0, 0).to_json();
        for key in [
            "queue_requests",
            "pg_round_trips",
            "redis_round_trips",
            "deliveries_per_s",
            "p95_ms",
            "rss_mb",
            "idle_rss_mb",
            "deliveries",
            "lost",
            "duplicates",
            "cold",
            "budgets",
        ] {
            assert!(!json[key].is_null(), "{key}");
        }
        assert_eq!(json["pg_round_trips"], json!(0.4));
        assert_eq!(json["cpu_s_per_1000"], json!(0.5));
        assert_eq!(json["budgets"]["lost"]["kept"], json!(true));
        // 0.3 requests at 0.50 per million.
        assert_eq!(json["aws_usd_per_million"]["mails"]["sqs"], json!(0.15));
    }
}
