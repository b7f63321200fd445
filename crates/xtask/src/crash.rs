//! `cargo xtask crash`: every row of the crash table, many times, with the books added up.

use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::args::Args;
use crate::services::Services;
use crate::tally::Tally;
use crate::workspace::{self, Stopwatch};

pub(crate) const HELP: &str = "\
crash [--times N] [--row NAME]
                          kills the real binary at each row of the crash table, N times (1), and balances the books;
                          ends with one line of JSON and fails when anything was lost or doubled
    --row NAME            only the rows with NAME in their name, such as row_05";

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let times: u64 = args.value("--times")?.map_or(Ok(1), |n| n.parse()).context("--times takes a whole number")?;
    let row = args.value("--row")?.unwrap_or_default();
    args.finish()?;
    let watch = Stopwatch::start();
    watch.heading("PostgreSQL and Redis");
    let services = Services::find_or_start()?;
    let report = workspace::target().join(format!("crash-{}.jsonl", std::process::id()));
    std::fs::remove_file(&report).ok();
    watch.heading(&format!("{times} time(s) each row"));
    let mut command =
        workspace::cargo(["test", "--locked", "-p", "waybill", "--test", "crash", "--", "--test-threads", "4", &row]);
    services.apply(&mut command);
    command.env("WAYBILL_CRASH_TIMES", times.to_string()).env("WAYBILL_CRASH_REPORT", &report).stdout(Stdio::piped());
    let mut child = command.spawn().context("running the crash tests")?;
    let mut tally = Tally::default();
    tally.follow(child.stdout.take().context("no output")?, std::io::stdout().lock())?;
    let status = child.wait().context("waiting for the crash tests")?;
    drop(services);
    let books = std::fs::read_to_string(&report).unwrap_or_default();
    std::fs::remove_file(&report).ok();
    let lines: Vec<Value> = books.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let sum = |key: &str| lines.iter().filter_map(|line| line[key].as_u64()).sum::<u64>();
    let (lost, duplicates) = (sum("lost"), sum("duplicates"));
    let rows = tally.passed + tally.failed;
    let result = json!({
        "rows": rows, "runs": lines.len(), "failed_rows": tally.failed, "deliveries": sum("deliveries"),
        "lost": lost, "duplicates": duplicates, "seconds": watch.seconds().round(),
    });
    println!("{result}");
    let kept = status.success() && lost == 0 && duplicates == 0 && rows > 0 && lines.len() as u64 == rows * times;
    Ok(if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
