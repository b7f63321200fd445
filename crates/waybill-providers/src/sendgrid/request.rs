//! The request body.

use crate::{
    encode::base64,
    mailbox::{Addresses, one_line},
};
use serde::Serialize;
use waybill_core::{mail::OutgoingMail, outcome::Outcome};

#[derive(Serialize)]
struct SendMail<'a> {
    personalizations: [Personalization<'a>; 1],
    from: Contact<'a>,
    subject: String,
    content: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<Attachment<'a>>,
    headers: Headers,
    tracking_settings: Tracking,
}

#[derive(Serialize)]
struct Personalization<'a> {
    to: [Contact<'a>; 1],
    custom_args: CustomArgs,
}

/// The name is plain text here; SendGrid builds the header.
#[derive(Serialize)]
struct Contact<'a> {
    email: &'a str,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
}

/// Kept for long by SendGrid and not treated as personal data: ids only.
#[derive(Serialize)]
struct CustomArgs {
    tenant_id: String,
    job_id: String,
    delivery_id: String,
    attempt_id: String,
}

#[derive(Serialize)]
struct Content<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    value: &'a str,
}

#[derive(Serialize)]
struct Attachment<'a> {
    #[serde(serialize_with = "base64")]
    content: &'a [u8],
    filename: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    disposition: &'static str,
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

/// Business documents are not tracked, and links must arrive as they were written.
#[derive(Serialize)]
struct Tracking {
    click_tracking: ClickTracking,
    open_tracking: Switch,
    subscription_tracking: Switch,
}

#[derive(Serialize)]
struct ClickTracking {
    enable: bool,
    enable_text: bool,
}

#[derive(Serialize)]
struct Switch {
    enable: bool,
}

/// # Errors
/// The outcome for a mail that can't be written as JSON.
pub(super) fn body(mail: &OutgoingMail, addresses: &Addresses) -> Result<Vec<u8>, Outcome> {
    serde_json::to_vec(&SendMail {
        personalizations: [Personalization {
            to: [Contact { email: &addresses.to, name: one_line(&mail.to_name) }],
            custom_args: CustomArgs {
                tenant_id: mail.tenant.to_string(),
                job_id: mail.job.to_string(),
                delivery_id: mail.delivery.to_string(),
                attempt_id: mail.attempt.to_string(),
            },
        }],
        from: Contact { email: &addresses.from, name: one_line(&mail.from_name) },
        subject: one_line(&mail.subject),
        content: content(mail),
        attachments: attachments(mail),
        headers: Headers { auto_submitted: "auto-generated", entity: mail.delivery.to_string() },
        tracking_settings: Tracking {
            click_tracking: ClickTracking { enable: false, enable_text: false },
            open_tracking: Switch { enable: false },
            subscription_tracking: Switch { enable: false },
        },
    })
    .map_err(|error| Outcome::RejectedMessage { detail: format!("the request can't be written: {error}") })
}

/// `text/plain` comes first, and no part may be empty.
fn content(mail: &OutgoingMail) -> Vec<Content<'_>> {
    let parts = [("text/plain", mail.text.as_str()), ("text/html", mail.html.as_str())];
    let mut content: Vec<Content<'_>> =
        parts.into_iter().filter(|(_, value)| !value.is_empty()).map(|(kind, value)| Content { kind, value }).collect();
    if content.is_empty() {
        content.push(Content { kind: "text/plain", value: " " });
    }
    content
}

fn attachments(mail: &OutgoingMail) -> Vec<Attachment<'_>> {
    mail.attachments
        .iter()
        .map(|a| Attachment {
            content: &a.bytes,
            filename: &a.filename,
            kind: a.content_type,
            disposition: "attachment",
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_mail::{mail, mail_with_attachment};
    use serde_json::{Value, json};

    fn written(mail: &OutgoingMail) -> Value {
        serde_json::from_slice(&body(mail, &Addresses::of(mail).unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn the_whole_request() {
        let mail = mail_with_attachment(3);
        assert_eq!(
            written(&mail),
            json!({
                "personalizations": [{
                    "to": [{"email": "ada@example.com", "name": "Ada Lovelace"}],
                    "custom_args": {
                        "tenant_id": "ten_00000000000000000000000001",
                        "job_id": "job_00000000000000000000000002",
                        "delivery_id": "dlv_00000000000000000000000003",
                        "attempt_id": "att_00000000000000000000000004",
                    },
                }],
                "from": {"email": "no-reply@acme.example", "name": "Acme, Inc."},
                "subject": "Invoice 17",
                "content": [
                    {"type": "text/plain", "value": "See the attachment."},
                    {"type": "text/html", "value": "<p>See the attachment.</p>"},
                ],
                "attachments": [{
                    "content": "JSUl", "filename": "invoice-17.pdf", "type": "application/pdf",
                    "disposition": "attachment",
                }],
                "headers": {"Auto-Submitted": "auto-generated", "X-Entity-Ref-ID": "dlv_00000000000000000000000003"},
                "tracking_settings": {
                    "click_tracking": {"enable": false, "enable_text": false},
                    "open_tracking": {"enable": false},
                    "subscription_tracking": {"enable": false},
                },
            })
        );
    }

    #[test]
    fn ses_03_names_go_into_json_as_they_are() {
        let name = "Silva, Ana \"Nina\" (Vendas) 漢";
        let mail = OutgoingMail { to_name: name.into(), from_name: String::new(), ..mail() };
        let body = written(&mail);
        assert_eq!(body["personalizations"][0]["to"][0]["name"], name);
        assert_eq!(body["from"], json!({"email": "no-reply@acme.example"}));
    }

    #[test]
    fn a_line_break_in_a_name_or_subject_adds_no_header() {
        let evil = "x\r\nBcc: eve@example.com".to_owned();
        let body = written(&OutgoingMail { to_name: evil.clone(), subject: evil, ..mail() });
        assert_eq!(body["subject"], "x  Bcc: eve@example.com");
        assert_eq!(body["personalizations"][0]["to"][0]["name"], "x  Bcc: eve@example.com");
    }

    #[test]
    fn no_part_is_empty() {
        let empty = OutgoingMail { text: String::new(), html: String::new(), ..mail() };
        assert_eq!(written(&empty)["content"], json!([{"type": "text/plain", "value": " "}]));
        let html_only = OutgoingMail { text: String::new(), ..mail() };
        assert_eq!(written(&html_only)["content"][0]["type"], "text/html");
    }
}
