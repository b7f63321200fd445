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

use crate::{SetupError, mailbox::Addresses, size};
use async_trait::async_trait;
use classify::Answer;
use reqwest::{
    Client, Response, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use std::time::Duration;
use waybill_core::{mail::OutgoingMail, outcome::Outcome, ports::Provider};

/// "The total size of your email, including attachments, must be less than 30MB"; read as the smaller megabyte.
pub const MAX_ENCODED_BYTES: usize = 30_000_000;

/// As much of an answer as is read; errors are short.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
const MAX_CONNECT: Duration = Duration::from_secs(5);
/// Shorter than what load balancers usually keep, so that a reused connection is rarely one that the other side is just closing.
const POOL_IDLE: Duration = Duration::from_secs(50);

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
        let mut authorization = HeaderValue::from_str(&format!("Bearer {}", config.api_key.expose().trim()))
            .map_err(|_| SetupError::ApiKey)?;
        if config.api_key.expose().trim().is_empty() {
            return Err(SetupError::ApiKey);
        }
        authorization.set_sensitive(true);
        let url = Url::parse(&format!("{}/v3/mail/send", config.base_url.trim_end_matches('/')))
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .ok_or(SetupError::BaseUrl)?;
        let client = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .timeout(config.timeout)
            // Less than the whole, so that a connection that does not come about is told from an answer that does not.
            .connect_timeout(MAX_CONNECT.min(config.timeout / 2))
            .pool_idle_timeout(POOL_IDLE)
            .build()
            .map_err(|error| SetupError::Client(Box::new(error)))?;
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
            Err(error) => Err(classify::no_answer(&error)),
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
    let message_id = header(response.headers(), "x-message-id");
    let reset = header(response.headers(), "x-ratelimit-reset").and_then(|value| value.parse().ok());
    let body = if status == 202 { Vec::new() } else { start_of_body(response).await };
    classify::outcome(&Answer { status, message_id, reset, body: &body }, chrono::Utc::now().timestamp())
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// The status has decided already; a body that breaks off only shortens the explanation.
async fn start_of_body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < MAX_ANSWER_BYTES {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk[..chunk.len().min(MAX_ANSWER_BYTES - body.len())]),
            Ok(None) | Err(_) => break,
        }
    }
    body
}

#[cfg(test)]
mod tests;
