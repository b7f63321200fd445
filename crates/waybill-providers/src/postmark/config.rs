use super::PostmarkProvider;
use crate::settings::{Build, SettingError, Settings};
use std::{sync::Arc, time::Duration};
use waybill_core::ports::Provider;
use waybill_crypto::Secret;

/// One Postmark server (what Postmark calls the holder of streams and tokens).
#[derive(Debug, Clone)]
pub struct PostmarkConfig {
    pub base_url: String,
    /// The server's token, not the account's.
    pub server_token: Secret,
    /// The stream that transactional mails go by.
    pub message_stream: String,
    /// Of one call, connection included.
    pub timeout: Duration,
    /// Whether the stream's webhook posts to us.
    pub events_wired: bool,
}

impl PostmarkConfig {
    pub const DEFAULT_BASE_URL: &'static str = "https://api.postmarkapp.com";
    pub const DEFAULT_MESSAGE_STREAM: &'static str = "outbound";
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

    /// The defaults with a token.
    pub fn new(server_token: Secret) -> Self {
        Self {
            base_url: Self::DEFAULT_BASE_URL.to_owned(),
            server_token,
            message_stream: Self::DEFAULT_MESSAGE_STREAM.to_owned(),
            timeout: Self::DEFAULT_TIMEOUT,
            events_wired: false,
        }
    }

    fn read(settings: &Settings<'_>) -> Result<Self, Vec<SettingError>> {
        let mut errors = Vec::new();
        let server_token = settings.required("WAYBILL_POSTMARK_SERVER_TOKEN", &mut errors);
        let text = |name: &str, default: &str| settings.text(name).unwrap_or_else(|| default.to_owned());
        let config = Self {
            base_url: text("WAYBILL_POSTMARK_BASE_URL", Self::DEFAULT_BASE_URL),
            server_token: Secret::from(server_token),
            message_stream: text("WAYBILL_POSTMARK_MESSAGE_STREAM", Self::DEFAULT_MESSAGE_STREAM),
            timeout: settings.milliseconds("WAYBILL_POSTMARK_TIMEOUT_MS", Self::DEFAULT_TIMEOUT, &mut errors),
            events_wired: settings.switch("WAYBILL_POSTMARK_EVENTS_WIRED", false, &mut errors),
        };
        if errors.is_empty() { Ok(config) } else { Err(errors) }
    }
}

pub(crate) fn build(settings: &Settings<'_>) -> Result<Build, Vec<SettingError>> {
    let config = PostmarkConfig::read(settings)?;
    Ok(Box::pin(async move { Ok(Arc::new(PostmarkProvider::new(config)?) as Arc<dyn Provider>) }))
}
