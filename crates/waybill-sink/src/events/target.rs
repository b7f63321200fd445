//! Where provider events go. A target is checked when it is made, so that nothing else has to.

use std::{net::IpAddr, time::Duration};

use reqwest::Url;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::svix;
use crate::mail::Provider;

/// Receivers of provider events. Userinfo in a URL becomes HTTP Basic authorization.
#[derive(Clone, PartialEq, Eq)]
pub struct EventsTarget {
    /// By [`Provider::index`].
    urls: [Option<Url>; Provider::ALL.len()],
    /// The key that Resend's events are signed with.
    resend_secret: Option<Vec<u8>>,
    remote: bool,
    delay: Duration,
    enabled: bool,
}

/// Why a target was refused. The text names no address, since a URL may hold a password.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TargetError {
    #[error("{field} is not a URL")]
    NotAUrl { field: &'static str },
    #[error("{field} must be `whsec_` and base64")]
    NotASecret { field: &'static str },
    #[error("{field} must be http or https")]
    Scheme { field: &'static str },
    #[error(
        "{field} must be on loopback (127.0.0.0/8, [::1] or localhost); to send events elsewhere, start the sink with \
         --allow-remote-events"
    )]
    NotLoopback { field: &'static str },
}

impl TargetError {
    /// The JSON field that is wrong.
    pub fn field(&self) -> &'static str {
        match self {
            TargetError::NotAUrl { field }
            | TargetError::NotASecret { field }
            | TargetError::Scheme { field }
            | TargetError::NotLoopback { field } => field,
        }
    }
}

impl EventsTarget {
    /// Receivers on loopback; either may be left out.
    ///
    /// # Errors
    /// A text that is no `http` or `https` URL, or a host outside loopback.
    pub fn new(ses_url: Option<&str>, sendgrid_url: Option<&str>) -> Result<Self, TargetError> {
        Self::build(ses_url, sendgrid_url, false)
    }

    /// Receivers anywhere, as in a compose network.
    ///
    /// # Errors
    /// A text that is no `http` or `https` URL.
    pub fn remote(ses_url: Option<&str>, sendgrid_url: Option<&str>) -> Result<Self, TargetError> {
        Self::build(ses_url, sendgrid_url, true)
    }

    fn build(ses: Option<&str>, sendgrid: Option<&str>, remote: bool) -> Result<Self, TargetError> {
        let none = EventsTarget {
            urls: Provider::ALL.map(|_| None),
            resend_secret: None,
            remote,
            delay: Duration::ZERO,
            enabled: true,
        };
        none.with(Provider::Ses, ses)?.with(Provider::SendGrid, sendgrid)
    }

    /// The receiver of one more provider's events; `None` takes it out.
    ///
    /// # Errors
    /// As for the others.
    pub fn with(mut self, provider: Provider, url: Option<&str>) -> Result<Self, TargetError> {
        self.urls[provider.index()] = url.map(|url| parse(url_field(provider), url, self.remote)).transpose()?;
        Ok(self)
    }

    /// Signs Resend's events with this secret (`whsec_…`), each time they are posted.
    ///
    /// # Errors
    /// A text that is no such secret.
    pub fn signed_for_resend(self, secret: &str) -> Result<Self, TargetError> {
        let key = svix::key(secret).ok_or(TargetError::NotASecret { field: "resend_secret" })?;
        Ok(EventsTarget { resend_secret: Some(key), ..self })
    }

    pub(crate) fn resend_secret(&self) -> Option<&[u8]> {
        self.resend_secret.as_deref()
    }

    /// Waits this long after an acceptance before its first event.
    pub fn delay(self, delay: Duration) -> Self {
        EventsTarget { delay, ..self }
    }

    /// A disabled target swallows events, queued ones included.
    pub fn enabled(self, enabled: bool) -> Self {
        EventsTarget { enabled, ..self }
    }

    pub(crate) fn pause(&self) -> Duration {
        self.delay
    }

    /// The receiver of a provider's events, if there is one and the target is enabled.
    pub(crate) fn url(&self, provider: Provider) -> Option<&Url> {
        self.urls[provider.index()].as_ref().filter(|_| self.enabled)
    }
}

impl std::fmt::Debug for EventsTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventsTarget").field("view", &TargetView::from(self)).finish()
    }
}

