//! The request body.

use crate::{
    encode::base64,
    mailbox::{Addresses, one_line, plain_mailbox},
};
use serde::Serialize;
use waybill_core::{mail::OutgoingMail, outcome::Outcome};

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct SendEmail<'a> {
    from: String,
    to: String,
    subject: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    text_body: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    html_body: &'a str,
    headers: [Header; 2],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<Attachment<'a>>,
    metadata: Metadata,
    message_stream: &'a str,
    /// Business documents are not tracked, and links must arrive as they were written.
    track_opens: bool,
    track_links: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Header {
    name: &'static str,
    value: String,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Attachment<'a> {
    name: &'a str,
    #[serde(serialize_with = "base64")]
    content: &'a [u8],
    content_type: &'a str,
}

/// Names of at most 20 characters, values of at most 80; our ids fit. They come back in every event.
#[derive(Serialize)]
struct Metadata {
    tenant_id: String,
    job_id: String,
    delivery_id: String,
    attempt_id: String,
}

/// # Errors
/// The outcome for a mail that can't be written as JSON.
pub(super) fn body(mail: &OutgoingMail, addresses: &Addresses, stream: &str) -> Result<Vec<u8>, Outcome> {
    serde_json::to_vec(&SendEmail {
        from: plain_mailbox(&mail.from_name, &addresses.from),
        // One recipient: a comma between quotes makes no second one.
        to: plain_mailbox(&mail.to_name, &addresses.to),
        subject: one_line(&mail.subject),
        // One part at least; an attachment alone is refused.
        text_body: if mail.text.is_empty() && mail.html.is_empty() { " " } else { &mail.text },
        html_body: &mail.html,
        headers: [
            // RFC 3834: so that vacation responders stay quiet.
            Header { name: "Auto-Submitted", value: "auto-generated".to_owned() },
            // Unique, so that mail clients don't fold different documents into one conversation.
            Header { name: "X-Entity-Ref-ID", value: mail.delivery.to_string() },
        ],
        attachments: mail
            .attachments
            .iter()
            .map(|a| Attachment { name: &a.filename, content: &a.bytes, content_type: a.content_type })
            .collect(),
        metadata: Metadata {
            tenant_id: mail.tenant.to_string(),
            job_id: mail.job.to_string(),
            delivery_id: mail.delivery.to_string(),
            attempt_id: mail.attempt.to_string(),
        },
        message_stream: stream,
        track_opens: false,
        track_links: "None",
    })
    .map_err(|error| Outcome::RejectedMessage { detail: format!("the request can't be written: {error}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_mail::{mail, mail_with_attachment};
    use serde_json::{Value, json};

    fn written(mail: &OutgoingMail) -> Value {
        serde_json::from_slice(&body(mail, &Addresses::of(mail).unwrap(), "outbound").unwrap()).unwrap()
    }

    #[test]
    fn the_whole_request() {
        assert_eq!(
            written(&mail_with_attachment(3)),
            json!({
                "From": "\"Acme, Inc.\" <no-reply@acme.example>",
                "To": "\"Ada Lovelace\" <ada@example.com>",
                "Subject": "Invoice 17",
                "TextBody": "See the attachment.",
                "HtmlBody": "<p>See the attachment.</p>",
                "Headers": [
                    {"Name": "Auto-Submitted", "Value": "auto-generated"},
                    {"Name": "X-Entity-Ref-ID", "Value": "dlv_00000000000000000000000003"},
                ],
                "Attachments": [{"Name": "invoice-17.pdf", "Content": "JSUl", "ContentType": "application/pdf"}],
                "Metadata": {
                    "tenant_id": "ten_00000000000000000000000001",
                    "job_id": "job_00000000000000000000000002",
                    "delivery_id": "dlv_00000000000000000000000003",
                    "attempt_id": "att_00000000000000000000000004",
                },
                "MessageStream": "outbound",
                "TrackOpens": false,
                "TrackLinks": "None",
            })
        );
    }

    #[test]
    fn ses_03_a_name_with_a_comma_is_one_recipient() {
        let mail = OutgoingMail { to_name: "Silva, Ana \"Nina\" 漢".into(), from_name: String::new(), ..mail() };
        assert_eq!(written(&mail)["To"], r#""Silva, Ana \"Nina\" 漢" <ada@example.com>"#);
        assert_eq!(written(&mail)["From"], "no-reply@acme.example");
    }

    #[test]
    fn no_part_is_empty() {
        let empty = OutgoingMail { text: String::new(), html: String::new(), ..mail() };
        assert_eq!((&written(&empty)["TextBody"], written(&empty).get("HtmlBody")), (&json!(" "), None));
        let html_only = OutgoingMail { text: String::new(), ..mail() };
        assert_eq!(written(&html_only).get("TextBody"), None);
    }
}
