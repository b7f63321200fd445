use crate::args::Args;
use anyhow::Result;
use std::process::ExitCode;
pub(crate) const HELP: &str = "sqlx-prepare";
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    args.finish()?;
    Ok(ExitCode::SUCCESS)
}
