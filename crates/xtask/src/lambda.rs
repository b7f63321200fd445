//! `cargo xtask lambda`: the renderer's Lambda as a zip, for tests on this machine.
//!
//! What is deployed is built for Amazon Linux 2023 on arm64 instead, in the image's or the workflow's own step:
//! `cargo lambda build -p waybill-renderer --release --arm64 --output-format zip`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::args::Args;
use crate::workspace::{self, Stopwatch};
use crate::zip;

pub(crate) const HELP: &str = "\
lambda [--release]        builds the renderer's Lambda for this machine, packs it as target/lambda/renderer.zip, and
                          prints path and sizes as one line of JSON";

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let release = args.flag("--release");
    args.finish()?;
    let watch = Stopwatch::start();
    watch.heading("the renderer's bootstrap");
    // For debugging by way of its test program: a build of this package alone would choose other features of shared dependencies, and build
    // all of them anew beside those of the tests.
    let (profile, build) = if release {
        ("release", ["build", "--locked", "--release", "-p", "waybill-renderer", "--bin", "bootstrap"].as_slice())
    } else {
        ("debug", ["test", "--locked", "--workspace", "--no-run", "--quiet", "--test", "bootstrap"].as_slice())
    };
    let built = workspace::cargo(build).status().context("running cargo")?;
    ensure!(built.success(), "the build failed");
    let folder = workspace::target().join("lambda");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let binary = stripped(&workspace::target().join(profile).join("bootstrap"), &folder.join("bootstrap"))?;
    let content = std::fs::read(&binary).with_context(|| format!("reading {}", binary.display()))?;
    watch.heading("the zip");
    let archive = zip::executable("bootstrap", &content)?;
    let path = folder.join("renderer.zip");
    std::fs::write(&path, &archive).with_context(|| format!("writing {}", path.display()))?;
    println!("{}", json!({"zip": path, "bytes": archive.len(), "binary_bytes": content.len(), "profile": profile}));
    Ok(ExitCode::SUCCESS)
}

/// A copy without symbols, which are most of a build for debugging; nobody debugs inside the zip. Without binutils it stays large.
fn stripped(binary: &Path, copy: &Path) -> Result<PathBuf> {
    std::fs::copy(binary, copy).with_context(|| format!("copying {}", binary.display()))?;
    if !Command::new("strip").arg(copy).status().is_ok_and(|status| status.success()) {
        eprintln!("   no strip (Debian: binutils): the zip holds symbols");
    }
    Ok(copy.to_owned())
}
