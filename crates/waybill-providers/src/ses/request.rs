//! The parts of `SendEmail` for one mail: simple content, so that SES builds (and signs) the MIME message.

use crate::mailbox::{Addresses, mailbox, one_line};
use aws_sdk_sesv2::{
    error::BuildError,
    primitives::Blob,
    types::{
        Attachment, AttachmentContentDisposition, AttachmentContentTransferEncoding, Body, Content, Destination,
        EmailContent, Message, MessageHeader, MessageTag,
    },
};
use waybill_core::{mail, mail::OutgoingMail, outcome::Outcome};

const CHARSET: &str = "UTF-8";

pub(super) struct Parts {
    pub(super) from: String,
    pub(super) destination: Destination,
    pub(super) content: EmailContent,
    pub(super) tags: Vec<MessageTag>,
}

impl Parts {
    /// # Errors
    /// The outcome for a mail that the SDK does not let us write.
    pub(super) fn of(mail: &OutgoingMail, addresses: &Addresses) -> Result<Self, Outcome> {
        Self::build(mail, addresses).map_err(|error| Outcome::RejectedMessage {
            detail: crate::detail::detail(&format!("the request can't be built: {error}")),
        })
    }

    fn build(mail: &OutgoingMail, addresses: &Addresses) -> Result<Self, BuildError> {
        Ok(Self {
            from: mailbox(&mail.from_name, &addresses.from),
            destination: Destination::builder().to_addresses(mailbox(&mail.to_name, &addresses.to)).build(),
            content: EmailContent::builder().simple(message(mail)?).build(),
            tags: tags(mail)?,
        })
    }
}

/// Tag values take `A-Za-z0-9_-` only; our ids fit. Ids and nothing else: tags travel through events and metrics.
fn tags(mail: &OutgoingMail) -> Result<Vec<MessageTag>, BuildError> {
    [
        ("tenant_id", mail.tenant.to_string()),
        ("job_id", mail.job.to_string()),
        ("delivery_id", mail.delivery.to_string()),
        ("attempt_id", mail.attempt.to_string()),
    ]
    .into_iter()
    .map(|(name, value)| MessageTag::builder().name(name).value(value).build())
    .collect()
}

fn message(mail: &OutgoingMail) -> Result<Message, BuildError> {
    let mut body = Body::builder();
    // One part at least; an empty text is better than a mail that is refused for having none.
    if !mail.text.is_empty() || mail.html.is_empty() {
        body = body.text(utf8(&mail.text)?);
    }
    if !mail.html.is_empty() {
        body = body.html(utf8(&mail.html)?);
    }
    let mut message = Message::builder()
        .subject(utf8(&one_line(&mail.subject))?)
        .body(body.build())
        // RFC 3834: so that vacation responders stay quiet.
        .headers(header("Auto-Submitted", "auto-generated")?)
        // Unique, so that mail clients don't fold different documents into one conversation.
        .headers(header("X-Entity-Ref-ID", &mail.delivery.to_string())?);
    for attachment in &mail.attachments {
        message = message.attachments(encoded(attachment)?);
    }
    Ok(message.build())
}

fn utf8(data: &str) -> Result<Content, BuildError> {
    Content::builder().data(data).charset(CHARSET).build()
}

fn header(name: &str, value: &str) -> Result<MessageHeader, BuildError> {
    MessageHeader::builder().name(name).value(value).build()
}

fn encoded(attachment: &mail::Attachment) -> Result<Attachment, BuildError> {
    Attachment::builder()
        .raw_content(Blob::new(attachment.bytes.to_vec()))
        .file_name(&attachment.filename)
        .content_type(attachment.content_type)
        .content_disposition(AttachmentContentDisposition::Attachment)
        .content_transfer_encoding(AttachmentContentTransferEncoding::Base64)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_mail::{mail, mail_with_attachment};

    fn parts(mail: &OutgoingMail) -> Parts {
        Parts::of(mail, &Addresses::of(mail).unwrap()).unwrap()
    }

    #[test]
    fn tags_hold_ids_that_ses_takes() {
        let parts = parts(&mail());
        let names: Vec<_> = parts.tags.iter().map(MessageTag::name).collect();
        assert_eq!(names, ["tenant_id", "job_id", "delivery_id", "attempt_id"]);
        for tag in &parts.tags {
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            assert!(tag.value().len() <= 256 && tag.value().chars().all(fits), "{tag:?}");
        }
    }

    #[test]
    fn a_mail_says_that_it_is_automatic_and_carries_its_attachment() {
        let parts = parts(&mail_with_attachment(4));
        let message = parts.content.simple().unwrap();
        let headers: Vec<_> = message.headers().iter().map(|h| (h.name(), h.value())).collect();
        assert_eq!(
            headers,
            [("Auto-Submitted", "auto-generated"), ("X-Entity-Ref-ID", "dlv_00000000000000000000000003")]
        );
        let attachment = &message.attachments()[0];
        assert_eq!((attachment.file_name(), attachment.content_type()), ("invoice-17.pdf", Some("application/pdf")));
        assert_eq!(attachment.raw_content().as_ref(), b"%%%%");
    }

    #[test]
    fn ses_03_both_mailboxes_are_encoded() {
        let mail = OutgoingMail { from_name: "Silva, Ana \"Nina\"".into(), to_name: "漢".into(), ..mail() };
        let parts = parts(&mail);
        assert_eq!(parts.from, r#""Silva, Ana \"Nina\"" <no-reply@acme.example>"#);
        assert_eq!(parts.destination.to_addresses(), ["=?utf-8?B?5ryi?= <ada@example.com>"]);
    }

    #[test]
    fn a_mail_without_html_or_without_text_has_the_other_part() {
        let body = |mail: &OutgoingMail| {
            let parts = parts(mail);
            let body = parts.content.simple().unwrap().body().unwrap().clone();
            (body.text().is_some(), body.html().is_some())
        };
        assert_eq!(body(&mail()), (true, true));
        assert_eq!(body(&OutgoingMail { html: String::new(), ..mail() }), (true, false));
        assert_eq!(body(&OutgoingMail { text: String::new(), ..mail() }), (false, true));
        assert_eq!(body(&OutgoingMail { text: String::new(), html: String::new(), ..mail() }), (true, false));
    }
}
