//! What came out, as JSON and as Markdown, and by how much each goal is missed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::{limits::Limits, side::Round};
use crate::report::rounded;

/// One round of each side.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Pair {
    pub(crate) ours: Round,
    pub(crate) other: Option<Round>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Times {
    pub(crate) p50_ms: f64,
    pub(crate) p95_ms: f64,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Versus {
    pub(crate) limits: Limits,
    /// By recipients per event.
    pub(crate) pairs: BTreeMap<usize, Vec<Pair>>,
    /// Ours, and the other side's.
    pub(crate) memory_mb: (f64, Option<f64>),
    pub(crate) latency: (Times, Option<Times>),
    pub(crate) two_commits_ms: f64,
    /// The rate with provider faults as a share of the rate without, per pair.
    pub(crate) faults: Vec<f64>,
    /// Of the tenant that sends little, beside one that floods.
    pub(crate) neighbour: Times,
}

/// A value over pairs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    /// `None` of nothing.
    fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_unstable_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len().is_multiple_of(2) { (values[middle - 1] + values[middle]) / 2.0 } else { values[middle] };
        Some(Spread { median, least, most })
    }

    fn json(self, digits: i32) -> Value {
        json!({"median": rounded(self.median, digits), "least": rounded(self.least, digits), "most": rounded(self.most, digits)})
    }
}

/// What should come out, and what did.
struct Goal {
    name: &'static str,
    value: f64,
    bound: f64,
    at_least: bool,
}

impl Goal {
    fn met(&self) -> bool {
        if self.at_least { self.value >= self.bound } else { self.value <= self.bound }
    }

    fn json(&self) -> Value {
        let missed = if self.met() { 0.0 } else { (self.value / self.bound - 1.0).abs() * 100.0 };
        json!({
            "goal": rounded(self.bound, 2), "value": rounded(self.value, 4), "met": self.met(), "missed_by_percent": rounded(missed, 1)
        })
    }
}

impl Pair {
    pub(crate) fn line(&self, recipients: usize) -> String {
        let deliveries = self.ours.books.wanted as f64 / 1_000.0;
        let mut line = format!(
            "r={recipients}: {:.0}/s; CPU s per 1,000: own {:.3}, PostgreSQL {:.3}, Redis {:.3}, load and sink {:.3}",
            self.ours.per_s,
            self.ours.cpu_s / deliveries,
            self.ours.servers.postgres_s / deliveries,
            self.ours.servers.redis_s / deliveries,
            self.ours.servers.driver_s / deliveries
        );
        if let Some(other) = &self.other {
            let deliveries = other.books.wanted as f64 / 1_000.0;
            let _ = write!(
                line,
                " | the other: {:.0}/s; own {:.3}, PostgreSQL {:.3}, Redis {:.3}, load and recipients {:.3} | {:.2} x",
                other.per_s,
                other.cpu_s / deliveries,
                other.servers.postgres_s / deliveries,
                other.servers.redis_s / deliveries,
                other.servers.driver_s / deliveries,
                self.ours.per_s / other.per_s
            );
        }
        line
    }

    fn ratio(&self) -> Option<f64> {
        self.other.as_ref().map(|other| self.ours.per_s / other.per_s)
    }
}

fn per_delivery(round: &Round, total: f64) -> f64 {
    total / round.books.wanted.max(1) as f64
}

