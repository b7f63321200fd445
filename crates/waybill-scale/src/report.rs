//! The answers as Markdown and as JSON.

use crate::{
    check::Compared,
    cost::Cost,
    inputs::Inputs,
    scenario::{OUTAGES, Outcome, SIZES, Size, average_rate, drained_after, outage, peak_hour_rate, steady},
};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Length of a steady run, seconds.
const WINDOW: f64 = 600.0;
/// Above this many deliveries a month an outage is played by a tenth of the service.
const LARGE: f64 = 5e8;

/// Everything that was asked, as text and as one JSON object.
pub struct Report {
    pub markdown: String,
    pub json: Value,
}

/// Runs all scenarios. `progress` is told what is done.
pub fn all(inputs: &Inputs, seed: u64, progress: &mut dyn FnMut(&str)) -> Report {
    let mut markdown = String::from(
        "| deliveries a month | load | deliveries/s | p50 | p95 | p99 | most inside | database | busiest worker CPU | permits | SES quota | throttled | dead |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let (mut steady_json, mut outage_json) = (Vec::new(), Vec::new());
    for size in &SIZES {
        let peak = peak_hour_rate(inputs, size.deliveries_per_month);
        let stress = 10.0 * average_rate(inputs, size.deliveries_per_month);
        for (load, rate) in [("peak hour", peak), ("10 x average", stress)] {
            let outcome = steady(inputs, size, rate, WINDOW, seed).run();
            progress(&format!("{}, {load}: {} deliveries", size.name, outcome.books.created));
            steady_line(&mut markdown, size, load, rate, &outcome);
            steady_json.push(steady_value(size, load, rate, &outcome));
        }
    }
    markdown.push_str(
        "\n| deliveries a month | an hour in which | most inside | drained after | p50 | p99 | unknown | dead letters | permits |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for size in &SIZES {
        for case in &OUTAGES {
            let part = if size.deliveries_per_month > LARGE { 10.0 } else { 1.0 };
            let outcome = outage(inputs, size, case, part, seed).run();
            progress(&format!("{}, {}: {} deliveries", size.name, case.name, outcome.books.created));
            outage_line(&mut markdown, size, case.name, part, &outcome);
            outage_json.push(outage_value(size, case.name, part, &outcome));
        }
    }
    markdown.push_str("\n| deliveries a month | mails | queues | standing | in all, USD a month | per million |\n|---|---|---|---|---|---|\n");
    let mut cost_json = Vec::new();
    for size in &SIZES {
        let cost = Cost::of(inputs, size);
        let million = cost.all() / size.deliveries_per_month * 1e6;
        let _ = writeln!(
            markdown,
            "| {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} |",
            size.name,
            cost.mails,
            cost.queues,
            cost.standing,
            cost.all(),
            million
        );
        cost_json.push(json!({"size": size.name, "usd_month": cost.all().round(), "usd_per_million": (million * 100.0).round() / 100.0}));
    }
    Report { markdown, json: json!({"seed": seed, "steady": steady_json, "outages": outage_json, "cost": cost_json}) }
}

fn steady_line(markdown: &mut String, size: &Size, load: &str, rate: f64, o: &Outcome) {
    let _ = writeln!(
        markdown,
        "| {} | {load} | {rate:.0} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        size.name,
        time(o.p50),
        time(o.p95),
        time(o.p99),
        most(o, 1.0),
        percent(o.database),
        percent(o.worker),
        percent(o.permits),
        percent(o.quota),
        o.throttled,
        o.books.dead
    );
}

fn steady_value(size: &Size, load: &str, rate: f64, o: &Outcome) -> Value {
    json!({
        "size": size.name,
        "load": load,
        "deliveries_per_s": rounded(rate),
        "p50_s": rounded(o.p50),
        "p95_s": rounded(o.p95),
        "p99_s": rounded(o.p99),
        "most_inside": most(o, 1.0),
        "database": rounded(o.database),
        "api": rounded(o.api),
        "router": rounded(o.router),
        "worker": rounded(o.worker),
        "permits": rounded(o.permits),
        "quota": rounded(o.quota),
        "statements_per_delivery": rounded(o.statements),
        "throttled": o.throttled,
        "dead": o.books.dead,
    })
}

fn outage_line(markdown: &mut String, size: &Size, case: &str, part: f64, o: &Outcome) {
    let _ = writeln!(
        markdown,
        "| {} | {case} | {} | {} | {} | {} | {} | {} | {} |",
        size.name,
        most(o, part),
        drained_after(&o.books).map_or("not in 6 h".into(), |s| format!("{s:.0} s")),
        time(o.p50),
        time(o.p99),
        (o.books.unknown as f64 * part).round(),
        (o.books.dead as f64 * part).round(),
        percent(o.permits)
    );
}

fn outage_value(size: &Size, case: &str, part: f64, o: &Outcome) -> Value {
    json!({
        "size": size.name,
        "case": case,
        "played_by_one_in": part,
        "most_inside": most(o, part),
        "drained_after_s": drained_after(&o.books),
        "p50_s": rounded(o.p50),
        "p99_s": rounded(o.p99),
        "unknown": o.books.unknown as f64 * part,
        "dead": o.books.dead as f64 * part,
    })
}

/// A check as Markdown and JSON.
pub fn comparison(lines: &[Compared]) -> Report {
    let mut markdown = String::from("| | predicted | measured | error |\n|---|---|---|---|\n");
    let mut json = serde_json::Map::new();
    for line in lines {
        let error = line.error();
        let _ = writeln!(
            markdown,
            "| {} | {:.1} | {:.1} | {:+.0} % |",
            line.name,
            line.predicted,
            line.measured,
            100.0 * error
        );
        json.insert(
            line.name.into(),
            json!({"predicted": rounded(line.predicted), "measured": line.measured, "error": rounded(error)}),
        );
    }
    Report { markdown, json: json.into() }
}

fn most(o: &Outcome, part: f64) -> u64 {
    (o.books.inside.iter().max().copied().unwrap_or(0) as f64 * part) as u64
}

fn time(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1_000.0)
    } else if seconds < 120.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{:.0} min", seconds / 60.0)
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
