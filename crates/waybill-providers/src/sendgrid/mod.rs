//! Twilio SendGrid, `POST /v3/mail/send`.
//! <https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send>
//!
//! SendGrid knows no idempotency key: an answer that got lost is an unknown outcome, settled by events that carry our ids (custom
//! arguments). The client follows no redirect and retries nothing, not even what HTTP calls safe.

#![expect(
    clippy::disallowed_methods,
    reason = "a reset time is an instant on the provider's clock, which only the wall clock can be compared with"
)]

mod classify;
mod config;
mod events;
mod request;

pub use config::SendGridConfig;
pub(crate) use config::build;
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

/// "The total size of your email, including attachments, must be less than 30MB"; read as the smaller megabyte.
pub const MAX_ENCODED_BYTES: usize = 30_000_000;

/// One SendGrid account.
pub struct SendGridProvider {
    client: Client,
    url: Url,
    authorization: HeaderValue,
    timeout: Duration,
    events_wired: bool,
}

impl SendGridProvider {
    /// # Errors
    /// [`SetupError`] names what is wrong with the configuration; the key is in no error.
    pub fn new(config: SendGridConfig) -> Result<Self, SetupError> {
        let authorization = http::key_header("Bearer ", &config.api_key)?;
        let url = http::url(&config.base_url, "/v3/mail/send")?;
        let client = http::client(config.timeout)?;
        Ok(Self { client, url, authorization, timeout: config.timeout, events_wired: config.events_wired })
    }

    async fn call(&self, mail: &OutgoingMail) -> Result<Outcome, Outcome> {
        size::check(mail, MAX_ENCODED_BYTES)?;
        let body = request::body(mail, &Addresses::of(mail)?)?;
        let sent = self
            .client
            .post(self.url.clone())
            .header(AUTHORIZATION, self.authorization.clone())
            .header(CONTENT_TYPE, "application/json")
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
impl Provider for SendGridProvider {
    fn name(&self) -> &'static str {
        "sendgrid"
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

async fn outcome_of(response: Response) -> Outcome {
    let status = response.status().as_u16();
    let headers = response.headers();
    let message_id = http::header(headers, "x-message-id");
    let reset = http::header(headers, "x-ratelimit-reset").and_then(|value| value.parse().ok());
    let retry_after = http::seconds(headers, "retry-after");
    let body = if status == 202 { Vec::new() } else { http::start_of_body(response).await };
    classify::outcome(&Answer { status, message_id, reset, retry_after, body: &body }, chrono::Utc::now().timestamp())
}

#[cfg(test)]
mod tests;
