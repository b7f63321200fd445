//! `cargo xtask model`: the checked model of the delivery protocol. The model is `waybill-model`; this builds and runs it.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::args::Args;
use crate::workspace;

pub(crate) const HELP: &str = "\
model [--quick] [--show]  walks through all states of the delivery protocol within stated bounds, and through wrong protocols that have
                          to be refused; ends with one line of JSON (see docs/model.md)
    --quick               smaller bounds, without a release build
    --show                each wrong protocol's counterexample, move by move";

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let (quick, show) = (args.flag("--quick"), args.flag("--show"));
    args.finish()?;
    let mut model = workspace::cargo(["run", "--quiet", "--locked", "-p", "waybill-model"]);
    model.args((!quick).then_some("--release")).arg("--");
    model.args(quick.then_some("--quick")).args(show.then_some("--show"));
    let status = model.status().context("running waybill-model")?;
    Ok(workspace::exit_code(status))
}
