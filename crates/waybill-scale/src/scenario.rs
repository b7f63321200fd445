//! The questions, and one run of the simulation as an answer.

use crate::{
    inputs::Inputs,
    pool::Pool,
    providers::{Outage, OutageKind, ProviderSetup},
    system::{Books, DATABASE, KINDS, Kind, System},
};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// Poisson, for `seconds`.
    Open { deliveries_per_s: f64, seconds: f64 },
    /// Posters that post again when they are answered, unless `backlog` deliveries are inside.
    Closed { posters: usize, backlog: u64, events: usize },
}

#[derive(Debug, Clone)]
pub struct Scenario {
    pub name: String,
    pub seed: u64,
    pub arrivals: Arrivals,
    /// Recipients per event.
    pub recipients: usize,
    /// Seconds at the start whose deliveries don't count for latency.
    pub warm_up: f64,
    /// When the run ends at the latest.
    pub horizon: f64,
    pub api: usize,
    pub routers: usize,
    pub workers: usize,
    /// Cores of the database.
    pub database_servers: usize,
    /// Everything on the database's cores, the queue in the database: the bench.
    pub shared_machine: bool,
    pub providers: Vec<ProviderSetup>,
    pub inputs: Inputs,
}

/// The answer.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub books: Books,
    /// Seconds, of what was posted after the warm-up and accepted.
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    /// Of the database, and the busiest process of each role; of all permits; of the first provider's quota.
    pub database: f64,
    pub api: f64,
    pub router: f64,
    pub worker: f64,
    pub permits: f64,
    pub quota: f64,
    /// Statements per delivery, and deliveries per claim's statement.
    pub statements: f64,
    pub rows_per_claim: f64,
    pub throttled: u64,
}

impl Scenario {
    /// Deliveries per second that come, as the publishers see it.
    pub fn expected_rate(&self) -> f64 {
        match self.arrivals {
            Arrivals::Open { deliveries_per_s, .. } => deliveries_per_s,
            // As fast as they go: always worth waiting for.
            Arrivals::Closed { .. } => f64::INFINITY,
        }
    }

    pub fn run(&self) -> Outcome {
        let mut system = System::new(self);
        system.run();
        let seconds = match self.arrivals {
            Arrivals::Open { seconds, .. } => seconds,
            Arrivals::Closed { .. } => system.books.last_end,
        };
        let busiest = |from: usize, count: usize| {
            let pools = system.pools.get(from..from + count).unwrap_or_default();
            pools.iter().map(|pool: &Pool<_>| pool.utilisation(seconds)).fold(0.0, f64::max)
        };
        let first_claims = system.lanes.iter().skip(self.api + Kind::Claim as usize).step_by(KINDS);
        let (claims, claimed) = first_claims.fold((0, 0), |(s, u), lane| (s + lane.statements, u + lane.units));
        let mut books = system.books.clone();
        books.statements += system.lanes.iter().map(|lane| lane.statements).sum::<u64>();
        let permits = (self.workers * self.inputs.count("permits")) as f64;
        let quota = system.providers.first().map_or(0.0, |p| p.accepted as f64 / (seconds * p.setup.quota));
        Outcome {
            p50: books.times.percentile(0.50),
            p95: books.times.percentile(0.95),
            p99: books.times.percentile(0.99),
            database: system.pools[DATABASE].utilisation(seconds),
            api: busiest(1, self.api),
            router: busiest(1 + self.api, self.routers),
            worker: busiest(1 + self.api + self.routers, self.workers),
            permits: books.permit_seconds / (seconds * permits),
            quota,
            statements: books.statements as f64 / books.created.max(1) as f64,
            rows_per_claim: claimed as f64 / claims.max(1) as f64,
            throttled: system.providers.iter().map(|p| p.throttled).sum(),
            books,
        }
    }
}

/// How large the service is at a volume: what docs/running-on-aws.md recommends, in the steps of `infra/`.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub name: &'static str,
    pub deliveries_per_month: f64,
    pub api: usize,
    pub routers: usize,
    pub workers: usize,
    pub database_servers: usize,
    /// Mails per second of the first provider's account; the second one has the same.
    pub quota: f64,
}

