//! Postmark, `POST /email`. <https://postmarkapp.com/developer/api/email-api>
//!
//! Postmark knows no idempotency key: an answer that got lost is an unknown outcome, settled by events that carry our ids (metadata). One
//! recipient per call, so that an inactive one is an error of its own and never half a success. The client follows no redirect and
//! retries nothing.

mod classify;
mod config;
mod events;
mod request;

pub use config::PostmarkConfig;
pub(crate) use config::build;
pub use events::parse_events;

use crate::{SetupError, http, mailbox::Addresses, size};
use async_trait::async_trait;
use classify::Answer;
use reqwest::{
    Client, Response, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderValue},
};
use std::time::Duration;
use waybill_core::{mail::OutgoingMail, outcome::Outcome, ports::Provider};

/// 10 MB with its attachments (<https://postmarkapp.com/developer/user-guide/send-email-with-api>); read as the smaller megabyte.
pub const MAX_ENCODED_BYTES: usize = 10_000_000;

/// One Postmark server and stream.
pub struct PostmarkProvider {
    client: Client,
    url: Url,
    token: HeaderValue,
    message_stream: String,
    timeout: Duration,
    events_wired: bool,
}

impl PostmarkProvider {
    /// # Errors
    /// [`SetupError`] names what is wrong with the configuration; the token is in no error.
    pub fn new(config: PostmarkConfig) -> Result<Self, SetupError> {
        Ok(Self {
            client: http::client(config.timeout)?,
            url: http::url(&config.base_url, "/email")?,
            token: http::key_header("", &config.server_token)?,
            message_stream: config.message_stream,
            timeout: config.timeout,
            events_wired: config.events_wired,
        })
    }

    async fn call(&self, mail: &OutgoingMail) -> Result<Outcome, Outcome> {
        size::check(mail, MAX_ENCODED_BYTES)?;
        let body = request::body(mail, &Addresses::of(mail)?, &self.message_stream)?;
        let sent = self
            .client
            .post(self.url.clone())
            .header("X-Postmark-Server-Token", self.token.clone())
            .header(ACCEPT, "application/json")
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
impl Provider for PostmarkProvider {
    fn name(&self) -> &'static str {
        "postmark"
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
    // Not documented; a gateway in front may send it.
    let retry_after = http::seconds(response.headers(), "retry-after");
    let body = http::start_of_body(response).await;
    classify::outcome(&Answer { status, retry_after, body: &body })
}

#[cfg(test)]
mod tests;
