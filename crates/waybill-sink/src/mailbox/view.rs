//! Mails as JSON.

use std::collections::BTreeMap;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;

use crate::mail::{Header, Mail, Provider};

/// An entry of the list.
#[derive(Debug, Serialize)]
pub(crate) struct Summary<'a> {
    id: &'a str,
    provider: Provider,
    /// The provider's name for people.
    accepted_by: &'static str,
    message_id: &'a str,
    delivery_id: Option<&'a str>,
    job_id: Option<&'a str>,
    to: &'a str,
    subject: &'a str,
    attachments: Vec<AttachmentView<'a>>,
    received_at: String,
}

/// One mail in full.
#[derive(Debug, Serialize)]
pub(crate) struct MailView<'a> {
    #[serde(flatten)]
    summary: Summary<'a>,
    from: &'a str,
    recipients: &'a [String],
    text: Option<&'a str>,
    html: Option<&'a str>,
    headers: &'a [Header],
    tags: &'a BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
struct AttachmentView<'a> {
    filename: &'a str,
    content_type: &'a str,
    /// Bytes.
    size: usize,
    /// Relative to the sink.
    url: String,
}

impl<'a> Summary<'a> {
    pub(crate) fn of(mail: &'a Mail) -> Self {
        let attachments = mail.attachments.iter().enumerate().map(|(n, attachment)| AttachmentView {
            filename: &attachment.filename,
            content_type: &attachment.content_type,
            size: attachment.content.len(),
            url: attachment_url(mail, n),
        });
        Summary {
            id: &mail.id,
            provider: mail.provider,
            accepted_by: mail.provider.label(),
            message_id: &mail.message_id,
            delivery_id: mail.delivery_id(),
            job_id: mail.job_id(),
            to: &mail.to,
            subject: &mail.subject,
            attachments: attachments.collect(),
            received_at: rfc3339(mail.received_at),
        }
    }
}

impl<'a> MailView<'a> {
    pub(crate) fn of(mail: &'a Mail) -> Self {
        MailView {
            summary: Summary::of(mail),
            from: &mail.from,
            recipients: &mail.recipients,
            text: mail.text.as_deref(),
            html: mail.html.as_deref(),
            headers: &mail.headers,
            tags: &mail.tags,
        }
    }
}

pub(crate) fn attachment_url(mail: &Mail, n: usize) -> String {
    format!("/mailbox/{}/attachments/{n}", mail.id)
}

fn rfc3339(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}
