//! The operator's commands: read and repair, against the same database as the service.

mod dlq;
mod health;
mod jobs;
mod output;
mod queues;
mod redrive;
mod seed;
mod settle;
mod tenants;

use crate::{
    config::{Config, Environment},
    wiring,
};
use anyhow::{Context as _, bail};
use clap::Subcommand;
use std::{process::ExitCode, sync::Arc, time::Duration};
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
    /// Puts dead letters back, selectively
    Redrive(redrive::RedriveArgs),
    /// A person's word on a delivery whose outcome is UNKNOWN
    Settle(settle::SettleArgs),
    /// Tenants: create, list
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
            Config::from_env()?;
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
        OperatorCommand::Redrive(args) => redrive::run(args).await,
        OperatorCommand::Settle(args) => settle::run(args).await,
        OperatorCommand::Tenants { command } => tenants::run(command).await,
        OperatorCommand::Keys { command } => tenants::run_keys(command).await,
        OperatorCommand::Routes { command } => tenants::run_routes(command).await,
    }
}

/// The operator's commands need the database and none of the providers' accounts.
fn environment() -> Environment {
    Arc::new(|name: &str| match name {
        "WAYBILL_PROVIDERS" => Some("ses".into()),
        "AWS_REGION" => std::env::var(name).ok().or_else(|| Some("eu-central-1".into())),
        "AWS_ENDPOINT_URL_SESV2" | "WAYBILL_SES_TIMEOUT_MS" => None,
        _ => std::env::var(name).ok(),
    })
}

/// The database, with a schema that this build knows.
async fn store() -> anyhow::Result<Store> {
    let store = connect(2).await?;
    wiring::check_schema(&store).await?;
    Ok(store)
}

async fn connect(connections: u32) -> anyhow::Result<Store> {
    let Ok(url) = std::env::var("DATABASE_URL") else {
        bail!(
            "DATABASE_URL is not set: it names the database of the service (that of local mode stands in .waybill/dev.env)"
        )
    };
    Store::connect(&url, connections, Duration::from_secs(5))
        .await
        .context("PostgreSQL (DATABASE_URL) can't be reached")
}

async fn migrate() -> anyhow::Result<ExitCode> {
    let store = connect(1).await?;
    let before = store.schema_version().await?;
    store.migrate().await.context("migrating")?;
    println!("schema: {before:?} -> {:?}", store.schema_version().await?);
    Ok(ExitCode::SUCCESS)
}
