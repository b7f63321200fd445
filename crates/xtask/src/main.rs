//! The developer's commands: `cargo xtask COMMAND`.
//!
//! One module per command, each with a `HELP` text and a `run(args) -> Result<ExitCode>`; `COMMANDS` below is the list.
//! What several commands need is in `workspace` (paths, cargo), `services` (PostgreSQL and Redis), `aws` (an emulator) and `tally`
//! (counting test results).
//!
//! It must build in seconds, because everybody's first command runs through it: no async runtime, no command line
//! parser, no crate of ours but `waybill-services`. A command that needs more starts the `waybill` binary or a test as
//! a process of its own.
//!
//! To add a command: a module, and a line in `COMMANDS`.

mod args;
mod aws;
mod bench;
mod chaos;
mod crash;
mod fuzz;
mod infra;
mod lambda;
mod model;
mod peer;
mod scale;
mod services;
mod sqlx_prepare;
mod tally;
mod test;
mod up;
mod workspace;
mod zip;

use std::process::ExitCode;

use anyhow::Result;

use args::Args;

struct Command {
    name: &'static str,
    help: &'static str,
    run: fn(Args) -> Result<ExitCode>,
}

const COMMANDS: &[Command] = &[
    Command { name: "test", help: test::HELP, run: test::run },
    Command { name: "crash", help: crash::HELP, run: crash::run },
    Command { name: "fuzz", help: fuzz::HELP, run: fuzz::run },
    Command { name: "bench", help: bench::HELP, run: bench::run },
    Command { name: "soak", help: bench::SOAK_HELP, run: bench::soak },
    Command { name: "model", help: model::HELP, run: model::run },
    Command { name: "chaos", help: chaos::HELP, run: chaos::run },
    Command { name: "scale", help: scale::HELP, run: scale::run },
    Command { name: "infra", help: infra::HELP, run: infra::run },
    Command { name: "lambda", help: lambda::HELP, run: lambda::run },
    Command { name: "up", help: up::HELP, run: up::run },
    Command { name: "sqlx-prepare", help: sqlx_prepare::HELP, run: sqlx_prepare::run },
];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_default();
    if let Some(command) = COMMANDS.iter().find(|command| command.name == name) {
        return (command.run)(Args::new(words)).unwrap_or_else(|error| {
            eprintln!("xtask {name}: {error:#}");
            ExitCode::FAILURE
        });
    }
    let asked = matches!(name.as_str(), "help" | "--help" | "-h");
    if !asked {
        eprintln!("{}", if name.is_empty() { "no command given".to_owned() } else { format!("no command {name:?}") });
    }
    println!("cargo xtask COMMAND\n");
    for command in COMMANDS {
        println!("{}\n", command.help);
    }
    if asked { ExitCode::SUCCESS } else { ExitCode::from(2) }
}
