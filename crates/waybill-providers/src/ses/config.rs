use super::SesProvider;
use crate::settings::{Build, SettingError, Settings};
use aws_config::{
    BehaviorVersion, Region, retry::RetryConfig, stalled_stream_protection::StalledStreamProtectionConfig,
    timeout::TimeoutConfig,
};
use aws_credential_types::{Credentials, provider::SharedCredentialsProvider};
use std::{sync::Arc, time::Duration};
use waybill_core::ports::Provider;
use waybill_crypto::Secret;

const MAX_CONNECT: Duration = Duration::from_secs(3);

/// One SES account in one region.
#[derive(Debug, Clone)]
pub struct SesConfig {
    /// A name for people.
    pub account: String,
    pub region: String,
    /// Instead of the region's own endpoint, as `AWS_ENDPOINT_URL_SESV2`.
    pub endpoint_url: Option<String>,
    /// Needed for events; `None` leaves the identity's default.
    pub configuration_set: Option<String>,
    pub credentials: SesCredentials,
    /// Of one call, credentials and connection included.
    pub timeout: Duration,
    /// Whether this account's events (SNS or SQS) reach us.
    pub events_wired: bool,
}

#[derive(Debug, Clone)]
pub enum SesCredentials {
    /// Environment, profile, web identity, container, instance: the order that every AWS tool has.
    DefaultChain,
    Static {
        access_key_id: String,
        secret_access_key: Secret,
        session_token: Option<Secret>,
    },
    /// Anything else, for instance an assumed role.
    Provider(SharedCredentialsProvider),
}

impl SesConfig {
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

    fn read(settings: &Settings<'_>) -> Result<Self, Vec<SettingError>> {
        let mut errors = Vec::new();
        let region = settings.text("WAYBILL_SES_REGION").or_else(|| settings.text("AWS_REGION")).unwrap_or_else(|| {
            errors.push(SettingError { name: "WAYBILL_SES_REGION", problem: "must be set, or AWS_REGION" });
            String::new()
        });
        let config = Self {
            account: settings.text("WAYBILL_SES_ACCOUNT").unwrap_or_else(|| "default".to_owned()),
            region,
            endpoint_url: settings.text("AWS_ENDPOINT_URL_SESV2").or_else(|| settings.text("AWS_ENDPOINT_URL")),
            configuration_set: settings.text("WAYBILL_SES_CONFIGURATION_SET"),
            credentials: SesCredentials::read(settings),
            timeout: settings.milliseconds("WAYBILL_SES_TIMEOUT_MS", Self::DEFAULT_TIMEOUT, &mut errors),
            events_wired: settings.switch("WAYBILL_SES_EVENTS_WIRED", false, &mut errors),
        };
        if errors.is_empty() { Ok(config) } else { Err(errors) }
    }

    /// One attempt with one deadline. The connect time-out is shorter than the whole, so that a connection that does not come about
    /// (certainly not sent) is told from an answer that does not (unknown). The SDK's guard against slow streams is off: it would end a
    /// large upload early with an unknown outcome, and the deadline bounds the call anyway.
    pub(super) async fn client_config(&self) -> aws_sdk_sesv2::Config {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(MAX_CONNECT.min(self.timeout / 2))
            .operation_timeout(self.timeout)
            .operation_attempt_timeout(self.timeout)
            .build();
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new(self.region.clone()))
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts)
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
        if let Some(provider) = self.credentials.provider() {
            loader = loader.credentials_provider(provider);
        }
        let mut config = aws_sdk_sesv2::config::Builder::from(&loader.load().await);
        if let Some(url) = &self.endpoint_url {
            config = config.endpoint_url(url);
        }
        config.build()
    }
}

impl SesCredentials {
    /// The two standard variables are where the default chain begins, too; read here, they can also come from a caller that is not the
    /// environment (local mode has no account and signs with anything).
    fn read(settings: &Settings<'_>) -> Self {
        match (settings.text("AWS_ACCESS_KEY_ID"), settings.text("AWS_SECRET_ACCESS_KEY")) {
            (Some(access_key_id), Some(secret)) => Self::Static {
                access_key_id,
                secret_access_key: Secret::from(secret),
                session_token: settings.text("AWS_SESSION_TOKEN").map(Secret::from),
            },
            (Some(_), None) | (None, Some(_)) | (None, None) => Self::DefaultChain,
        }
    }

    fn provider(&self) -> Option<SharedCredentialsProvider> {
        match self {
            Self::DefaultChain => None,
            Self::Static { access_key_id, secret_access_key, session_token } => {
                let token = session_token.as_ref().map(|token| token.expose().to_owned());
                let credentials =
                    Credentials::new(access_key_id, secret_access_key.expose(), token, None, "waybill-static");
                Some(SharedCredentialsProvider::new(credentials))
            }
            Self::Provider(provider) => Some(provider.clone()),
        }
    }
}

pub(crate) fn build(settings: &Settings<'_>) -> Result<Build, Vec<SettingError>> {
    let config = SesConfig::read(settings)?;
    Ok(Box::pin(async move { Ok(Arc::new(SesProvider::new(config).await) as Arc<dyn Provider>) }))
}
