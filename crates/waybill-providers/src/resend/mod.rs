//! Resend, `POST /emails`. <https://resend.com/docs/api-reference/emails/send-email>
//!
//! The one provider here that knows an idempotency key, and so can say what became of an answer that got lost. The key is the delivery's
//! id; the body holds nothing that differs between two attempts (no attempt id, no time), because the same key with another body is
//! refused. The client follows no redirect and retries nothing: repeating a call is the pass's decision
//! ([`waybill_core::walk::Steps`]).

mod classify;
mod config;
mod events;
mod request;

pub use config::ResendConfig;
pub(crate) use config::{build, signature};
pub use events::parse_events;

use crate::{SetupError, http, mailbox::Addresses, size};
use async_trait::async_trait;
use classify::Answer;
use reqwest::{
    Client, Response, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use std::time::Duration;
use waybill_core::{mail::OutgoingMail, outcome::Outcome, ports::Provider};

/// 40 MB with its attachments after base64 (<https://resend.com/docs/dashboard/emails/attachments>); read as the smaller megabyte.
pub const MAX_ENCODED_BYTES: usize = 40_000_000;

/// <https://resend.com/docs/dashboard/emails/idempotency-keys>
pub(crate) const KEY_LIFE: Duration = Duration::from_secs(24 * 3600);

/// One Resend account.
pub struct ResendProvider {
    client: Client,
    url: Url,
    authorization: HeaderValue,
    timeout: Duration,
    events_wired: bool,
}

impl ResendProvider {
    /// # Errors
    /// [`SetupError`] names what is wrong with the configuration; the key is in no error.
    pub fn new(config: ResendConfig) -> Result<Self, SetupError> {
        Ok(Self {
            client: http::client(config.timeout)?,
            url: http::url(&config.base_url, "/emails")?,
            authorization: http::key_header("Bearer ", &config.api_key)?,
            timeout: config.timeout,
            events_wired: config.events_wired,
        })
    }

    async fn call(&self, mail: &OutgoingMail) -> Result<Outcome, Outcome> {
        size::check(mail, MAX_ENCODED_BYTES)?;
        let body = request::body(mail, &Addresses::of(mail)?)?;
        let sent = self
            .client
            .post(self.url.clone())
            .header(AUTHORIZATION, self.authorization.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("Idempotency-Key", mail.delivery.to_string())
            .body(body)
            .send()
            .await;
        match sent {
            Ok(response) => Ok(outcome_of(response).await),
            Err(error) => Err(http::no_answer(&error)),
        }
    }
}

#[async_trait]
impl Provider for ResendProvider {
    fn name(&self) -> &'static str {
        "resend"
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

    fn idempotent(&self) -> Option<Duration> {
        Some(KEY_LIFE)
    }

    async fn send(&self, mail: &OutgoingMail) -> Outcome {
        self.call(mail).await.unwrap_or_else(|outcome| outcome)
    }
}

async fn outcome_of(response: Response) -> Outcome {
    let status = response.status().as_u16();
    let headers = response.headers();
    let retry_after = http::seconds(headers, "retry-after").or_else(|| http::seconds(headers, "ratelimit-reset"));
    let body = http::start_of_body(response).await;
    classify::outcome(&Answer { status, retry_after, body: &body })
}

#[cfg(test)]
mod tests;
