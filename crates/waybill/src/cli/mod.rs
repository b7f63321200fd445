//! The operator's commands: read and repair, against the same database as the service.

mod dlq;
mod dlq_messages;
mod events;
mod health;
mod jobs;
mod output;
mod queues;
mod redrive;
mod seed;
mod settle;
mod tenants;

use crate::{
    config::Config,
    wiring::{self, Operator},
};
use anyhow::Context as _;
use clap::Subcommand;
use std::process::ExitCode;
use waybill_store::Store;

#[derive(Subcommand)]
pub(crate) enum OperatorCommand {
    /// Brings the database's schema to this build's version
    Migrate,
    /// Checks the configuration, or prints the table of all variables
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// How a running process is, for health checks of containers: exits with 0 or 1
    Health(health::HealthArgs),
    /// A tenant `dev`, its key and two routes for trying things out; prints what to do next
    Seed(seed::SeedArgs),
    /// Depth, oldest age, in flight and dead letters of every queue, and the rows behind them
    Queues(queues::QueuesArgs),
    /// Jobs: list, show
    Jobs {
        #[command(subcommand)]
        command: jobs::JobsCommand,
    },
    /// Dead letters: list, show
    Dlq {
        #[command(subcommand)]
        command: dlq::DlqCommand,
    },
    /// Events by way of EventBridge: send
    Events {
        #[command(subcommand)]
        command: events::EventsCommand,
    },
    /// Puts dead letters back, selectively
    Redrive(redrive::RedriveArgs),
    /// A person's word on a delivery whose outcome is UNKNOWN
    Settle(settle::SettleArgs),
    /// Tenants: create, list; intake: whose events of the bus are whose
    Tenants {
        #[command(subcommand)]
        command: tenants::TenantsCommand,
    },
    /// API keys: create, list, revoke
    Keys {
        #[command(subcommand)]
        command: tenants::KeysCommand,
    },
    /// Routes: put, list
    Routes {
        #[command(subcommand)]
        command: tenants::RoutesCommand,
    },
}

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Reads the environment and names every error
    Check,
    /// The table of docs/configuration.md
    Table,
}

/// # Errors
/// One line that says what went wrong and what to do.
pub(crate) async fn run(command: OperatorCommand) -> anyhow::Result<ExitCode> {
    match command {
        OperatorCommand::Migrate => migrate().await,
        OperatorCommand::Config { command: ConfigCommand::Check } => {
            let config = Config::from_env()?;
            config.warnings().iter().for_each(|warning| eprintln!("warning, for a worker: {warning}"));
            println!("the configuration is usable");
            Ok(ExitCode::SUCCESS)
        }
        OperatorCommand::Config { command: ConfigCommand::Table } => {
            println!("| variable | default | what it is |\n|---|---|---|");
            Config::table().iter().for_each(|variable| println!("{}", variable.row()));
            Ok(ExitCode::SUCCESS)
        }
        OperatorCommand::Health(args) => health::run(args).await,
        OperatorCommand::Seed(args) => seed::run(args).await,
        OperatorCommand::Queues(args) => queues::run(args).await,
        OperatorCommand::Jobs { command } => jobs::run(command).await,
        OperatorCommand::Dlq { command } => dlq::run(command).await,
        OperatorCommand::Events { command } => events::run(command).await,
        OperatorCommand::Redrive(args) => redrive::run(args).await,
        OperatorCommand::Settle(args) => settle::run(args).await,
        OperatorCommand::Tenants { command } => tenants::run(command).await,
        OperatorCommand::Keys { command } => tenants::run_keys(command).await,
        OperatorCommand::Routes { command } => tenants::run_routes(command).await,
    }
}

/// The database, with a schema that this build knows.
async fn store() -> anyhow::Result<Store> {
    let store = wiring::connect_store(&Config::for_operator()?).await?;
    wiring::check_schema(&store).await?;
    Ok(store)
}

/// The database and the queue of the service.
async fn operator() -> anyhow::Result<Operator> {
    Operator::connect(Config::for_operator()?).await
}

async fn migrate() -> anyhow::Result<ExitCode> {
    let store = wiring::connect_store(&Config::for_operator()?).await?;
    let before = store.schema_version().await?;
    store.migrate().await.context("migrating")?;
    println!("schema: {before:?} -> {:?}", store.schema_version().await?);
    Ok(ExitCode::SUCCESS)
}
