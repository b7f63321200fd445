//! The request body: the same bytes for every attempt at one delivery.

use crate::{
    encode::base64,
    mailbox::{Addresses, one_line, plain_mailbox},
};
use serde::Serialize;
use waybill_core::{mail::OutgoingMail, outcome::Outcome};

#[derive(Serialize)]
struct SendEmail<'a> {
    from: String,
    to: [String; 1],
    subject: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    text: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    html: &'a str,
    headers: Headers,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<Attachment<'a>>,
    tags: [Tag; 3],
}

#[derive(Serialize)]
struct Headers {
    /// RFC 3834: so that vacation responders stay quiet.
    #[serde(rename = "Auto-Submitted")]
    auto_submitted: &'static str,
    /// Unique, so that mail clients don't fold different documents into one conversation.
    #[serde(rename = "X-Entity-Ref-ID")]
    entity: String,
}

/// `path`, by which Resend would fetch a URL, is never used.
#[derive(Serialize)]
struct Attachment<'a> {
    #[serde(serialize_with = "base64")]
    content: &'a [u8],
    filename: &'a str,
    content_type: &'a str,
}

/// Values take `A-Za-z0-9_-` only; our ids fit.
#[derive(Serialize)]
struct Tag {
    name: &'static str,
    value: String,
}

/// # Errors
/// The outcome for a mail that can't be written as JSON.
pub(super) fn body(mail: &OutgoingMail, addresses: &Addresses) -> Result<Vec<u8>, Outcome> {
    serde_json::to_vec(&SendEmail {
        from: plain_mailbox(&mail.from_name, &addresses.from),
        to: [plain_mailbox(&mail.to_name, &addresses.to)],
        subject: one_line(&mail.subject),
        // One part at least.
        text: if mail.text.is_empty() && mail.html.is_empty() { " " } else { &mail.text },
        html: &mail.html,
        headers: Headers { auto_submitted: "auto-generated", entity: mail.delivery.to_string() },
        attachments: attachments(mail),
        // Not the attempt's: it would make another body of the same mail.
        tags: [
            Tag { name: "tenant_id", value: mail.tenant.to_string() },
            Tag { name: "job_id", value: mail.job.to_string() },
            Tag { name: "delivery_id", value: mail.delivery.to_string() },
        ],
    })
    .map_err(|error| Outcome::RejectedMessage { detail: format!("the request can't be written: {error}") })
}

fn attachments(mail: &OutgoingMail) -> Vec<Attachment<'_>> {
    mail.attachments
        .iter()
        .map(|a| Attachment { content: &a.bytes, filename: &a.filename, content_type: a.content_type })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_mail::{mail, mail_with_attachment};
    use serde_json::{Value, json};
    use uuid::Uuid;
    use waybill_core::ids::AttemptId;

    fn bytes(mail: &OutgoingMail) -> Vec<u8> {
        body(mail, &Addresses::of(mail).unwrap()).unwrap()
    }

    fn written(mail: &OutgoingMail) -> Value {
        serde_json::from_slice(&bytes(mail)).unwrap()
    }

    #[test]
    fn the_whole_request() {
        assert_eq!(
            written(&mail_with_attachment(3)),
            json!({
                "from": "\"Acme, Inc.\" <no-reply@acme.example>",
                "to": ["\"Ada Lovelace\" <ada@example.com>"],
                "subject": "Invoice 17",
                "text": "See the attachment.",
                "html": "<p>See the attachment.</p>",
                "headers": {"Auto-Submitted": "auto-generated", "X-Entity-Ref-ID": "dlv_00000000000000000000000003"},
                "attachments": [{"content": "JSUl", "filename": "invoice-17.pdf", "content_type": "application/pdf"}],
                "tags": [
                    {"name": "tenant_id", "value": "ten_00000000000000000000000001"},
                    {"name": "job_id", "value": "job_00000000000000000000000002"},
                    {"name": "delivery_id", "value": "dlv_00000000000000000000000003"},
                ],
            })
        );
    }

    #[test]
    fn another_attempt_at_a_delivery_is_the_same_bytes() {
        let again = OutgoingMail { attempt: AttemptId(Uuid::from_u128(99)), ..mail_with_attachment(1000) };
        assert_eq!(bytes(&again), bytes(&mail_with_attachment(1000)));
    }

    #[test]
    fn ses_03_names_go_into_json_as_they_are_and_in_quotes() {
        let mail = OutgoingMail { to_name: "Silva, Ana \"Nina\" 漢".into(), from_name: String::new(), ..mail() };
        assert_eq!(written(&mail)["to"], json!([r#""Silva, Ana \"Nina\" 漢" <ada@example.com>"#]));
        assert_eq!(written(&mail)["from"], "no-reply@acme.example");
    }

    #[test]
    fn no_part_is_empty() {
        let empty = OutgoingMail { text: String::new(), html: String::new(), ..mail() };
        assert_eq!((&written(&empty)["text"], written(&empty).get("html")), (&json!(" "), None));
        let html_only = OutgoingMail { text: String::new(), ..mail() };
        assert_eq!(written(&html_only).get("text"), None);
    }
}
