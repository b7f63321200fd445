//! The checks of the parts of a mail: addresses, content, headers, attachments.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

use super::{
    answers::FieldError,
    request::{Contact, SendMail, WireAttachment},
};
use crate::mail::Attachment;

/// Headers that SendGrid writes itself.
const RESERVED_HEADERS: [&str; 12] = [
    "x-sg-id",
    "x-sg-eid",
    "received",
    "dkim-signature",
    "content-type",
    "content-transfer-encoding",
    "to",
    "from",
    "subject",
    "reply-to",
    "cc",
    "bcc",
];

/// Looser than SES: a non-ASCII local part is taken here, and reported as dropped later.
pub(super) fn check_address(field: &str, contact: &Contact, errors: &mut Vec<FieldError>) {
    let valid = contact.email.rsplit_once('@').is_some_and(|(local, domain)| {
        let plain = |c: char| !c.is_whitespace() && !c.is_control() && !"<>()[],;:\\\"@".contains(c);
        (1..=64).contains(&local.len())
            && local.chars().all(plain)
            && domain.contains('.')
            && domain.len() <= 255
            && domain
                .split('.')
                .all(|label| !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || c == '-'))
    });
    if !valid {
        errors.push(FieldError::new(field, "Does not contain a valid address."));
    }
    let name = contact.name.as_deref().unwrap_or_default();
    if name.contains(['\r', '\n']) {
        errors.push(FieldError::new(field, "The name must be one line."));
    }
}

pub(super) fn check_content(request: &SendMail<'_>, errors: &mut Vec<FieldError>) {
    if request.content.is_empty() && request.template_id.is_none() {
        errors.push(FieldError::new("content", "At least one content is required."));
    }
    for (at, part) in request.content.iter().enumerate() {
        if part.kind.is_empty() || part.kind.contains(['\r', '\n', ';']) {
            errors.push(FieldError::new(format!("content.{at}.type"), "A MIME type is required."));
        }
        if part.value.is_empty() {
            errors.push(FieldError::new(format!("content.{at}.value"), "At least one character is required."));
        }
    }
    let rank = |kind: &str| match kind {
        "text/plain" => 0,
        "text/html" => 1,
        _ => 2,
    };
    // Strictly rising: the same type twice is refused like the wrong order.
    if request.content.windows(2).any(|pair| rank(&pair[0].kind) >= rank(&pair[1].kind) && rank(&pair[1].kind) < 2) {
        errors.push(FieldError::new("content", "First text/plain, then text/html, each once."));
    }
    if request.subject.as_deref().unwrap_or_default().contains(['\r', '\n']) {
        errors.push(FieldError::new("subject", "The subject must be one line."));
    }
}

pub(super) fn check_headers(field: &str, headers: &BTreeMap<String, String>, errors: &mut Vec<FieldError>) {
    for (name, value) in headers {
        let known = RESERVED_HEADERS.contains(&name.to_ascii_lowercase().as_str());
        let well_formed = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
        if known {
            errors.push(FieldError::new(format!("{field}.{name}"), "This header is reserved."));
        } else if !well_formed || value.contains(['\r', '\n']) || !value.is_ascii() {
            errors.push(FieldError::new(field, "Header names and values must be one line of printable ASCII."));
        }
    }
}

pub(super) fn check_attachment(at: usize, attachment: &WireAttachment<'_>, errors: &mut Vec<FieldError>) {
    let field = |name: &str| format!("attachments.{at}.{name}");
    let has_breaks = |text: &str| text.contains(['\r', '\n', ';']);
    if attachment.filename.is_empty() || has_breaks(&attachment.filename) {
        errors.push(FieldError::new(field("filename"), "A file name without line breaks and semicolons is required."));
    }
    if attachment.kind.as_deref().is_some_and(|kind| kind.is_empty() || has_breaks(kind)) {
        errors.push(FieldError::new(field("type"), "A MIME type without line breaks and semicolons is required."));
    }
    if attachment.disposition.as_deref().is_some_and(|text| text != "inline" && text != "attachment") {
        errors.push(FieldError::new(field("disposition"), "Either inline or attachment."));
    }
    if attachment.content_id.as_deref().is_some_and(has_breaks) {
        errors
            .push(FieldError::new(field("content_id"), "A content id without line breaks and semicolons is required."));
    }
}

pub(super) fn decode_attachment(
    at: usize,
    attachment: &WireAttachment<'_>,
    errors: &mut Vec<FieldError>,
) -> Option<Attachment> {
    match BASE64.decode(attachment.content.as_ref()) {
        Ok(content) if !content.is_empty() => {
            let kind = attachment.kind.as_deref().unwrap_or_default();
            Some(Attachment::new(attachment.filename.clone(), kind, content))
        }
        Ok(_) | Err(_) => {
            errors.push(FieldError::new(format!("attachments.{at}.content"), "The content must be base64 encoded."));
            None
        }
    }
}
