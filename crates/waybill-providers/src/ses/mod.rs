//! Amazon SES, API v2, `SendEmail`. <https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html>
//!
//! SES knows no idempotency token, and the SDK would by default send again after a time-out or a 500. Here it sends once: retries are
//! disabled, and what nobody can know is [`Outcome::Unknown`], settled by events that carry our ids (email tags).

mod classify;
mod config;
mod events;
mod failure;
mod request;

pub(crate) use config::build;
pub use config::{SesConfig, SesCredentials};
pub use events::parse_events;

use crate::{mailbox::Addresses, size};
use async_trait::async_trait;
use aws_sdk_sesv2::{Client, operation::send_email::SendEmailOutput};
use std::time::Duration;
use waybill_core::{mail::OutgoingMail, outcome::Outcome, ports::Provider};

/// 40 MB after encoding for API v2 (<https://docs.aws.amazon.com/ses/latest/dg/quotas.html>); SES counts in binary megabytes.
pub const MAX_ENCODED_BYTES: usize = 40 * 1024 * 1024;

/// One SES account in one region.
pub struct SesProvider {
    client: Client,
    account: String,
    configuration_set: Option<String>,
    timeout: Duration,
    events_wired: bool,
}

impl SesProvider {
    /// Loads credentials by the chosen way; with the default chain this may read files and ask the container's or the instance's
    /// metadata service. Missing credentials show with the first call (`Unusable`), since they may come later.
    pub async fn new(config: SesConfig) -> Self {
        let client = Client::from_conf(config.client_config().await);
        Self {
            client,
            account: config.account,
            configuration_set: config.configuration_set,
            timeout: config.timeout,
            events_wired: config.events_wired,
        }
    }

    /// The name that the operator gave to this account.
    pub fn account(&self) -> &str {
        &self.account
    }

    async fn call(&self, mail: &OutgoingMail) -> Result<Outcome, Outcome> {
        size::check(mail, MAX_ENCODED_BYTES)?;
        let parts = request::Parts::of(mail, &Addresses::of(mail)?)?;
        let sent = self
            .client
            .send_email()
            .from_email_address(parts.from)
            .destination(parts.destination)
            .content(parts.content)
            .set_email_tags(Some(parts.tags))
            .set_configuration_set_name(self.configuration_set.clone())
            .send()
            .await;
        match sent {
            Ok(output) => Ok(accepted(&output)),
            Err(error) => Err(failure::outcome(&error)),
        }
    }
}

#[async_trait]
impl Provider for SesProvider {
    fn name(&self) -> &'static str {
        "ses"
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn events_wired(&self) -> bool {
        self.events_wired
    }

    fn max_encoded_bytes(&self) -> usize {
        MAX_ENCODED_BYTES
    }

    async fn send(&self, mail: &OutgoingMail) -> Outcome {
        self.call(mail).await.unwrap_or_else(|outcome| outcome)
    }
}

fn accepted(output: &SendEmailOutput) -> Outcome {
    match output.message_id().map(str::trim) {
        Some(id) if !id.is_empty() => Outcome::Accepted { provider_message_id: id.to_owned() },
        Some(_) | None => Outcome::Unknown { detail: "HTTP 2xx without MessageId".into() },
    }
}

#[cfg(test)]
mod tests;
