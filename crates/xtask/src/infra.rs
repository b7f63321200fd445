//! `cargo xtask infra`: tests, synthesizes and lints the infrastructure in `infra/`; when asked, deploys it to an emulator and runs the
//! service on exactly what was deployed.
//!
//! What is about the infrastructure is done by the npm scripts there (see infra/README.md); this only puts them into a row, and counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::args::Args;
use crate::aws::Aws;
use crate::services::Services;
use crate::tally::Tally;
use crate::test;
use crate::workspace::{self, Stopwatch};

pub(crate) const HELP: &str = "\
infra [--deploy-emulator] tests, synthesizes and lints the infrastructure (needs Node.js 20 and Python 3.11), and ends with one line of JSON
    --deploy-emulator     then starts a MiniStack (or uses AWS_ENDPOINT_URL if it answers), deploys the stacks that need no
                          network with the renderer's zip, and sends a purchase order through the service on them";

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let deploy = args.flag("--deploy-emulator");
    args.finish()?;
    let watch = Stopwatch::start();
    let folder = workspace::root().join("infra");
    if !installed(&folder)? {
        watch.heading("npm ci");
        npm(&folder, &["ci", "--no-audit", "--no-fund"])?;
    }
    watch.heading("tests");
    let said = npm_output(&folder, &["run", "--silent", "test"])?;
    eprint!("{}", said.text);
    let passed = count(&said.text, "pass").context("the tests ended without a count")?;
    let failed = count(&said.text, "fail").context("the tests ended without a count")?;
    let mut line = json!({ "passed": passed, "failed": failed });
    if !said.success || failed > 0 {
        println!("{line}");
        return Ok(ExitCode::FAILURE);
    }
    watch.heading("synthesis");
    npm(&folder, &["run", "--silent", "synth"])?;
    watch.heading("types, cfn-lint");
    npm(&folder, &["run", "--silent", "lint"])?;
    let mut code = ExitCode::SUCCESS;
    if deploy {
        let tally = on_emulator(&folder, &watch, &mut line)?;
        line["passed"] = json!(passed + tally.passed);
        line["failed"] = json!(tally.failed);
        ensure!(tally.passed + tally.failed > 0, "no test ran on the deployed stacks");
        if tally.failed > 0 {
            code = ExitCode::FAILURE;
        }
    }
    println!("{line}");
    Ok(code)
}

/// Deploys, and runs the test that needs what was deployed.
fn on_emulator(folder: &Path, watch: &Stopwatch, line: &mut Value) -> Result<Tally> {
    let zip = test::renderer(watch)?;
    watch.heading("servers");
    let services = Services::find_or_start()?;
    let aws = Aws::find_or_start()?;
    watch.heading("deployment to the emulator");
    let mut deployment = command(folder, &["run", "--silent", "deploy:emulator"]);
    aws.apply(&mut deployment);
    deployment.env(test::RENDERER_ZIP, zip);
    let output = deployment.stderr(Stdio::inherit()).output().context(MISSING)?;
    ensure!(output.status.success(), "the deployment to the emulator failed");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let stack = said.lines().last().unwrap_or_default();
    line["emulator"] = serde_json::from_str::<Value>(stack).context("reading what was deployed")?;
    watch.heading("the service on the deployed stacks");
    let mut command =
        workspace::cargo("test --locked --workspace --test e2e deployed -- --ignored --nocapture".split_whitespace());
    services.apply(&mut command);
    aws.apply(&mut command);
    command.env("WAYBILL_TEST_STACK", stack);
    let mut tally = Tally::default();
    let code = test::run_one(command, &mut tally)?;
    ensure!(code == 0 || tally.failed > 0, "the test on the deployed stacks did not run");
    Ok(tally)
}

/// npm leaves a copy of the lock file behind: installed is what was installed after the last change of ours.
fn installed(folder: &Path) -> Result<bool> {
    let changed = |path: PathBuf| fs::metadata(path).and_then(|file| file.modified());
    let ours = changed(folder.join("package-lock.json")).context("reading infra/package-lock.json")?;
    Ok(changed(folder.join("node_modules/.package-lock.json")).is_ok_and(|theirs| theirs >= ours))
}

fn command(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(args).current_dir(folder).stdin(Stdio::null());
    command
}

/// Its output goes to our standard error: standard output is for the last line alone.
fn npm(folder: &Path, args: &[&str]) -> Result<()> {
    let status = command(folder, args).stdout(std::io::stderr()).status().context(MISSING)?;
    if !status.success() {
        bail!("npm {} failed", args.join(" "));
    }
    Ok(())
}

struct Said {
    success: bool,
    text: String,
}

fn npm_output(folder: &Path, args: &[&str]) -> Result<Said> {
    let output = command(folder, args).stderr(Stdio::inherit()).output().context(MISSING)?;
    Ok(Said { success: output.status.success(), text: String::from_utf8_lossy(&output.stdout).into_owned() })
}

const MISSING: &str = "running npm: install Node.js 20 or newer, see infra/README.md";

/// The number at the end of the runner's line `ℹ pass 80`.
fn count(text: &str, word: &str) -> Option<u64> {
    text.lines().rev().find_map(|line| {
        let mut words = line.split_whitespace().rev();
        let number = words.next()?.parse().ok()?;
        (words.next() == Some(word) && words.count() == 1).then_some(number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_the_runner_s_last_words() {
        let text = "✔ it may pass 3 (1ms)\nℹ tests 81\nℹ pass 80\nℹ fail 1\nℹ cancelled 0\n";
        assert_eq!((count(text, "pass"), count(text, "fail")), (Some(80), Some(1)));
        assert_eq!(count("✖ something else failed\n", "pass"), None);
    }
}
