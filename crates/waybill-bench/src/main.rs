//! The bench's driver: puts load on the real `waybill all`, counts what a delivery costs, and balances the books.
//!
//! What it does: seeds a migrated database, plays the providers in its own process (`waybill-sink`), starts the released binary with
//! its default settings, and runs phases of load against its HTTP API. Round trips come from the binary's own counters before and after
//! a phase; where the server has `pg_stat_statements`, what PostgreSQL saw stands beside them. The last line on stdout is one JSON
//! object; the exit code is 1 when a promise is broken and 2 when the bench could not run.
//!
//! What it refuses: to read any speed before the books of the phase balance (every accepted delivery accepted by the provider, none of
//! them twice, and recorded as sent).
//!
//! Invariants:
//! - only counts decide the exit code; times are reported, because machines differ;
//! - everything is bounded: each wait has a limit and the run as a whole has one;
//! - it knows the binary from outside only: HTTP, `/metrics`, `/proc`, the database it seeded.
//!
//! By concern: [`plan`] how much, [`world`] database and sink, [`process`] the child, [`load`] closed and open loops, [`books`] lost and
//! doubled, [`counters`] round trips, [`cost`] what they cost on AWS, [`statements`] the server's view of them, [`versus`] the same beside a
//! peer, [`soak`] what grows in a long run, [`report`] budgets and JSON, [`phases`] the order of it all. `cargo xtask bench` starts the servers and this program; docs/benchmarks.md says what the numbers mean.
//!
//! To add a phase: a function in `phases.rs` and a key in `report.rs`.

mod books;
mod cost;
mod counters;
mod load;
mod phases;
mod plan;
mod process;
mod report;
mod soak;
mod statements;
mod versus;
mod world;

use std::process::ExitCode;

use anyhow::{Context as _, Result};

use plan::Plan;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("waybill-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Prints the result; `Ok(false)` when a promise is broken.
fn run() -> Result<bool> {
    let plan = Plan::from_words(std::env::args().skip(1))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    let limit = plan.limit;
    let (broken, json) = runtime.block_on(async {
        let run = tokio::time::timeout(limit, measure(&plan)).await;
        run.with_context(|| format!("the bench was not done after {} s", limit.as_secs()))?
    })?;
    // What still serves (the sink) ends with the process.
    runtime.shutdown_background();
    for broken in &broken {
        eprintln!("broken promise: {broken}");
    }
    println!("{json}");
    Ok(broken.is_empty())
}

/// The broken promises and the result.
async fn measure(plan: &Plan) -> Result<(Vec<String>, serde_json::Value)> {
    if let Some(soak) = plan.soak {
        let soaked = soak::run(soak).await?;
        return Ok((soaked.broken(), soaked.to_json()));
    }
    let report = phases::run(plan).await?;
    Ok((report.broken(), report.to_json()))
}