fn url_field(provider: Provider) -> &'static str {
    match provider {
        Provider::Ses => "ses_url",
        Provider::SendGrid => "sendgrid_url",
        Provider::Resend => "resend_url",
        Provider::Postmark => "postmark_url",
        Provider::Smtp => "smtp_url",
    }
}

fn parse(field: &'static str, url: &str, remote: bool) -> Result<Url, TargetError> {
    let url = Url::parse(url).map_err(|_| TargetError::NotAUrl { field })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(TargetError::Scheme { field });
    }
    if remote || is_loopback(&url) { Ok(url) } else { Err(TargetError::NotLoopback { field }) }
}

fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost",
    }
}

/// The body of `PUT /events-target`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetBody {
    #[serde(default)]
    ses_url: Option<String>,
    #[serde(default)]
    sendgrid_url: Option<String>,
    #[serde(default)]
    resend_url: Option<String>,
    #[serde(default)]
    postmark_url: Option<String>,
    #[serde(default)]
    resend_secret: Option<String>,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default = "yes")]
    enabled: bool,
}

fn yes() -> bool {
    true
}

impl TargetBody {
    pub(crate) fn into_target(self, remote: bool) -> Result<EventsTarget, TargetError> {
        let mut target = EventsTarget::build(self.ses_url.as_deref(), self.sendgrid_url.as_deref(), remote)?
            .with(Provider::Resend, self.resend_url.as_deref())?
            .with(Provider::Postmark, self.postmark_url.as_deref())?;
        if let Some(secret) = &self.resend_secret {
            target = target.signed_for_resend(secret)?;
        }
        Ok(target.delay(Duration::from_millis(self.delay_ms)).enabled(self.enabled))
    }
}

/// What may be shown of a target: everything but the passwords.
#[derive(Debug, Serialize)]
pub(crate) struct TargetView {
    ses_url: Option<String>,
    sendgrid_url: Option<String>,
    resend_url: Option<String>,
    postmark_url: Option<String>,
    /// Whether Resend's events are signed.
    resend_signed: bool,
    delay_ms: u64,
    enabled: bool,
}

impl From<&EventsTarget> for TargetView {
    fn from(target: &EventsTarget) -> Self {
        let url = |provider: Provider| target.urls[provider.index()].as_ref().map(without_password);
        TargetView {
            ses_url: url(Provider::Ses),
            sendgrid_url: url(Provider::SendGrid),
            resend_url: url(Provider::Resend),
            postmark_url: url(Provider::Postmark),
            resend_signed: target.resend_secret.is_some(),
            delay_ms: u64::try_from(target.delay.as_millis()).unwrap_or(u64::MAX),
            enabled: target.enabled,
        }
    }
}

fn without_password(url: &Url) -> String {
    let mut url = url.clone();
    if url.password().is_some() && url.set_password(Some("***")).is_err() {
        return String::new();
    }
    url.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_taken_in_every_usual_spelling() {
        for url in ["http://127.0.0.1:9/x", "http://u:p@127.8.9.1/", "http://[::1]:80/", "https://localhost/x"] {
            assert!(EventsTarget::new(Some(url), None).is_ok(), "{url}");
        }
    }

    #[test]
    fn everything_else_is_refused_unless_remote_targets_are_allowed() {
        for url in [
            "http://10.0.0.1/",
            "http://169.254.169.254/latest/meta-data/",
            "http://localhost.attacker.test/",
            "http://127.0.0.1@attacker.test/",
            "http://[::ffff:10.0.0.1]/",
            "http://0.0.0.0/",
            "https://events.example/",
        ] {
            assert_eq!(
                EventsTarget::new(None, Some(url)),
                Err(TargetError::NotLoopback { field: "sendgrid_url" }),
                "{url}"
            );
            assert!(EventsTarget::remote(None, Some(url)).is_ok(), "{url}");
        }
        assert_eq!(EventsTarget::remote(Some("file:///etc"), None), Err(TargetError::Scheme { field: "ses_url" }));
        assert_eq!(EventsTarget::remote(Some("nonsense"), None), Err(TargetError::NotAUrl { field: "ses_url" }));
    }

    #[test]
    fn neither_the_view_nor_debug_shows_a_password() {
        let target = EventsTarget::new(Some("http://user:hunter2@127.0.0.1:1234/in"), None).unwrap();
        let shown = format!("{target:?}");
        assert!(shown.contains("user:***@127.0.0.1:1234"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
