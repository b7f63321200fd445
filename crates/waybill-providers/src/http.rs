//! What the providers that speak JSON over HTTP have in common: a client that sends once, and answers that are read within bounds.

use crate::{SetupError, detail::detail};
use reqwest::{
    Client, Response, Url,
    header::{HeaderMap, HeaderValue},
};
use std::{error::Error, time::Duration};
use waybill_core::outcome::Outcome;
use waybill_crypto::Secret;

/// As much of an answer as is read; ids and errors are short.
pub(crate) const MAX_ANSWER_BYTES: usize = 64 * 1024;
const MAX_CONNECT: Duration = Duration::from_secs(5);
/// Shorter than what load balancers usually keep, so that a reused connection is rarely one that the other side is just closing.
const POOL_IDLE: Duration = Duration::from_secs(50);
/// Nobody's rate limit lasts longer; a larger value is a clock that is wrong.
pub(crate) const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// One request per call: no retry, not even of what HTTP calls safe, and no redirect.
pub(crate) fn client(timeout: Duration) -> Result<Client, SetupError> {
    Client::builder()
        .user_agent(concat!("waybill/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .timeout(timeout)
        // Less than the whole, so that a connection that does not come about is told from an answer that does not.
        .connect_timeout(MAX_CONNECT.min(timeout / 2))
        .pool_idle_timeout(POOL_IDLE)
        .build()
        .map_err(|error| SetupError::Client(Box::new(error)))
}

pub(crate) fn url(base: &str, path: &str) -> Result<Url, SetupError> {
    Url::parse(&format!("{}{path}", base.trim_end_matches('/')))
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"))
        .ok_or(SetupError::BaseUrl)
}

/// A header value that no log prints: `prefix`, then the key.
pub(crate) fn key_header(prefix: &str, key: &Secret) -> Result<HeaderValue, SetupError> {
    let key = key.expose().trim();
    if key.is_empty() {
        return Err(SetupError::ApiKey);
    }
    let mut value = HeaderValue::from_str(&format!("{prefix}{key}")).map_err(|_| SetupError::ApiKey)?;
    value.set_sensitive(true);
    Ok(value)
}

pub(crate) fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// A header that is a number of seconds, such as `Retry-After` (RFC 9110 section 10.2.3) in the form that APIs use.
pub(crate) fn seconds(headers: &HeaderMap, name: &str) -> Option<Duration> {
    let seconds = header(headers, name)?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
}

/// The first [`MAX_ANSWER_BYTES`] of a body; fewer if it breaks off. What is cut is no JSON any more, so an id that may be behind the cut
/// is never guessed.
pub(crate) async fn start_of_body(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < MAX_ANSWER_BYTES {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk[..chunk.len().min(MAX_ANSWER_BYTES - body.len())]),
            Ok(None) | Err(_) => break,
        }
    }
    body
}

/// No answer at all. Only a failed connection is certain: TCP, DNS and TLS come before the first byte of a request.
pub(crate) fn no_answer(error: &reqwest::Error) -> Outcome {
    let detail = innermost(error);
    if error.is_connect() || error.is_builder() { Outcome::Unavailable { detail } } else { Outcome::Unknown { detail } }
}

/// The innermost cause, which is the one that says something; the outer ones repeat the URL.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    detail(&format!("no answer: {cause}"))
}
