use super::ResendProvider;
use crate::{
    registry::Signature,
    settings::{Build, SettingError, Settings},
    svix::Svix,
};
use std::{sync::Arc, time::Duration};
use waybill_core::ports::Provider;
use waybill_crypto::Secret;

/// One Resend account.
#[derive(Debug, Clone)]
pub struct ResendConfig {
    pub base_url: String,
    /// A key that may send is enough (`sending_access`).
    pub api_key: Secret,
    /// Of one call, connection included.
    pub timeout: Duration,
    /// Whether a webhook of this account posts to us.
    pub events_wired: bool,
}

const WEBHOOK_SECRET: &str = "WAYBILL_RESEND_WEBHOOK_SECRET";

impl ResendConfig {
    pub const DEFAULT_BASE_URL: &'static str = "https://api.resend.com";
    /// Half of what the others have, because a pass may call twice.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

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
        let api_key = settings.required("WAYBILL_RESEND_API_KEY", &mut errors);
        let config = Self {
            base_url: settings.text("WAYBILL_RESEND_BASE_URL").unwrap_or_else(|| Self::DEFAULT_BASE_URL.to_owned()),
            api_key: Secret::from(api_key),
            timeout: settings.milliseconds("WAYBILL_RESEND_TIMEOUT_MS", Self::DEFAULT_TIMEOUT, &mut errors),
            events_wired: settings.switch("WAYBILL_RESEND_EVENTS_WIRED", false, &mut errors),
        };
        if errors.is_empty() { Ok(config) } else { Err(errors) }
    }
}

pub(crate) fn build(settings: &Settings<'_>) -> Result<Build, Vec<SettingError>> {
    let config = ResendConfig::read(settings)?;
    Ok(Box::pin(async move { Ok(Arc::new(ResendProvider::new(config)?) as Arc<dyn Provider>) }))
}

/// The check of its webhooks' signatures, if their secret is set: `whsec_…`, two of them while the secret is being changed.
pub(crate) fn signature(settings: &Settings<'_>) -> Signature {
    let Some(text) = settings.text(WEBHOOK_SECRET) else { return Ok(None) };
    match Svix::parse(&Secret::from(text)) {
        Some(svix) => Ok(Some(Arc::new(svix))),
        None => Err(SettingError {
            name: WEBHOOK_SECRET,
            problem: "must be `whsec_` and base64 of at least 16 octets, or two such texts with a comma between",
        }),
    }
}
