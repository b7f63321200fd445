//! Configuration from the environment: one struct per section, every error at once, and the table in docs/configuration.md from the same
//! calls that read the variables (`waybill config table`).

mod adapters;
mod alerts;
mod api;
mod database;
mod providers;
mod reader;
mod rules;
mod settings;

pub(crate) use adapters::{Adapters, ObjectsChoice, QueueChoice, RendererChoice};
pub(crate) use alerts::AlertsConfig;
pub(crate) use api::ApiConfig;
pub(crate) use database::DatabaseConfig;
pub(crate) use providers::ProvidersConfig;
pub(crate) use reader::{ConfigErrors, Environment, Reader, Variable};

use std::{sync::Arc, time::Duration};
use waybill_crypto::Secret;
use waybill_pipeline::context::Settings;

/// Everything that a process needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) database: DatabaseConfig,
    /// None: the lock of one process (local mode, or a single `waybill all`).
    pub(crate) redis_url: Option<Secret>,
    pub(crate) adapters: Adapters,
    pub(crate) api: ApiConfig,
    pub(crate) providers: ProvidersConfig,
    pub(crate) settings: Settings,
    pub(crate) alerts: AlertsConfig,
    /// `json` or `text`.
    pub(crate) log_json: bool,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Service,
    /// An operator's command: the database and the queue; no provider is called, nothing is rendered, nothing is locked.
    Operator,
}

impl Config {
    /// Reads the process's environment.
    ///
    /// # Errors
    /// Every variable that is wrong, with what it should be.
    pub(crate) fn from_env() -> Result<Config, ConfigErrors> {
        Self::read(process_environment())
    }

    /// # Errors
    /// As [`Config::from_env`].
    pub(crate) fn read(environment: Environment) -> Result<Config, ConfigErrors> {
        let mut r = Reader::new(environment);
        let config = Self::sections(&mut r, Purpose::Service);
        rules::check(&config, &mut r);
        r.finish(config)
    }

    /// What the operator's commands need of the process's environment: the database and the queue.
    ///
    /// # Errors
    /// As [`Config::from_env`].
    pub(crate) fn for_operator() -> Result<Config, ConfigErrors> {
        Self::read_for_operator(process_environment())
    }

    fn read_for_operator(environment: Environment) -> Result<Config, ConfigErrors> {
        let mut r = Reader::new(environment);
        let mut config = Self::sections(&mut r, Purpose::Operator);
        // One command at a time, and a person who waits for it.
        config.database.connections = 4;
        config.database.acquire_timeout = Duration::from_secs(5);
        r.finish(config)
    }

    /// What is allowed and yet probably not meant.
    pub(crate) fn warnings(&self) -> Vec<&'static str> {
        rules::warnings(self)
    }

    /// The table of all variables, in the order in which they are read.
    pub(crate) fn table() -> Vec<Variable> {
        let mut reader = Reader::new(Arc::new(|_: &str| None));
        let _ = Self::sections(&mut reader, Purpose::Service);
        reader.variables().to_vec()
    }

    fn sections(r: &mut Reader, purpose: Purpose) -> Config {
        let database = DatabaseConfig::read(r);
        let (redis_url, adapters, providers) = match purpose {
            Purpose::Service => (database::redis(r), Adapters::read(r), ProvidersConfig::read(r)),
            Purpose::Operator => (None, Adapters::read_queue_only(r), ProvidersConfig::none(r)),
        };
        let settings = settings::read(r, &providers);
        Config {
            database,
            redis_url,
            adapters,
            api: ApiConfig::read(r),
            providers,
            settings,
            alerts: AlertsConfig::read(r),
            log_json: r.choice("WAYBILL_LOG_FORMAT", ["text", "json"], "`text` or `json`") == "json",
        }
    }
}

fn process_environment() -> Environment {
    Arc::new(|name: &str| std::env::var(name).ok())
}

#[cfg(test)]
mod tests;
