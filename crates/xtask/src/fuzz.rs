//! `cargo xtask fuzz`: the readers of everything from outside, on changed inputs.
//!
//! With cargo-fuzz where a nightly toolchain has it, which follows the coverage; else with the runner of `waybill-fuzz`, which works on the
//! stable toolchain and repeats its inputs by a seed.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::args::Args;
use crate::workspace::{self, Stopwatch};

pub(crate) const HELP: &str = "\
fuzz [--seconds S] [--target NAME] [--seed N] [--stable]
                          runs every fuzz target for S seconds (10) on its corpus in fuzz/corpus and changes of it; ends with one line of
                          JSON and fails when something was found
    --stable              with our own runner, also where cargo-fuzz is installed for the nightly toolchain";

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let seconds: f64 = args.value("--seconds")?.map_or(Ok(10.0), |n| n.parse()).context("--seconds takes a number")?;
    let (target, seed) = (args.value("--target")?, args.value("--seed")?);
    let stable = args.flag("--stable");
    args.finish()?;
    if !stable && has_cargo_fuzz() {
        return with_coverage(seconds, target.as_deref());
    }
    // With the features of the whole workspace: a build of one package would build its dependencies anew.
    let build = ["build", "--quiet", "--locked", "--workspace", "--bin", "waybill-fuzz"];
    let built = workspace::cargo(build).status().context("running cargo build")?;
    ensure!(built.success(), "the build failed");
    let mut command = Command::new(workspace::target().join("debug/waybill-fuzz"));
    command.arg(format!("--seconds={seconds}"));
    command.args(target.map(|target| format!("--target={target}"))).args(seed.map(|seed| format!("--seed={seed}")));
    let corpus = workspace::root().join("fuzz/corpus");
    command.arg("--corpus").arg(corpus).arg("--found").arg(workspace::target().join("fuzz"));
    let status = command.status().context("running waybill-fuzz")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// rustup's `cargo`, not the one of this repository's toolchain.
fn nightly() -> Command {
    let mut command = Command::new("cargo");
    command.args(["+nightly", "fuzz"]).current_dir(workspace::root());
    // Of the toolchain that runs us; rustup would stay with it.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    command
}

fn has_cargo_fuzz() -> bool {
    let quiet = nightly().arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

fn with_coverage(seconds: f64, only: Option<&str>) -> Result<ExitCode> {
    let watch = Stopwatch::start();
    let listed = nightly().arg("list").output().context("running cargo fuzz list")?;
    ensure!(listed.status.success(), "cargo fuzz list failed");
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    let targets: Vec<&str> =
        names.lines().map(str::trim).filter(|name| only.is_none_or(|only| only == *name)).collect();
    ensure!(!targets.is_empty(), "no such target");
    let mut found = Vec::new();
    for target in &targets {
        watch.heading(target);
        // New inputs go to the first folder; the corpus of the repository stays small.
        let grown = workspace::target().join("fuzz/corpus").join(target);
        std::fs::create_dir_all(&grown).with_context(|| format!("making {}", grown.display()))?;
        let mut command = nightly();
        command.args(["run", target]).arg(grown).arg(workspace::root().join("fuzz/corpus").join(target));
        command.args(["--", &format!("-max_total_time={}", seconds.ceil())]);
        if !command.status().context("running cargo fuzz")?.success() {
            found.push(*target);
        }
    }
    println!("{}", json!({"driver": "cargo-fuzz", "targets": targets.len(), "found": found.len(), "found_by": found}));
    Ok(if found.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
