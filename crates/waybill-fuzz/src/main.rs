//! Runs the fuzz targets on the stable toolchain; the last line is JSON.

use anyhow::{Context, Result, bail};
use clap::Parser;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};
use waybill_fuzz::{TARGETS, Target, find, run};

#[derive(Parser)]
struct Options {
    /// For each target
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Only this one
    #[arg(long)]
    target: Option<String>,
    /// Of the changes; the same seed makes the same inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The folder with a folder of inputs for each target
    #[arg(long, default_value = "fuzz/corpus")]
    corpus: PathBuf,
    /// Where an input goes for which something does not hold
    #[arg(long, default_value = "target/fuzz")]
    found: PathBuf,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let targets: Vec<&Target> = match &options.target {
        None => TARGETS.iter().collect(),
        Some(name) => match find(name) {
            Some(target) => vec![target],
            None => {
                bail!("no target `{name}`; known are {}", TARGETS.iter().map(|t| t.name).collect::<Vec<_>>().join(", "))
            }
        },
    };
    // Each panic is a result here and is printed once.
    std::panic::set_hook(Box::new(|_| {}));
    let (mut results, mut failed) = (Vec::new(), 0);
    for target in targets {
        let (runs, seconds, found) = fuzz(target, &options)?;
        let rate = (runs as f64 / seconds).round();
        println!("{:<16} {runs:>9} runs  {rate:>9} per second{}", target.name, if found { "  FOUND" } else { "" });
        failed += u64::from(found);
        results.push(serde_json::json!({"target": target.name, "runs": runs, "runs_per_s": rate, "found": found}));
    }
    println!("{}", serde_json::json!({"driver": "stable", "seed": options.seed, "targets": results, "found": failed}));
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs, seconds, and whether something was found.
#[expect(clippy::disallowed_methods, reason = "a developer's stopwatch")]
fn fuzz(target: &Target, options: &Options) -> Result<(u64, f64, bool)> {
    let corpus = run::corpus(&options.corpus.join(target.name))?;
    let (started, budget) = (Instant::now(), Duration::from_secs_f64(options.seconds.max(0.0)));
    let mut runs = 0;
    // The clock is dearer than most runs.
    let more = |so_far: u64| {
        runs = so_far;
        !so_far.is_multiple_of(64) || started.elapsed() < budget
    };
    let result = run::run(target, &corpus, options.seed, more);
    let seconds = started.elapsed().as_secs_f64().max(0.001);
    match result {
        Ok(all) => Ok((all, seconds, false)),
        Err(found) => {
            println!("{}: {}\n{:?}", target.name, found.message, String::from_utf8_lossy(&found.input));
            println!("kept as {}", keep(&options.found, target, &found.input)?.display());
            Ok((runs + 1, seconds, true))
        }
    }
}

fn keep(folder: &Path, target: &Target, input: &[u8]) -> Result<PathBuf> {
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let file = folder.join(format!("{}.bin", target.name));
    std::fs::write(&file, input).with_context(|| format!("writing {}", file.display()))?;
    Ok(file)
}
