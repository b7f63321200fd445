//! How a provider reads its own settings, so that adding one needs no change anywhere else.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};
use waybill_core::ports::Provider;

/// A setting that is missing or wrong, with its variable's name. The value is not repeated: it may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {problem}")]
pub struct SettingError {
    pub name: &'static str,
    pub problem: &'static str,
}

/// Why a provider can't be set up although each setting was readable.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("the API key is empty or holds characters that no HTTP header takes")]
    ApiKey,
    #[error("the base URL is not an http or https URL")]
    BaseUrl,
    #[error("the HTTP client can't be set up")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A provider in the making; loading AWS credentials may ask the network.
pub type Build = Pin<Box<dyn Future<Output = Result<Arc<dyn Provider>, SetupError>> + Send>>;

/// Where settings come from: the environment, or a map in a test.
pub struct Settings<'a> {
    find: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Settings<'a> {
    pub fn new(find: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { find }
    }

    /// Set and not empty; compose files set what they leave out to the empty text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        (self.find)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    pub(crate) fn required(&self, name: &'static str, errors: &mut Vec<SettingError>) -> String {
        self.text(name).unwrap_or_else(|| {
            errors.push(SettingError { name, problem: "must be set" });
            String::new()
        })
    }

    pub(crate) fn milliseconds(
        &self,
        name: &'static str,
        default: Duration,
        errors: &mut Vec<SettingError>,
    ) -> Duration {
        let Some(text) = self.text(name) else { return default };
        match text.parse::<u64>() {
            Ok(ms @ 1..=600_000) => Duration::from_millis(ms),
            Ok(_) | Err(_) => {
                errors.push(SettingError { name, problem: "must be a whole number of milliseconds from 1 to 600000" });
                default
            }
        }
    }

    pub(crate) fn switch(&self, name: &'static str, default: bool, errors: &mut Vec<SettingError>) -> bool {
        match self.text(name).as_deref() {
            None => default,
            Some("true" | "1") => true,
            Some("false" | "0") => false,
            Some(_) => {
                errors.push(SettingError { name, problem: "must be true or false" });
                default
            }
        }
    }
}
