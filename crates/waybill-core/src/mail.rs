//! The mail that one delivery becomes.

use crate::{
    address::EmailAddress,
    ids::{AttemptId, DeliveryId, JobId, TenantId},
    json::Json,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// What a route says about its mails. Texts may hold `{subject}`, `{type}`, `{name}` and `{data/pointer/into/data}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MailTemplate {
    pub from: String,
    #[serde(default)]
    pub from_name: String,
    pub subject: String,
    pub text: String,
}

impl MailTemplate {
    /// # Errors
    /// The field that is wrong and why.
    pub fn check(&self) -> Result<(), String> {
        EmailAddress::parse(&self.from)
            .map_err(|e| format!("mail.from: {e}"))?
            .sendable()
            .map_err(|e| format!("mail.from: {e}"))?;
        if self.subject.trim().is_empty() {
            return Err("mail.subject: must not be empty".into());
        }
        Ok(())
    }
}

#[derive(Debug, Clone)]
pub struct Attachment {
    /// ASCII letters, digits, `.`, `-`, `_` only.
    pub filename: String,
    pub content_type: &'static str,
    pub bytes: Bytes,
}

/// A composed mail to one recipient. What goes into provider tags are ids only, never an address or a name.
#[derive(Debug, Clone)]
pub struct OutgoingMail {
    pub tenant: TenantId,
    pub job: JobId,
    pub delivery: DeliveryId,
    pub attempt: AttemptId,
    pub from: String,
    pub from_name: String,
    /// [`EmailAddress::sendable`].
    pub to: String,
    pub to_name: String,
    pub subject: String,
    pub text: String,
    pub html: String,
    pub attachments: Vec<Attachment>,
}

/// What the placeholders of a template are filled with.
#[derive(Debug, Clone, Copy)]
pub struct Filling<'a> {
    pub event_type: &'a str,
    pub subject: &'a str,
    pub name: &'a str,
    pub data: &'a Json,
}

/// Fills a template. Control characters that arrive by a value become spaces in `one_line` texts: values are a producer's data, and a
/// subject is a header.
pub fn fill(template: &str, with: Filling<'_>, one_line: bool) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        let after = &rest[open + 1..];
        match after.find('}').and_then(|close| Some((value(&after[..close], with)?, close))) {
            Some((value, close)) => {
                out.push_str(&value);
                rest = &after[close + 1..];
            }
            None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    if one_line { out.chars().map(|c| if c.is_control() { ' ' } else { c }).collect() } else { out }
}

fn value(name: &str, with: Filling<'_>) -> Option<String> {
    Some(match name {
        "subject" => with.subject.to_owned(),
        "type" => with.event_type.to_owned(),
        "name" => with.name.to_owned(),
        other => match with.data.pointer(other.strip_prefix("data").filter(|p| p.starts_with('/'))?) {
            Some(Json::String(text)) => text.clone(),
            Some(Json::Null) | None => String::new(),
            Some(json @ (Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_))) => json.to_text(),
        },
    })
}

/// A text as simple HTML: escaped, a blank line starts a paragraph.
pub fn to_html(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let paragraphs: Vec<String> =
        escaped.split("\n\n").map(|p| format!("<p>{}</p>", p.trim().replace('\n', "<br>"))).collect();
    format!("<!doctype html><html><body style=\"font-family:sans-serif\">{}</body></html>", paragraphs.concat())
}

/// `purchase_order` of `PO 4711/ä` -> `purchase-order-PO-4711.pdf`.
pub fn document_filename(document_type: &str, subject: &str) -> String {
    let clean = |text: &str| -> String {
        let dashed: String =
            text.chars().take(80).map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
        dashed
            .split('-')
            .filter(|s| s.contains(|c: char| c.is_ascii_alphanumeric()))
            .collect::<Vec<_>>()
            .join("-")
            .trim_matches('.')
            .to_owned()
    };
    let (kind, subject) = (clean(document_type), clean(subject));
    if subject.is_empty() { format!("{kind}.pdf") } else { format!("{kind}-{subject}.pdf") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    #[test]
    fn templates_are_filled_and_unknown_names_stay_as_they_are() {
        let data = json::parse(br#"{"a":{"b":"x"},"n":1.50}"#).unwrap();
        let with = Filling { event_type: "t", subject: "PO-1", name: "Ana", data: &data };
        assert_eq!(
            fill("{subject} {name} {data/a/b} {data/n} {data/none}| {x} {", with, false),
            "PO-1 Ana x 1.50 | {x} {"
        );
    }

    #[test]
    fn a_value_can_t_inject_a_header_line_or_markup() {
        let data = json::parse(br#"{"evil":"a\r\nBcc: b@example.test"}"#).unwrap();
        let with = Filling { event_type: "t", subject: "{name}", name: "\r\n", data: &data };
        assert_eq!(fill("{data/evil}", with, true), "a  Bcc: b@example.test");
        assert_eq!(fill("{subject}", with, true), "{name}", "values are not filled again");
        assert!(to_html("<script>&\n\nx").contains("<p>&lt;script&gt;&amp;</p><p>x</p>"));
    }

    #[test]
    fn file_names_are_plain() {
        assert_eq!(document_filename("purchase_order", "PO 4711/\u{e4}\"\r\n"), "purchase-order-PO-4711.pdf");
        assert_eq!(document_filename("purchase_order", "../.."), "purchase-order.pdf");
    }
}