pub const SIZES: [Size; 3] = [
    Size {
        name: "10 million",
        deliveries_per_month: 1e7,
        api: 2,
        routers: 2,
        workers: 2,
        database_servers: 2,
        quota: 50.0,
    },
    Size {
        name: "100 million",
        deliveries_per_month: 1e8,
        api: 2,
        routers: 2,
        workers: 4,
        database_servers: 2,
        quota: 500.0,
    },
    Size {
        name: "1 billion",
        deliveries_per_month: 1e9,
        api: 4,
        routers: 4,
        workers: 20,
        database_servers: 8,
        quota: 5_000.0,
    },
];

/// Deliveries per second in the busiest hour of a day.
pub fn peak_hour_rate(inputs: &Inputs, deliveries_per_month: f64) -> f64 {
    let days = inputs.get("hours_per_month") / 24.0;
    deliveries_per_month / days * inputs.get("peak_hour_share") / 3_600.0
}

/// Deliveries per second, averaged over a month.
pub fn average_rate(inputs: &Inputs, deliveries_per_month: f64) -> f64 {
    deliveries_per_month / (inputs.get("hours_per_month") * 3_600.0)
}

/// A service of this size under a steady rate for `seconds`.
pub fn steady(inputs: &Inputs, size: &Size, deliveries_per_s: f64, seconds: f64, seed: u64) -> Scenario {
    let provider = |name, median: &str, spread: &str| ProviderSetup {
        name,
        median: inputs.ms(median),
        spread: inputs.get(spread),
        quota: size.quota,
        outage: None,
    };
    Scenario {
        name: size.name.into(),
        seed,
        arrivals: Arrivals::Open { deliveries_per_s, seconds },
        recipients: 10,
        warm_up: seconds / 10.0,
        horizon: seconds + 3_600.0,
        api: size.api,
        routers: size.routers,
        workers: size.workers,
        database_servers: size.database_servers,
        shared_machine: false,
        providers: vec![
            provider("ses", "ses_ms", "ses_spread"),
            provider("sendgrid", "fallback_ms", "fallback_spread"),
        ],
        inputs: inputs.clone(),
    }
}

/// An hour without the first provider, or without both, in the middle of a busy time.
#[derive(Debug, Clone, Copy)]
pub struct OutageCase {
    pub name: &'static str,
    pub kind: OutageKind,
    pub both: bool,
}

pub const OUTAGES: [OutageCase; 3] = [
    OutageCase { name: "primary refuses", kind: OutageKind::Refuses, both: false },
    OutageCase { name: "primary hangs", kind: OutageKind::Hangs, both: false },
    OutageCase { name: "both refuse", kind: OutageKind::Refuses, both: true },
];

pub const OUTAGE_FROM: f64 = 300.0;
pub const OUTAGE_UNTIL: f64 = OUTAGE_FROM + 3_600.0;

/// `part` of a service of this size (rate, quotas and workers divided by it), so that a run stays short.
pub fn outage(inputs: &Inputs, size: &Size, case: &OutageCase, part: f64, seed: u64) -> Scenario {
    let rate = peak_hour_rate(inputs, size.deliveries_per_month) / part;
    let small =
        Size { quota: size.quota / part, workers: ((size.workers as f64 / part).round() as usize).max(1), ..*size };
    let mut scenario = steady(inputs, &small, rate, OUTAGE_UNTIL + 1_200.0, seed);
    scenario.horizon = OUTAGE_UNTIL + 6.0 * 3_600.0;
    let away = if case.both { 2 } else { 1 };
    for provider in scenario.providers.iter_mut().take(away) {
        provider.outage = Some(Outage { from: OUTAGE_FROM, until: OUTAGE_UNTIL, kind: case.kind });
    }
    scenario
}

