//! `cargo xtask scale`: backlog, latency and cost at rates that no test machine can play. The simulation is `waybill-scale`; this builds
//! and runs it.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::args::Args;
use crate::workspace;

pub(crate) const HELP: &str = "\
scale [--seed N] [--check BENCH_JSON]
                          predicts latency, backlog, utilisation and cost at 10 million to 1 billion deliveries a month, and what an hour
                          without a provider does; a Markdown table and one line of JSON (see docs/scale.md)
    --check BENCH_JSON    predicts what cargo xtask bench measured instead, and says how far it is off; the file holds the
                          bench's last line";

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let (seed, check) = (args.value("--seed")?, args.value("--check")?);
    args.finish()?;
    let mut scale = workspace::cargo(["run", "--quiet", "--locked", "--release", "-p", "waybill-scale", "--"]);
    scale.args(seed.map(|seed| format!("--seed={seed}")));
    if let Some(path) = check {
        let path = std::path::absolute(&path).with_context(|| path.clone())?;
        scale.arg(format!("--check={}", path.display()));
    }
    let status = scale.status().context("running waybill-scale")?;
    Ok(workspace::exit_code(status))
}
