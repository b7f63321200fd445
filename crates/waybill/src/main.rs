//! Waybill: delivers business documents; nothing lost, nothing sent twice, everything explained.
//!
//! One binary with a subcommand per role (`api`, `router`, `worker`, `scheduler`, `intake`), `all` for every role in one process, `dev` for a laptop,
//! and the operator's commands. This crate only reads the configuration, wires adapters to ports, and starts and stops things;
//! the use cases are in `waybill-pipeline`.

mod alerts;
mod cli;
mod config;
mod dev;
mod roles;
mod service;
mod system;
mod wiring;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "waybill", version, about, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything on a laptop: finds or starts a PostgreSQL, seeds a tenant, runs all roles, shows mails in a browser
    Dev(dev::DevArgs),
    /// Every role in one process
    All,
    /// The HTTP API
    Api,
    /// Decides about jobs and sends one message per recipient
    Router,
    /// Sends deliveries and renders documents
    Worker,
    /// Takes events from EventBridge's queue and provider events from the feedback queue
    Intake,
    /// Outbox relay, due retries, reconciliation, sweeps, alerts
    Scheduler,
    #[command(flatten)]
    Operator(cli::OperatorCommand),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // One TLS stack: aws-lc-rs, chosen here so that no library has to guess.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&anyhow::Error::new(error).context("starting the runtime")),
    };
    let result = runtime.block_on(async {
        match cli.command {
            Command::Dev(args) => dev::run(args).await,
            Command::All => roles::run_service(roles::Roles::ALL).await,
            Command::Api => roles::run_service(roles::Roles::API).await,
            Command::Router => roles::run_service(roles::Roles::ROUTER).await,
            Command::Worker => roles::run_service(roles::Roles::WORKER).await,
            Command::Scheduler => roles::run_service(roles::Roles::SCHEDULER).await,
            Command::Intake => roles::run_service(roles::Roles::INTAKE).await,
            Command::Operator(command) => cli::run(command).await,
        }
    });
    // What is still blocked (a render, a name look-up) must not keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_millis(500));
    match result {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

/// One line for people; causes behind colons.
fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("waybill: {error:#}");
    ExitCode::FAILURE
}
