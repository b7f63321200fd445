//! `cargo xtask test`: every test with real servers.

mod plan;

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::args::Args;
use crate::aws::Aws;
use crate::services::Services;
use crate::tally::Tally;
use crate::workspace::{self, Stopwatch};
use plan::{Kind, Step};

pub(crate) const HELP: &str = "\
test [--wheels | --aws] [--only NAME] [-- ARGS]
                          starts a PostgreSQL and a Redis (or uses DATABASE_URL and REDIS_URL if they
                          answer), runs all tests with them, stops them, and ends with a line of JSON
    --only NAME           the tests of one crate (with or without waybill-), or else those whose name has
                          NAME in it
    --wheels              the tests that download servers, which are left out otherwise
    --aws                 the tests that need an emulator of AWS, which are left out otherwise, and the
                          end-to-end and crash suites on it: starts a MiniStack too (or uses
                          AWS_ENDPOINT_URL if it answers), and builds the renderer's zip (or uses
                          WAYBILL_RENDERER_ZIP)
    -- ARGS               for the test programs, such as --nocapture";

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let only = args.value("--only")?;
    let kind = match (args.flag("--wheels"), args.flag("--aws")) {
        (true, true) => bail!("--wheels and --aws exclude each other"),
        (true, false) => Kind::Wheels,
        (false, true) => Kind::Aws,
        (false, false) => Kind::Usual,
    };
    let rest = args.finish()?;
    let steps = plan::plan(only.as_deref(), kind, &rest)?;

    let watch = Stopwatch::start();
    let renderer = if steps.iter().any(Step::needs_renderer) { Some(renderer(&watch)?) } else { None };
    watch.heading("servers");
    let services = Services::find_or_start()?;
    let aws = if kind == Kind::Aws { Some(Aws::find_or_start()?) } else { None };
    let mut tally = Tally::default();
    let mut code = 0;
    for step in &steps {
        watch.heading(&step.heading);
        let mut command = workspace::cargo(&step.arguments);
        services.apply(&mut command);
        if let Some(aws) = &aws {
            aws.apply(&mut command);
            on_emulator(&mut command, step, renderer.as_ref());
        }
        code = code.max(run_one(command, &mut tally)?);
    }
    drop((services, aws));
    println!("{}", tally.json(watch.seconds()));
    if code == 0 && tally.passed + tally.failed == 0 {
        bail!("no test ran");
    }
    Ok(ExitCode::from(code))
}

pub(crate) const RENDERER_ZIP: &str = "WAYBILL_RENDERER_ZIP";

/// The zip of the renderer's function: the caller's (an emulator may run it on another system than this one), else one that is built
/// here.
pub(crate) fn renderer(watch: &Stopwatch) -> Result<PathBuf> {
    if let Some(zip) = std::env::var_os(RENDERER_ZIP).filter(|zip| !zip.is_empty()).map(PathBuf::from) {
        ensure!(zip.is_file(), "{RENDERER_ZIP} is {}, where no file is", zip.display());
        return std::path::absolute(zip).context("resolving the path of the zip");
    }
    watch.heading("the renderer's zip");
    let code = crate::lambda::run(Args::new(std::iter::empty()))?;
    ensure!(code == ExitCode::SUCCESS, "cargo xtask lambda failed");
    let zip = workspace::target().join("lambda/renderer.zip");
    ensure!(zip.is_file(), "cargo xtask lambda made no {}", zip.display());
    Ok(zip)
}

fn on_emulator(command: &mut Command, step: &Step, renderer: Option<&PathBuf>) {
    if let Some(zip) = renderer {
        command.env(RENDERER_ZIP, zip);
    }
    if step.on_aws {
        command.env("WAYBILL_TEST_AWS", "1");
        // Each test has several processes, and one emulator in Python serves them all.
        if std::env::var_os("RUST_TEST_THREADS").is_none() {
            command.env("RUST_TEST_THREADS", "4");
        }
    }
}

/// Cargo's exit code; a process ended by a signal counts as 1.
pub(crate) fn run_one(mut command: Command, tally: &mut Tally) -> Result<u8> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("running cargo test")?;
    let stdout = child.stdout.take().context("cargo test has no output")?;
    tally.follow(stdout, std::io::stdout().lock())?;
    let status = child.wait().context("waiting for cargo test")?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}