/// Seconds after the end of an outage until no more is inside than twice what was before it (or 100); `None` if the run ended before.
pub fn drained_after(books: &Books) -> Option<f64> {
    let at = |seconds: f64| books.inside.get(seconds as usize - 1).copied().unwrap_or(0);
    let before = (60..OUTAGE_FROM as u32).map(|s| at(f64::from(s))).max().unwrap_or(0);
    let calm = (2 * before).max(100);
    let after = books.inside.iter().skip(OUTAGE_UNTIL as usize);
    after.clone().position(|inside| *inside <= calm).map(|seconds| seconds as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Scenario {
        let inputs = Inputs::default();
        steady(&inputs, &SIZES[0], 40.0, 120.0, 3)
    }

    fn conserved(books: &Books) {
        assert_eq!(books.created, books.accepted + books.dead + books.inside_now());
    }

    #[test]
    fn what_comes_in_comes_out_and_is_counted() {
        let outcome = small().run();
        conserved(&outcome.books);
        assert!(outcome.books.created > 3_000, "{}", outcome.books.created);
        assert_eq!((outcome.books.inside_now(), outcome.books.dead), (0, 0));
        assert!(outcome.p50 < outcome.p95 && outcome.p95 <= outcome.p99);
        // It can't be faster than the provider.
        assert!(outcome.p50 > Inputs::default().ms("ses_ms"));
    }

    #[test]
    fn cut_in_the_middle_the_rest_is_inside() {
        let mut scenario = small();
        scenario.horizon = 60.0;
        let outcome = scenario.run();
        conserved(&outcome.books);
        assert!(outcome.books.accepted > 1_000);
    }

    #[test]
    fn little_s_law_holds_for_the_whole_service() {
        let mut scenario = steady(&Inputs::default(), &SIZES[1], 400.0, 600.0, 5);
        scenario.warm_up = 0.0;
        let outcome = scenario.run();
        let inside = outcome.books.inside.iter().sum::<u64>() as f64 / outcome.books.inside.len() as f64;
        let mean = outcome.books.mean_time();
        let wanted = outcome.books.created as f64 / 600.0 * mean;
        // A delivery is inside until its acceptance is recorded, some milliseconds longer than its time.
        assert!((inside / wanted - 1.0).abs() < 0.1, "{inside} inside, {wanted} by Little's law");
    }

    #[test]
    fn the_same_seed_gives_the_same_result_and_another_one_another() {
        let scenario = small();
        let of = |seed| {
            let outcome = Scenario { seed, ..scenario.clone() }.run();
            (outcome.books.created, outcome.books.statements, outcome.p50.to_bits(), outcome.p99.to_bits())
        };
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
    }

    #[test]
    fn an_outage_of_the_primary_is_drained_and_loses_nothing() {
        let inputs = Inputs::default();
        for case in OUTAGES.iter().filter(|case| !case.both) {
            let outcome = outage(&inputs, &SIZES[0], case, 1.0, 1).run();
            conserved(&outcome.books);
            assert_eq!(outcome.books.inside_now(), 0, "{}", case.name);
            assert_eq!(outcome.books.dead, 0, "{}", case.name);
            assert!(drained_after(&outcome.books).is_some_and(|s| s < 120.0), "{}", case.name);
        }
    }

    #[test]
    fn without_any_provider_attempts_run_out_and_nothing_is_lost_silently() {
        let outcome = outage(&Inputs::default(), &SIZES[0], &OUTAGES[2], 1.0, 1).run();
        conserved(&outcome.books);
        assert!(outcome.books.dead > 30_000, "{}", outcome.books.dead);
        assert_eq!(outcome.books.inside_now(), 0);
    }

    #[test]
    fn above_the_capacity_of_the_calls_the_backlog_grows() {
        let inputs = Inputs::default();
        let size = Size { workers: 1, quota: 1e6, ..SIZES[1] };
        // 200 permits and at least 80 ms per call: less than 2,500 a second.
        let outcome = steady(&inputs, &size, 3_750.0, 60.0, 1).run();
        let most = outcome.books.inside.iter().max().copied().unwrap_or(0);
        assert!(most > 20_000, "{most}");
        assert!(outcome.permits > 0.9, "{}", outcome.permits);
    }
}
