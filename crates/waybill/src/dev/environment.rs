//! The settings of local mode: the environment's, else shorter times than in production, so that a person sees things happen.

use super::Addresses;
use crate::config::{Config, ConfigErrors};
use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _, path::Path, sync::Arc};

/// What differs from the defaults when the environment doesn't say otherwise.
const SHORTER: [(&str, &str); 27] = [
    // The sink wants to see a signed request, whoever signed it.
    ("AWS_REGION", "eu-central-1"),
    ("AWS_ACCESS_KEY_ID", "local"),
    ("AWS_SECRET_ACCESS_KEY", "local"),
    ("WAYBILL_SES_TIMEOUT_MS", "3000"),
    ("WAYBILL_SENDGRID_TIMEOUT_MS", "3000"),
    ("WAYBILL_SES_EVENTS_WIRED", "true"),
    ("WAYBILL_SENDGRID_EVENTS_WIRED", "true"),
    ("WAYBILL_SENDGRID_API_KEY", "SG.local"),
    // May be called twice in a pass.
    ("WAYBILL_RESEND_TIMEOUT_MS", "1500"),
    ("WAYBILL_RESEND_EVENTS_WIRED", "true"),
    ("WAYBILL_RESEND_API_KEY", "re_local"),
    ("WAYBILL_POSTMARK_TIMEOUT_MS", "3000"),
    ("WAYBILL_POSTMARK_EVENTS_WIRED", "true"),
    ("WAYBILL_POSTMARK_SERVER_TOKEN", "pm-local"),
    ("WAYBILL_SMTP_TIMEOUT_MS", "3000"),
    ("WAYBILL_SMTP_STARTTLS", "false"),
    ("WAYBILL_CLAIM_MARGIN_MS", "500"),
    ("WAYBILL_HANDLER_TIMEOUT_MS", "7000"),
    ("WAYBILL_CLAIM_TTL_MS", "8000"),
    ("WAYBILL_QUEUE_VISIBILITY_MS", "45000"),
    ("WAYBILL_REQUEUE_AFTER_MS", "60000"),
    ("WAYBILL_RECONCILE_WINDOW_MS", "3000"),
    ("WAYBILL_RETRY_BASE_MS", "1000"),
    ("WAYBILL_RETRY_HOLD_MS", "5000"),
    ("WAYBILL_OUTBOX_GRACE_MS", "1000"),
    ("WAYBILL_QUEUE_WAIT_MS", "1000"),
    ("WAYBILL_API_DRAIN_DELAY_MS", "100"),
];

pub(super) fn config(
    dir: &Path,
    database: &str,
    redis: Option<&str>,
    addresses: &Addresses,
    secret: &str,
) -> Result<Config, ConfigErrors> {
    let sink = format!("http://{}", addresses.mailbox);
    let smtp = format!("smtp://{}", addresses.smtp);
    let data = dir.join("data").to_string_lossy().into_owned();
    let (database, redis, secret) = (database.to_owned(), redis.map(str::to_owned), secret.to_owned());
    Config::read(Arc::new(move |name: &str| match name {
        "DATABASE_URL" => Some(database.clone()),
        "REDIS_URL" => redis.clone(),
        "WAYBILL_INBOUND_SECRET" => Some(secret.clone()),
        _ => std::env::var(name).ok().or_else(|| match name {
            "AWS_ENDPOINT_URL_SESV2"
            | "WAYBILL_SENDGRID_BASE_URL"
            | "WAYBILL_RESEND_BASE_URL"
            | "WAYBILL_POSTMARK_BASE_URL" => Some(sink.clone()),
            "WAYBILL_SMTP_URL" => Some(smtp.clone()),
            "WAYBILL_RESEND_WEBHOOK_SECRET" => Some(super::webhook_secret(&secret)),
            "WAYBILL_DATA_DIR" => Some(data.clone()),
            _ => SHORTER.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()),
        }),
    }))
}

/// Writes `dev.env`, readable by its owner only: what a shell needs to talk to the API and to run the operator's commands.
pub(super) fn write(dir: &Path, addresses: &Addresses, key: &str, database: &str) -> std::io::Result<()> {
    let sink = format!("http://{}", addresses.mailbox);
    let text = format!(
        "WAYBILL_URL=http://{api}\nWAYBILL_API_KEY={key}\nWAYBILL_MAILBOX_URL={sink}/mailbox\nWAYBILL_SINK_URL={sink}\nDATABASE_URL='{database}'\n",
        api = addresses.api
    );
    let (temporary, path) = (dir.join("dev.env.new"), dir.join("dev.env"));
    let mut file = std::fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(temporary, path)
}
