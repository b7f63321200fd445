use super::SendGridProvider;
use crate::settings::{Build, SettingError, Settings};
use std::{sync::Arc, time::Duration};
use waybill_core::ports::Provider;
use waybill_crypto::Secret;

/// One SendGrid account.
#[derive(Debug, Clone)]
pub struct SendGridConfig {
    /// `https://api.sendgrid.com`, or `https://api.eu.sendgrid.com` for a subuser that is pinned to the EU.
    pub base_url: String,
    pub api_key: Secret,
    /// Of one call, connection included.
    pub timeout: Duration,
    /// Whether the Event Webhook of this account posts to us.
    pub events_wired: bool,
}

impl SendGridConfig {
    pub const DEFAULT_BASE_URL: &'static str = "https://api.sendgrid.com";
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

    /// The defaults with a key.
    pub fn new(api_key: Secret) -> Self {
        Self {
            base_url: Self::DEFAULT_BASE_URL.to_owned(),
            api_key,
            timeout: Self::DEFAULT_TIMEOUT,
            events_wired: false,
        }
    }

    fn read(settings: &Settings<'_>) -> Result<Self, Vec<SettingError>> {
        let mut errors = Vec::new();
        let api_key = settings.required("WAYBILL_SENDGRID_API_KEY", &mut errors);
        let config = Self {
            base_url: settings.text("WAYBILL_SENDGRID_BASE_URL").unwrap_or_else(|| Self::DEFAULT_BASE_URL.to_owned()),
            api_key: Secret::from(api_key),
            timeout: settings.milliseconds("WAYBILL_SENDGRID_TIMEOUT_MS", Self::DEFAULT_TIMEOUT, &mut errors),
            events_wired: settings.switch("WAYBILL_SENDGRID_EVENTS_WIRED", false, &mut errors),
        };
        if errors.is_empty() { Ok(config) } else { Err(errors) }
    }
}

pub(crate) fn build(settings: &Settings<'_>) -> Result<Build, Vec<SettingError>> {
    let config = SendGridConfig::read(settings)?;
    Ok(Box::pin(async move { Ok(Arc::new(SendGridProvider::new(config)?) as Arc<dyn Provider>) }))
}
