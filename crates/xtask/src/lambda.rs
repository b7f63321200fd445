//! `cargo xtask lambda`: the renderer's Lambda as a zip, for tests on this machine.
//!
//! What is deployed is built for Amazon Linux 2023 on arm64 instead, in the image's or the workflow's own step:
//! `cargo lambda build -p waybill-renderer --release --arm64 --output-format zip`.

use std::process::ExitCode;

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
    // Symbols are most of a build for debugging, and nobody debugs inside the zip.
    let mut build = vec!["rustc", "--locked", "-p", "waybill-renderer", "--bin", "bootstrap"];
    build.extend(release.then_some("--release"));
    build.extend(["--", "-C", "strip=symbols"]);
    let built = workspace::cargo(build).status().context("running cargo")?;
    ensure!(built.success(), "the build failed");
    let profile = if release { "release" } else { "debug" };
    let binary = workspace::target().join(profile).join("bootstrap");
    let content = std::fs::read(&binary).with_context(|| format!("reading {}", binary.display()))?;
    watch.heading("the zip");
    let archive = zip::executable("bootstrap", &content)?;
    let folder = workspace::target().join("lambda");
    let path = folder.join("renderer.zip");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    std::fs::write(&path, &archive).with_context(|| format!("writing {}", path.display()))?;
    println!("{}", json!({"zip": path, "bytes": archive.len(), "binary_bytes": content.len(), "profile": profile}));
    Ok(ExitCode::SUCCESS)
}
