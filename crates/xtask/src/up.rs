//! `cargo xtask up`: the tests' servers, for work with plain `cargo test` or `psql`.

use std::process::ExitCode;

use anyhow::Result;

use crate::args::Args;
use crate::aws::Aws;
use crate::services::Services;

pub(crate) const HELP: &str = "\
up [--aws]                starts a temporary PostgreSQL and Redis, prints the lines that set their
                          addresses in another terminal, and stops both at Ctrl-C
    --aws                 a MiniStack (an emulator of AWS) too";

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let wanted = args.flag("--aws");
    args.finish()?;
    let services = Services::find_or_start()?;
    let aws = if wanted { Some(Aws::find_or_start()?) } else { None };
    for (name, url) in services.urls() {
        println!("export {name}='{url}'");
    }
    for (name, value) in aws.iter().flat_map(Aws::environment) {
        println!("export {name}='{value}'");
    }
    if let Some(postgres) = &services.postgres {
        eprintln!("   psql and the other programs are in {}", postgres.bin_dir().display());
        eprintln!("   log and data are in {}", postgres.folder().display());
    }
    eprintln!("   Ctrl-C stops");
    // The servers stop when this process ends, however it ends.
    loop {
        std::thread::park();
    }
}
