use super::SmtpProvider;
use crate::settings::{Build, SettingError, Settings};
use reqwest::Url;
use std::{sync::Arc, time::Duration};
use waybill_core::ports::Provider;
use waybill_crypto::Secret;

/// One submission account at one SMTP server.
#[derive(Debug, Clone)]
pub struct SmtpConfig {
    pub host: String,
    pub port: u16,
    pub tls: SmtpTls,
    pub credentials: Option<SmtpCredentials>,
    /// Of one call, connection included.
    pub timeout: Duration,
}

/// How the connection is encrypted. A server that does not do what is set here gets nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmtpTls {
    /// From the first byte (RFC 8314, port 465).
    Implicit,
    /// By STARTTLS, without which nothing is sent (port 587).
    StartTls,
    /// Not at all: for a relay on the same machine.
    None,
}

#[derive(Debug, Clone)]
pub struct SmtpCredentials {
    pub username: String,
    pub password: Secret,
}

const URL: &str = "WAYBILL_SMTP_URL";

impl SmtpConfig {
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

    /// `smtps://host[:465]` for TLS from the first byte, `smtp://host[:587]` for STARTTLS, which may be switched off.
    pub fn parse(url: &str, starttls: bool) -> Option<Self> {
        let url = Url::parse(url).ok()?;
        // A name and a password have variables of their own, so that the address can be shown.
        let bare = url.username().is_empty() && url.password().is_none() && matches!(url.path(), "" | "/");
        let (tls, port) = match url.scheme() {
            "smtps" => (SmtpTls::Implicit, 465),
            "smtp" if starttls => (SmtpTls::StartTls, 587),
            "smtp" => (SmtpTls::None, 587),
            _ => return None,
        };
        let host = url.host_str().filter(|host| bare && !host.is_empty())?.to_owned();
        Some(Self { host, port: url.port().unwrap_or(port), tls, credentials: None, timeout: Self::DEFAULT_TIMEOUT })
    }

    fn read(settings: &Settings<'_>) -> Result<Self, Vec<SettingError>> {
        let mut errors = Vec::new();
        let url = settings.required(URL, &mut errors);
        let starttls = settings.switch("WAYBILL_SMTP_STARTTLS", true, &mut errors);
        let timeout = settings.milliseconds("WAYBILL_SMTP_TIMEOUT_MS", Self::DEFAULT_TIMEOUT, &mut errors);
        let credentials = match (settings.text("WAYBILL_SMTP_USERNAME"), settings.text("WAYBILL_SMTP_PASSWORD")) {
            (Some(username), Some(password)) => Some(SmtpCredentials { username, password: Secret::from(password) }),
            (None, None) => None,
            (Some(_), None) => {
                errors.push(SettingError { name: "WAYBILL_SMTP_PASSWORD", problem: "must be set with the user name" });
                None
            }
            (None, Some(_)) => {
                errors.push(SettingError { name: "WAYBILL_SMTP_USERNAME", problem: "must be set with the password" });
                None
            }
        };
        let parsed = Self::parse(&url, starttls);
        if parsed.is_none() && !url.is_empty() {
            errors.push(SettingError { name: URL, problem: "must be smtp://host:port or smtps://host:port, no more" });
        }
        if let Some(SmtpConfig { tls: SmtpTls::None, .. }) = parsed
            && credentials.is_some()
        {
            let problem = "a password is not sent without TLS: use smtps://, or leave WAYBILL_SMTP_STARTTLS on";
            errors.push(SettingError { name: "WAYBILL_SMTP_STARTTLS", problem });
        }
        match parsed {
            Some(config) if errors.is_empty() => Ok(Self { credentials, timeout, ..config }),
            Some(_) | None => Err(errors),
        }
    }
}

pub(crate) fn build(settings: &Settings<'_>) -> Result<Build, Vec<SettingError>> {
    let config = SmtpConfig::read(settings)?;
    Ok(Box::pin(async move { Ok(Arc::new(SmtpProvider::new(config)?) as Arc<dyn Provider>) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(set: &[(&str, &str)]) -> Vec<&'static str> {
        let lookup = |wanted: &str| set.iter().find(|(n, _)| *n == wanted).map(|(_, v)| (*v).to_owned());
        SmtpConfig::read(&Settings::new(&lookup)).err().unwrap_or_default().iter().map(|e| e.name).collect()
    }

    #[test]
    fn the_scheme_says_how_it_is_encrypted() {
        let read = |url: &str, starttls| SmtpConfig::parse(url, starttls).map(|c| (c.host, c.port, c.tls));
        assert_eq!(read("smtps://mx.example", true), Some(("mx.example".into(), 465, SmtpTls::Implicit)));
        assert_eq!(read("smtps://mx.example:4650", false), Some(("mx.example".into(), 4650, SmtpTls::Implicit)));
        assert_eq!(read("smtp://mx.example", true), Some(("mx.example".into(), 587, SmtpTls::StartTls)));
        assert_eq!(read("smtp://127.0.0.1:25", false), Some(("127.0.0.1".into(), 25, SmtpTls::None)));
        for url in ["", "mx.example", "http://mx.example", "smtp://", "smtp://u:p@mx.example", "smtp://mx.example/x"] {
            assert_eq!(read(url, true), None, "{url}");
        }
    }

    #[test]
    fn a_password_is_never_sent_in_the_clear_and_half_of_an_account_is_named() {
        let (user, password) = (("WAYBILL_SMTP_USERNAME", "u"), ("WAYBILL_SMTP_PASSWORD", "p"));
        let (url, off) = ((URL, "smtp://mx.example"), ("WAYBILL_SMTP_STARTTLS", "false"));
        assert!(errors(&[url, user, password]).is_empty());
        assert!(errors(&[url, off]).is_empty());
        assert_eq!(errors(&[url, off, user, password]), ["WAYBILL_SMTP_STARTTLS"]);
        assert_eq!(errors(&[url, user]), ["WAYBILL_SMTP_PASSWORD"]);
        assert_eq!(errors(&[url, password]), ["WAYBILL_SMTP_USERNAME"]);
        assert_eq!(errors(&[]), [URL]);
        assert_eq!(errors(&[(URL, "mx.example")]), [URL]);
    }
}
