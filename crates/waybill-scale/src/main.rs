//! `cargo xtask scale`: progress on stderr, a Markdown table and one line of JSON on stdout.

use std::process::ExitCode;
use std::time::Instant;
use waybill_scale::{check, inputs::Inputs, report};

const USAGE: &str = "waybill-scale [--seed=N] [--check=BENCH_JSON]";

fn main() -> ExitCode {
    let (mut seed, mut bench) = (1, None);
    for word in std::env::args().skip(1) {
        match word.split_once('=') {
            Some(("--seed", number)) if number.parse::<u64>().is_ok() => seed = number.parse().unwrap_or(seed),
            Some(("--check", path)) => bench = Some(path.to_owned()),
            None | Some(_) => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    match bench {
        None => predict(seed),
        Some(path) => compare(seed, &path).unwrap_or_else(|error| {
            eprintln!("{path}: {error}");
            ExitCode::from(2)
        }),
    }
}

#[expect(clippy::disallowed_methods, reason = "a developer's stopwatch")]
fn predict(seed: u64) -> ExitCode {
    let started = Instant::now();
    let mut report = report::all(&Inputs::default(), seed, &mut |line| {
        eprintln!("[{:>3.0} s] {line}", started.elapsed().as_secs_f64());
    });
    report.json["seconds"] = ((started.elapsed().as_secs_f64() * 10.0).round() / 10.0).into();
    println!("{}\n{}", report.markdown, report.json);
    ExitCode::SUCCESS
}

/// The report is the last line of what the bench printed, or the whole file.
fn compare(seed: u64, path: &str) -> Result<ExitCode, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let last = text.lines().rfind(|line| line.starts_with('{') && line.ends_with('}')).unwrap_or(&text);
    let bench = serde_json::from_str(last).map_err(|error| format!("no JSON: {error}"))?;
    let lines = check::check(&bench, &Inputs::default(), seed)?;
    let report = report::comparison(&lines);
    println!("{}\n{}", report.markdown, report.json);
    Ok(ExitCode::SUCCESS)
}
