//! The mail providers and their accounts.

use super::{Environment, Reader};
use std::time::Duration;
use waybill_providers::registry::{self, ProviderKind};

#[derive(Clone)]
pub(crate) struct ProvidersConfig {
    /// In the order in which they are tried.
    pub(crate) order: Vec<&'static ProviderKind>,
    /// Where each provider's folder reads its own settings from.
    pub(crate) environment: Environment,
    /// Password of the providers' event webhooks (HTTP Basic); none: `/inbound` is closed.
    pub(crate) inbound_secret: Option<waybill_crypto::Secret>,
}

impl std::fmt::Debug for ProvidersConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProvidersConfig")
            .field("order", &self.order.iter().map(|kind| kind.name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl ProvidersConfig {
    pub(super) fn read(r: &mut Reader) -> Self {
        let names = r.text("WAYBILL_PROVIDERS", "ses,sendgrid", "Mail providers in the order in which they are tried");
        let mut order = Vec::new();
        for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match registry::find(name) {
                Some(kind) => order.push(kind),
                None => r.problem(
                    "WAYBILL_PROVIDERS",
                    format!(
                        "`{name}` is not one of {}",
                        registry::PROVIDERS.iter().map(|k| k.name).collect::<Vec<_>>().join(", ")
                    ),
                ),
            }
        }
        // Read by the provider's own folder; listed here for the table.
        r.document(
            "AWS_REGION",
            "required for SES and what else runs on AWS",
            "Region; for SES `WAYBILL_SES_REGION` wins. Credentials come from the AWS default chain",
        );
        r.document("AWS_ENDPOINT_URL_SESV2", "not set", "Another address for SES v2 (the provider sink, an emulator)");
        r.document(
            "WAYBILL_SES_CONFIGURATION_SET",
            "not set",
            "Configuration set whose events are sent to `/inbound/ses/default`",
        );
        r.document("WAYBILL_SES_TIMEOUT_MS", "`10000`", "Total deadline of one call");
        r.document(
            "WAYBILL_SES_EVENTS_WIRED",
            "`false`",
            "SES events reach `/inbound/ses/default`: unknown outcomes are reconciled instead of failed over",
        );
        r.document("WAYBILL_SENDGRID_API_KEY", "required for SendGrid", "API key with `mail.send`");
        r.document(
            "WAYBILL_SENDGRID_BASE_URL",
            "`https://api.sendgrid.com`",
            "Address of SendGrid (`https://api.eu.sendgrid.com` for EU subusers)",
        );
        r.document("WAYBILL_SENDGRID_TIMEOUT_MS", "`10000`", "Total deadline of one call");
        r.document("WAYBILL_SENDGRID_EVENTS_WIRED", "`false`", "SendGrid events reach `/inbound/sendgrid/default`");
        r.document("WAYBILL_RESEND_API_KEY", "required for Resend", "API key that may send (`sending_access`)");
        r.document("WAYBILL_RESEND_BASE_URL", "`https://api.resend.com`", "Address of Resend");
        r.document(
            "WAYBILL_RESEND_TIMEOUT_MS",
            "`5000`",
            "Total deadline of one call; counts twice in the timings, because an answer that got lost is asked for once more",
        );
        r.document("WAYBILL_RESEND_EVENTS_WIRED", "`false`", "Resend events reach `/inbound/resend/default`");
        r.document(
            "WAYBILL_RESEND_WEBHOOK_SECRET",
            "not set",
            "Signing secret of Resend's webhook (`whsec_…`), two with a comma between while it is being changed. Set: its signature is checked, and no password is asked for",
        );
        r.document(
            "WAYBILL_POSTMARK_SERVER_TOKEN",
            "required for Postmark",
            "Token of the server (not of the account)",
        );
        r.document("WAYBILL_POSTMARK_BASE_URL", "`https://api.postmarkapp.com`", "Address of Postmark");
        r.document(
            "WAYBILL_POSTMARK_MESSAGE_STREAM",
            "`outbound`",
            "Message stream that the mails go by; events are set up per stream",
        );
        r.document("WAYBILL_POSTMARK_TIMEOUT_MS", "`10000`", "Total deadline of one call");
        r.document("WAYBILL_POSTMARK_EVENTS_WIRED", "`false`", "Postmark events reach `/inbound/postmark/default`");
        r.document(
            "WAYBILL_SMTP_URL",
            "required for SMTP",
            "Server: `smtp://host:587` (STARTTLS) or `smtps://host:465` (TLS from the first byte)",
        );
        r.document(
            "WAYBILL_SMTP_STARTTLS",
            "`true`",
            "With `smtp://`: nothing is sent without TLS. `false` for a relay on the same machine; no password is sent then",
        );
        r.document("WAYBILL_SMTP_USERNAME", "not set", "Account at the server; without it there is no authentication");
        r.document("WAYBILL_SMTP_PASSWORD", "not set", "Its password");
        r.document("WAYBILL_SMTP_TIMEOUT_MS", "`10000`", "Total deadline of one call, connection included");
        let inbound_secret = r.optional(
            "WAYBILL_INBOUND_SECRET",
            "Password of the providers' event webhooks (HTTP Basic, any user name), where no signature is checked; not set: they are closed",
        );
        Self { order, environment: r.environment(), inbound_secret: inbound_secret.map(waybill_crypto::Secret::new) }
    }

    /// One per call that a pass may make: a provider with an idempotency key may be called twice.
    pub(super) fn timeouts(&self) -> Vec<Duration> {
        let calls = |kind: &&ProviderKind| if kind.idempotent.is_some() { 2 } else { 1 };
        let timeouts = |kind| std::iter::repeat_n(timeout(&self.environment, kind), calls(&kind));
        self.order.iter().copied().flat_map(timeouts).collect()
    }

    /// For a process that sends nothing.
    pub(super) fn none(r: &Reader) -> Self {
        Self { order: Vec::new(), environment: r.environment(), inbound_secret: None }
    }
}

/// The deadline that a provider's folder reads for itself, for the check of the timings as a whole.
fn timeout(environment: &Environment, kind: &ProviderKind) -> Duration {
    let set = environment(&format!("WAYBILL_{}_TIMEOUT_MS", kind.name.to_ascii_uppercase()));
    set.and_then(|ms| ms.trim().parse().ok()).map_or(kind.default_timeout, Duration::from_millis)
}
