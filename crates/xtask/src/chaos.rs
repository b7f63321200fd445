//! `cargo xtask chaos`: breaks everything around the real binary by a script made from a seed, then balances the books.
//!
//! The build is here; servers, faults and balance are in `waybill-chaos`, which drives the binary from outside.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::args::Args;
use crate::workspace::{self, Stopwatch};

pub(crate) const HELP: &str = "\
chaos [--profile P] [--seconds S] [--seed N] [--release]
                          nine processes under load while a script made from the seed kills, freezes, cuts and restarts what
                          they stand on; ends with one line of JSON and fails when anything was lost or doubled that could
                          be known (see docs/chaos.md)
    --profile P           workers, redis, postgres, providers, queue or everything (everything)
    --seconds S           of load and faults (60); the end is waited for after that
    --seed N              the script's (1); the same seed repeats the same script
    --script              only prints the script
    --sabotage            loses one delivery and doubles one mail on purpose: the run has to fail
    --release             with the release build (its first build takes long)";

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let release = args.flag("--release");
    let mut words = Vec::new();
    for name in ["--profile", "--seconds", "--seed"] {
        if let Some(value) = args.value(name)? {
            words.extend([name.to_owned(), value]);
        }
    }
    for name in ["--script", "--sabotage"] {
        if args.flag(name) {
            words.push(name.to_owned());
        }
    }
    args.finish()?;
    let watch = Stopwatch::start();
    watch.heading("the build");
    let built = workspace::cargo(["build", "--locked", "--workspace", "--bin", "waybill", "--bin", "waybill-chaos"])
        .args(release.then_some("--release"))
        .env("SQLX_OFFLINE", "true")
        .status()
        .context("running cargo build")?;
    ensure!(built.success(), "the build failed");
    watch.heading("chaos");
    let binaries = workspace::target().join(if release { "release" } else { "debug" });
    let status = Command::new(binaries.join("waybill-chaos"))
        .args(words)
        .env("WAYBILL_BIN", binaries.join("waybill"))
        .env("WAYBILL_CHAOS_DIR", workspace::target().join("chaos"))
        .env("WAYBILL_SERVICES_DIR", workspace::target().join("services/cache"))
        .status()
        .context("running waybill-chaos")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