impl Versus {
    fn spread(&self, recipients: usize, value: impl Fn(&Pair) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.pairs.get(&recipients)?.iter().filter_map(value))
    }

    fn median(&self, recipients: usize, value: impl Fn(&Pair) -> Option<f64>) -> f64 {
        self.spread(recipients, value).map_or(f64::NAN, |spread| spread.median)
    }

    /// Ours as a share of half of the rows that the machine inserts per second.
    fn of_limit(&self, recipients: usize) -> f64 {
        self.median(recipients, |pair| Some(pair.ours.per_s)) / (self.limits.rows_per_s / 2.0)
    }

    fn counted(&self, recipients: usize, total: impl Fn(&Round) -> Option<f64>) -> f64 {
        self.median(recipients, |pair| total(&pair.ours).map(|total| per_delivery(&pair.ours, total)))
    }

    fn fsyncs(&self, recipients: usize) -> f64 {
        self.counted(recipients, |round| Some(round.servers.flushes))
    }

    fn statements(&self, recipients: usize) -> f64 {
        self.counted(recipients, |round| Some(round.counters?.sql))
    }

    fn cpu(&self, recipients: usize) -> f64 {
        self.counted(recipients, |round| Some(round.cpu_s * 1_000.0))
    }

    fn memory_ratio(&self) -> f64 {
        self.memory_mb.1.map_or(f64::NAN, |other| self.memory_mb.0 / other)
    }

    fn faults_ratio(&self) -> f64 {
        Spread::of(self.faults.iter().copied()).map_or(f64::NAN, |spread| spread.median)
    }

    /// The goals that this run can say something about.
    fn goals(&self) -> Vec<Goal> {
        let at_least = |name, value, bound| Goal { name, value, bound, at_least: true };
        let at_most = |name, value, bound| Goal { name, value, bound, at_least: false };
        let goals = [
            at_least("ratio_peer_r1", self.median(1, Pair::ratio), 6.0),
            at_least("ratio_peer_r10", self.median(10, Pair::ratio), 8.0),
            at_least("ratio_peer_r100", self.median(100, Pair::ratio), 10.0),
            at_least("ratio_limit_r10", self.of_limit(10), 0.3),
            at_least("ratio_limit_r100", self.of_limit(100), 0.3),
            at_most("cpu_s_per_1k", self.cpu(10), 0.25),
            at_most("latency_p50_ms", self.latency.0.p50_ms, 2.0 * self.two_commits_ms),
            at_most("latency_p95_ms", self.latency.0.p95_ms, self.latency.1.map_or(f64::NAN, |times| times.p95_ms)),
            at_least("faults_ratio", self.faults_ratio(), 0.9),
            at_most("memory_ratio", self.memory_ratio(), 0.5),
            at_most("statements", self.statements(10), 0.5),
            at_most("fsyncs", self.fsyncs(10), 0.1),
            at_most("redis_round_trips", self.counted(10, |round| Some(round.counters?.redis)), 0.2),
            at_most("queue_requests", self.counted(10, |round| Some(round.counters?.queue)), 0.35),
        ];
        goals.into_iter().filter(|goal| goal.value.is_finite() && goal.bound.is_finite()).collect()
    }

    pub(crate) fn missed(&self) -> Vec<String> {
        let missed = self.goals().into_iter().filter(|goal| !goal.met());
        missed.map(|goal| format!("{} is {:.3}, its goal {:.3}", goal.name, goal.value, goal.bound)).collect()
    }

    pub(crate) fn latency_line(&self) -> String {
        let peer = self.latency.1.map_or_else(String::new, |times| {
            format!("; the other: p50 {:.1} ms, p95 {:.1} ms", times.p50_ms, times.p95_ms)
        });
        let ours = self.latency.0;
        format!(
            "latency: p50 {:.1} ms, p95 {:.1} ms{peer}; two commits {:.1} ms",
            ours.p50_ms, ours.p95_ms, self.two_commits_ms
        )
    }

    pub(crate) fn to_json(&self) -> Map<String, Value> {
        let by_recipients = |value: &dyn Fn(usize) -> Value| {
            Value::Object(self.pairs.keys().map(|count| (format!("r{count}"), value(*count))).collect())
        };
        let spread = |count: usize, digits: i32, value: &dyn Fn(&Pair) -> Option<f64>| {
            self.spread(count, value).map_or(Value::Null, |spread| spread.json(digits))
        };
        let number =
            |value: f64, digits: i32| if value.is_finite() { json!(rounded(value, digits)) } else { Value::Null };
        let times = |times: Times| json!({"p50": rounded(times.p50_ms, 1), "p95": rounded(times.p95_ms, 1)});
        let other = |pair: &Pair, value: &dyn Fn(&Round) -> f64| pair.other.as_ref().map(value);
        let goals = self.goals();
        let all = json!({
            "pairs": self.pairs.values().map(Vec::len).max(),
            "ratio_peer": by_recipients(&|count| number(self.median(count, Pair::ratio), 2)),
            "ratio_peer_spread": by_recipients(&|count| spread(count, 2, &Pair::ratio)),
            "ratio_limit": by_recipients(&|count| number(self.of_limit(count), 3)),
            "rows_per_s": rounded(self.limits.rows_per_s, 0),
            "commit_ms": rounded(self.limits.commit_ms, 2),
            "rates": {
                "ours": by_recipients(&|count| spread(count, 0, &|pair| Some(pair.ours.per_s))),
                "peer": by_recipients(&|count| spread(count, 0, &|pair| other(pair, &|round| round.per_s))),
            },
            "cpu_s_per_1k": number(self.cpu(10), 3),
            "cpu_s_per_1k_by": {
                "ours": by_recipients(&|count| number(self.cpu(count), 3)),
                "peer": by_recipients(&|count| spread(count, 3, &|pair| other(pair, &|round| per_delivery(round, round.cpu_s) * 1_000.0))),
                "ours_postgres": by_recipients(&|count| number(self.counted(count, |round| Some(round.servers.postgres_s * 1_000.0)), 3)),
                "ours_redis": by_recipients(&|count| number(self.counted(count, |round| Some(round.servers.redis_s * 1_000.0)), 3)),
                "ours_load_and_sink": by_recipients(&|count| number(self.counted(count, |round| Some(round.servers.driver_s * 1_000.0)), 3)),
            },
            "memory_mb": {"ours": rounded(self.memory_mb.0, 1), "peer": self.memory_mb.1.map(|mb| rounded(mb, 1))},
            "memory_ratio": number(self.memory_ratio(), 2),
            "latency": {
                "ours": times(self.latency.0), "peer": self.latency.1.map(times), "two_commits_ms": rounded(self.two_commits_ms, 1),
                "events_per_s": super::RATE,
            },
            "faults_ratio": number(self.faults_ratio(), 3),
            "neighbour_ms": times(self.neighbour),
            "per_delivery": by_recipients(&|count| json!({
                "statements": number(self.statements(count), 3),
                "fsyncs": number(self.fsyncs(count), 3),
                "wal_bytes": number(self.counted(count, |round| Some(round.servers.wal)), 0),
                "redis_round_trips": number(self.counted(count, |round| Some(round.counters?.redis)), 3),
                "queue_requests": number(self.counted(count, |round| Some(round.counters?.queue)), 3),
            })),
            "goals": Value::Object(goals.iter().map(|goal| (goal.name.to_owned(), goal.json())).collect()),
            "goals_missed": goals.iter().filter(|goal| !goal.met()).count(),
        });
        match all {
            Value::Object(map) => map,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
        }
    }

    /// For people.
    pub(crate) fn to_markdown(&self) -> String {
        let mut text = String::from("| | 1 recipient | 10 | 100 |\n|---|---|---|---|\n");
        let mut row = |name: &str, cell: &dyn Fn(usize) -> String| {
            let cells: Vec<String> = super::RECIPIENTS.iter().map(|count| cell(*count)).collect();
            let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
        };
        let shown = |spread: Option<Spread>, digits: usize| {
            spread.map_or_else(
                || "-".to_owned(),
                |s| format!("{:.digits$} ({:.digits$} to {:.digits$})", s.median, s.least, s.most),
            )
        };
        row("Waybill, deliveries/s", &|count| shown(self.spread(count, |pair| Some(pair.ours.per_s)), 0));
        row("peer, deliveries/s", &|count| {
            shown(self.spread(count, |pair| pair.other.as_ref().map(|other| other.per_s)), 0)
        });
        row("times the peer", &|count| shown(self.spread(count, Pair::ratio), 2));
        row("share of the limit", &|count| format!("{:.2}", self.of_limit(count)));
        row("CPU s per 1,000, Waybill", &|count| format!("{:.2}", self.cpu(count)));
        row("CPU s per 1,000, peer", &|count| {
            let cpu = |round: &Round| per_delivery(round, round.cpu_s) * 1_000.0;
            self.spread(count, |pair| pair.other.as_ref().map(cpu))
                .map_or_else(|| "-".to_owned(), |s| format!("{:.2}", s.median))
        });
        row("statements per delivery", &|count| format!("{:.3}", self.statements(count)));
        row("flushes per delivery", &|count| format!("{:.3}", self.fsyncs(count)));
        text.push_str("\n| goal | is | should be | |\n|---|---|---|---|\n");
        for goal in self.goals() {
            let _ = writeln!(
                text,
                "| {} | {:.3} | {} {:.3} | {} |",
                goal.name,
                goal.value,
                if goal.at_least { ">=" } else { "<=" },
                goal.bound,
                if goal.met() {
                    "met".to_owned()
                } else {
                    format!("missed by {:.0} %", (goal.value / goal.bound - 1.0).abs() * 100.0)
                }
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{books::Books, counters::Counters};

    fn round(per_s: f64) -> Round {
        let counters = Counters {
            sql: 400.0,
            queue: 330.0,
            redis: 100.0,
            cpu: 0.2,
            wal: 0.0,
            log: 0.0,
            renders: 0.0,
            render_s: 0.0,
        };
        let books = Books { wanted: 1_000, lost: 0, duplicates: 0 };
        Round { books, per_s, cpu_s: 0.2, counters: Some(counters), ..Round::default() }
    }

    fn versus(ratios: &[f64]) -> Versus {
        let pair = |ratio: &f64| Pair { ours: round(ratio * 100.0), other: Some(round(100.0)) };
        let pairs: Vec<Pair> = ratios.iter().map(pair).collect();
        Versus {
            limits: Limits { rows_per_s: 4_000.0, commit_ms: 1.0 },
            pairs: [(10, pairs)].into(),
            memory_mb: (30.0, Some(100.0)),
            faults: vec![0.95],
            two_commits_ms: 2.0,
            latency: (Times { p50_ms: 5.0, p95_ms: 9.0 }, Some(Times { p50_ms: 6.0, p95_ms: 10.0 })),
            ..Versus::default()
        }
    }

    #[test]
    fn the_median_of_pairs_counts_and_the_spread_is_shown() {
        let json = Value::Object(versus(&[9.0, 7.0, 8.0]).to_json());
        assert_eq!(json["ratio_peer"]["r10"], json!(8.0));
        assert_eq!(json["ratio_peer_spread"]["r10"], json!({"median": 8.0, "least": 7.0, "most": 9.0}));
        assert_eq!(json["ratio_limit"]["r10"], json!(0.4));
        assert_eq!((&json["memory_ratio"], &json["cpu_s_per_1k"]), (&json!(0.3), &json!(0.2)));
        assert_eq!(json["goals"]["ratio_peer_r10"]["met"], json!(true));
    }

    #[test]
    fn a_missed_goal_is_named_with_its_distance_and_one_without_a_value_is_not() {
        let versus = versus(&[6.0]);
        let json = Value::Object(versus.to_json());
        assert_eq!(json["goals"]["ratio_peer_r10"]["missed_by_percent"], json!(25.0));
        assert_eq!(json["goals"]["latency_p50_ms"]["met"], json!(false));
        assert!(json["goals"]["ratio_peer_r1"].is_null());
        assert_eq!(versus.missed().len(), 2, "{:?}", versus.missed());
        assert!(versus.to_markdown().contains("| ratio_peer_r10 | 6.000 | >= 8.000 | missed by 25 % |"));
    }
}
