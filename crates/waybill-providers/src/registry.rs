//! Every provider that Waybill knows: one line each.

use crate::{
    events::{EventError, EventSignature},
    postmark, resend, sendgrid, ses,
    settings::{Build, SettingError, Settings},
    smtp,
};
use std::{sync::Arc, time::Duration};
use waybill_core::ports::FeedbackEvent;

/// From a body to its events.
pub type ParseEvents = fn(&[u8]) -> Result<Vec<FeedbackEvent>, EventError>;

/// How to check a provider's signature; none, if its key is not set.
pub type Signature = Result<Option<Arc<dyn EventSignature>>, SettingError>;

/// A kind of provider, before there is an account.
#[derive(Clone, Copy)]
pub struct ProviderKind {
    /// Stored with each call, and the path segment under `/inbound`.
    pub name: &'static str,
    /// Largest message, in octets after encoding.
    pub max_encoded_bytes: usize,
    /// Total deadline of one call where the settings say nothing.
    pub default_timeout: Duration,
    /// How long it remembers an idempotency key, if it knows one.
    pub idempotent: Option<Duration>,
    /// Reads a body of its events, after the caller has been verified; `None`: it has none.
    pub parse_events: Option<ParseEvents>,
    /// The check of its events' signatures, where it signs and the secret is set; else HTTP Basic it is.
    pub signature: fn(&Settings<'_>) -> Signature,
    /// Checks the settings at once (all errors together); the future then makes the client.
    pub build: fn(&Settings<'_>) -> Result<Build, Vec<SettingError>>,
}

#[rustfmt::skip]
pub const PROVIDERS: &[ProviderKind] = &[
    ProviderKind { name: "ses", max_encoded_bytes: ses::MAX_ENCODED_BYTES, default_timeout: ses::SesConfig::DEFAULT_TIMEOUT, idempotent: None, parse_events: Some(ses::parse_events), signature: unsigned, build: ses::build },
    ProviderKind { name: "sendgrid", max_encoded_bytes: sendgrid::MAX_ENCODED_BYTES, default_timeout: sendgrid::SendGridConfig::DEFAULT_TIMEOUT, idempotent: None, parse_events: Some(sendgrid::parse_events), signature: unsigned, build: sendgrid::build },
    ProviderKind { name: "resend", max_encoded_bytes: resend::MAX_ENCODED_BYTES, default_timeout: resend::ResendConfig::DEFAULT_TIMEOUT, idempotent: Some(resend::KEY_LIFE), parse_events: Some(resend::parse_events), signature: resend::signature, build: resend::build },
    ProviderKind { name: "postmark", max_encoded_bytes: postmark::MAX_ENCODED_BYTES, default_timeout: postmark::PostmarkConfig::DEFAULT_TIMEOUT, idempotent: None, parse_events: Some(postmark::parse_events), signature: unsigned, build: postmark::build },
    ProviderKind { name: "smtp", max_encoded_bytes: smtp::MAX_ENCODED_BYTES, default_timeout: smtp::SmtpConfig::DEFAULT_TIMEOUT, idempotent: None, parse_events: None, signature: unsigned, build: smtp::build },
];

fn unsigned(_: &Settings<'_>) -> Signature {
    Ok(None)
}

pub fn find(name: &str) -> Option<&'static ProviderKind> {
    PROVIDERS.iter().find(|kind| kind.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors_of(name: &str, set: &[(&str, &str)]) -> Vec<SettingError> {
        let lookup = |wanted: &str| set.iter().find(|(n, _)| *n == wanted).map(|(_, v)| (*v).to_owned());
        (find(name).unwrap().build)(&Settings::new(&lookup)).err().unwrap_or_default()
    }

    #[test]
    fn names_are_unique_and_found() {
        for kind in PROVIDERS {
            assert_eq!(PROVIDERS.iter().filter(|k| k.name == kind.name).count(), 1);
            assert_eq!(find(kind.name).unwrap().name, kind.name);
        }
        assert!(find("pigeon").is_none());
    }

    #[test]
    fn every_wrong_setting_is_named_at_once_and_none_is_repeated() {
        let set = [("WAYBILL_SENDGRID_TIMEOUT_MS", "10s"), ("WAYBILL_SENDGRID_EVENTS_WIRED", "perhaps")];
        let errors = errors_of("sendgrid", &set);
        let names: Vec<_> = errors.iter().map(|e| e.name).collect();
        let expected = ["WAYBILL_SENDGRID_API_KEY", "WAYBILL_SENDGRID_TIMEOUT_MS", "WAYBILL_SENDGRID_EVENTS_WIRED"];
        assert_eq!(names, expected);
        assert!(errors.iter().all(|e| !e.to_string().contains("perhaps")));
        assert_eq!(errors_of("ses", &[]).first().map(|e| e.name), Some("WAYBILL_SES_REGION"));
        assert!(errors_of("ses", &[("AWS_REGION", "eu-central-1")]).is_empty());
    }

    #[test]
    fn a_signature_is_checked_where_its_secret_is_set_and_a_wrong_secret_is_named() {
        let signature = |name: &str, value: &str| {
            let lookup = |wanted: &str| (wanted == "WAYBILL_RESEND_WEBHOOK_SECRET").then(|| value.to_owned());
            (find(name).unwrap().signature)(&Settings::new(&lookup))
        };
        let secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
        assert!(signature("resend", secret).unwrap().is_some());
        assert!(signature("resend", "").unwrap().is_none());
        assert!(signature("ses", secret).unwrap().is_none());
        let error = signature("resend", "hunter2").unwrap_err();
        assert_eq!(error.name, "WAYBILL_RESEND_WEBHOOK_SECRET");
        assert!(!error.to_string().contains("hunter2"));
    }

    #[tokio::test]
    async fn a_built_provider_is_what_the_registry_says() {
        let set = [
            ("WAYBILL_SES_REGION", "eu-central-1"),
            ("WAYBILL_SES_TIMEOUT_MS", "1500"),
            ("WAYBILL_SENDGRID_API_KEY", "SG.x"),
            ("WAYBILL_SENDGRID_TIMEOUT_MS", "1500"),
            ("WAYBILL_SENDGRID_EVENTS_WIRED", "true"),
            ("WAYBILL_SES_EVENTS_WIRED", "1"),
            ("WAYBILL_RESEND_API_KEY", "re_x"),
            ("WAYBILL_RESEND_TIMEOUT_MS", "1500"),
            ("WAYBILL_RESEND_EVENTS_WIRED", "true"),
            ("WAYBILL_POSTMARK_SERVER_TOKEN", "x"),
            ("WAYBILL_POSTMARK_TIMEOUT_MS", "1500"),
            ("WAYBILL_POSTMARK_EVENTS_WIRED", "true"),
            ("WAYBILL_SMTP_URL", "smtps://mx.example"),
            ("WAYBILL_SMTP_TIMEOUT_MS", "1500"),
        ];
        let lookup = |wanted: &str| set.iter().find(|(n, _)| *n == wanted).map(|(_, v)| (*v).to_owned());
        for kind in PROVIDERS {
            let build = (kind.build)(&Settings::new(&lookup)).unwrap_or_else(|e| panic!("{e:?}"));
            let provider = build.await.unwrap();
            assert_eq!(provider.name(), kind.name);
            assert_eq!(provider.max_encoded_bytes(), kind.max_encoded_bytes);
            assert_eq!(provider.idempotent(), kind.idempotent);
            assert_eq!(provider.timeout().as_millis(), 1500);
            assert_eq!(provider.events_wired(), kind.parse_events.is_some());
        }
    }
}
