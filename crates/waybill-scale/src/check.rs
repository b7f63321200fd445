//! Holds the model against a real run: the JSON that `cargo xtask bench` prints. The bench runs everything on one machine, so the
//! scenario does the same: statements, CPU of the service and of the load, all on the cores of one pool.

use crate::{
    inputs::Inputs,
    providers::ProviderSetup,
    scenario::{Arrivals, Scenario},
};
use serde_json::Value;

/// One number, as predicted and as measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    pub name: &'static str,
    pub predicted: f64,
    pub measured: f64,
}

impl Compared {
    /// Predicted over measured, less one.
    pub fn error(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

/// What the bench does: plan.rs in `waybill-bench`.
const POSTERS: usize = 16;
const BACKLOG: u64 = 1_000;
const EVENTS: usize = 600;
const RECIPIENTS: usize = 10;
const CORES: usize = 2;

/// # Errors
/// What is missing in the report, in words.
pub fn check(report: &Value, inputs: &Inputs, seed: u64) -> Result<Vec<Compared>, String> {
    let measured =
        |name: &str| report[name].as_f64().filter(|value| *value > 0.0).ok_or(format!("the report has no {name}"));
    // What the run itself counted: the rest of the model's numbers stay as they are.
    let mut inputs = inputs.clone();
    inputs.set("cpu_ms_per_delivery", measured("cpu_s_per_1000")?);
    inputs.set("redis_ms", inputs.get("bench_redis_ms"));
    let closed = bench(&inputs, Arrivals::Closed { posters: POSTERS, backlog: BACKLOG, events: EVENTS }, seed).run();
    let rate = measured("latency_events_per_s")? * RECIPIENTS as f64;
    let open = bench(&inputs, Arrivals::Open { deliveries_per_s: rate, seconds: 60.0 }, seed).run();
    let speed = closed.books.accepted as f64 / closed.books.last_end;
    Ok(vec![
        Compared { name: "deliveries/s, closed loop", predicted: speed, measured: measured("deliveries_per_s")? },
        Compared { name: "p50, ms", predicted: open.p50 * 1_000.0, measured: measured("p50_ms")? },
        Compared { name: "p95, ms", predicted: open.p95 * 1_000.0, measured: measured("p95_ms")? },
        Compared { name: "p99, ms", predicted: open.p99 * 1_000.0, measured: measured("p99_ms")? },
    ])
}

fn bench(inputs: &Inputs, arrivals: Arrivals, seed: u64) -> Scenario {
    Scenario {
        name: "bench".into(),
        seed,
        arrivals,
        recipients: RECIPIENTS,
        warm_up: 2.0,
        horizon: 600.0,
        api: 1,
        routers: 1,
        workers: 1,
        database_servers: CORES,
        shared_machine: true,
        providers: vec![ProviderSetup {
            name: "sink",
            median: inputs.ms("bench_provider_ms"),
            spread: 0.3,
            quota: 1e12,
            outage: None,
        }],
        inputs: inputs.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(speed: f64) -> Value {
        json!({"cpu_s_per_1000": 0.27, "deliveries_per_s": speed, "latency_events_per_s": 20, "p50_ms": 26.0, "p95_ms": 40.0, "p99_ms": 51.0})
    }

    #[test]
    fn a_report_is_compared_line_by_line_and_the_error_is_relative() {
        let lines = check(&report(1_540.0), &Inputs::default(), 1).unwrap();
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().all(|line| line.predicted > 0.0 && line.error().is_finite()));
        let line = Compared { name: "", predicted: 150.0, measured: 100.0 };
        assert_eq!(line.error(), 0.5);
    }

    #[test]
    fn more_cpu_per_delivery_is_slower() {
        let mut slow = report(1_540.0);
        slow["cpu_s_per_1000"] = json!(2.0);
        let speed = |report: &Value| check(report, &Inputs::default(), 1).unwrap()[0].predicted;
        assert!(speed(&slow) < 0.6 * speed(&report(1_540.0)));
    }

    #[test]
    fn a_report_without_its_numbers_is_refused_by_name() {
        let error = check(&json!({"complete": false}), &Inputs::default(), 1).unwrap_err();
        assert!(error.contains("cpu_s_per_1000"), "{error}");
    }
}
