//! The checks of `mail/send`: all mistakes at once, each with its field, and one mail per personalization.

use std::collections::BTreeMap;

use super::{
    answers::FieldError,
    check_parts::{check_address, check_attachment, check_content, check_headers, decode_attachment},
    request::{Contact, Personalization, SendMail},
};
use crate::mail::{Attachment, Draft, Header};

const MAX_PERSONALIZATIONS: usize = 1000;
const MAX_RECIPIENTS: usize = 1000;
const MAX_CATEGORIES: usize = 10;
/// "less than 10,000 bytes" for all custom arguments of a mail.
const MAX_CUSTOM_ARG_BYTES: usize = 10_000;
const MAX_SEND_AHEAD_SECONDS: i64 = 72 * 3600;

/// A request that SendGrid would take.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) drafts: Vec<Draft>,
    pub(super) sandbox: bool,
}

pub(super) fn into_drafts(request: SendMail<'_>) -> Result<Checked, Vec<FieldError>> {
    let mut errors = Vec::new();
    check_envelope(&request, &mut errors);
    check_content(&request, &mut errors);
    check_headers("headers", &request.headers, &mut errors);
    check_options(&request, &mut errors);
    for (at, personalization) in request.personalizations.iter().enumerate() {
        check_personalization(at, personalization, &request, &mut errors);
    }
    let mut attachments = Vec::with_capacity(request.attachments.len());
    for (at, attachment) in request.attachments.iter().enumerate() {
        check_attachment(at, attachment, &mut errors);
        attachments.extend(decode_attachment(at, attachment, &mut errors));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let sandbox = request.mail_settings.sandbox_mode.enable;
    let drafts = request.personalizations.iter().map(|one| draft(one, &request, &attachments)).collect();
    Ok(Checked { drafts, sandbox })
}

fn check_envelope(request: &SendMail<'_>, errors: &mut Vec<FieldError>) {
    match &request.from {
        Some(from) => check_address("from.email", from, errors),
        None => errors.push(FieldError::new("from.email", "The from object must be provided with an email.")),
    }
    if let Some(reply_to) = &request.reply_to {
        check_address("reply_to.email", reply_to, errors);
    }
    let recipients: usize = request.personalizations.iter().map(|one| one.recipients().count()).sum();
    if request.personalizations.is_empty() {
        errors.push(FieldError::new("personalizations", "At least one personalization is required."));
    } else if request.personalizations.len() > MAX_PERSONALIZATIONS || recipients > MAX_RECIPIENTS {
        errors.push(FieldError::new("personalizations", "At most 1000 personalizations and 1000 recipients."));
    }
}

fn check_options(request: &SendMail<'_>, errors: &mut Vec<FieldError>) {
    if request.categories.len() > MAX_CATEGORIES {
        errors.push(FieldError::new("categories", "At most 10 categories."));
    }
    let latest = chrono::Utc::now().timestamp() + MAX_SEND_AHEAD_SECONDS;
    if request.send_at.is_some_and(|at| at > latest) {
        errors.push(FieldError::new("send_at", "At most 72 hours ahead."));
    }
}

fn check_personalization(at: usize, one: &Personalization, request: &SendMail<'_>, errors: &mut Vec<FieldError>) {
    let field = format!("personalizations.{at}");
    if one.to.is_empty() {
        errors.push(FieldError::new(format!("{field}.to"), "The to array needs at least one email object."));
    }
    for (list, contacts) in [("to", &one.to), ("cc", &one.cc), ("bcc", &one.bcc)] {
        for (index, contact) in contacts.iter().enumerate() {
            check_address(&format!("{field}.{list}.{index}.email"), contact, errors);
        }
    }
    let mut seen: Vec<String> = one.recipients().map(|contact| contact.email.to_lowercase()).collect();
    let all = seen.len();
    seen.sort_unstable();
    seen.dedup();
    if seen.len() < all {
        errors.push(FieldError::new(field.clone(), "Each email address must be unique between to, cc, and bcc."));
    }
    if let Some(from) = &one.from {
        check_address(&format!("{field}.from.email"), from, errors);
    }
    let subject = one.subject.as_deref().or(request.subject.as_deref()).unwrap_or_default();
    if subject.is_empty() && request.template_id.is_none() {
        errors.push(FieldError::new("subject", "The subject is required, here or in every personalization."));
    }
    check_headers(&format!("{field}.headers"), &one.headers, errors);
    check_custom_args(&field, one, request, errors);
}

fn check_custom_args(field: &str, one: &Personalization, request: &SendMail<'_>, errors: &mut Vec<FieldError>) {
    let args = || request.custom_args.iter().chain(&one.custom_args);
    if args().any(|(_, value)| !value.is_string()) {
        errors.push(FieldError::new(format!("{field}.custom_args"), "The values must be strings."));
    }
    let bytes: usize = args().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
    if bytes >= MAX_CUSTOM_ARG_BYTES {
        errors.push(FieldError::new(format!("{field}.custom_args"), "Less than 10000 bytes in all."));
    }
}

/// Attachments share their bytes; only the handles are cloned.
fn draft(one: &Personalization, request: &SendMail<'_>, attachments: &[Attachment]) -> Draft {
    let part = |kind: &str| request.content.iter().find(|part| part.kind == kind).map(|part| part.value.clone());
    let args = request.custom_args.iter().chain(&one.custom_args);
    let tags: BTreeMap<String, String> =
        args.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect();
    let mut headers = request.headers.clone();
    headers.extend(one.headers.clone());
    Draft {
        recipients: one.recipients().map(|contact| contact.email.clone()).collect(),
        from: one.from.as_ref().or(request.from.as_ref()).map(spelled).unwrap_or_default(),
        subject: one.subject.as_ref().or(request.subject.as_ref()).cloned().unwrap_or_default(),
        text: part("text/plain"),
        html: part("text/html"),
        headers: headers.into_iter().map(|(name, value)| Header { name, value }).collect(),
        tags,
        labels: request.categories.clone(),
        attachments: attachments.to_vec(),
    }
}

fn spelled(contact: &Contact) -> String {
    match contact.name.as_deref() {
        Some(name) if !name.is_empty() => format!("{name} <{}>", contact.email),
        Some(_) | None => contact.email.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn valid() -> Value {
        json!({
            "personalizations": [{ "to": [{ "email": "ada@example.com" }], "custom_args": { "delivery_id": "dlv_1" } }],
            "from": { "email": "no-reply@acme.example", "name": "Acme" },
            "subject": "Invoice 17",
            "content": [{ "type": "text/plain", "value": "Hi" }, { "type": "text/html", "value": "<p>Hi</p>" }],
            "attachments": [{ "content": "JVBERi0x", "filename": "invoice.pdf", "type": "application/pdf" }],
        })
    }

    fn wrong_fields(body: &Value) -> Vec<String> {
        let text = body.to_string();
        match SendMail::parse(text.as_bytes()).and_then(into_drafts) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.iter().map(|error| error.field().unwrap_or("-").to_owned()).collect(),
        }
    }

    #[test]
    fn each_mistake_is_named_with_its_field() {
        assert!(wrong_fields(&valid()).is_empty());
        let eleven: Vec<String> = (0..11).map(|n| n.to_string()).collect();
        let cases = [
            ("/from", Value::Null, "from.email"),
            ("/subject", json!(""), "subject"),
            ("/content", json!([]), "content"),
            ("/content/0/value", json!(""), "content.0.value"),
            ("/content/0/type", json!("text/html"), "content"),
            ("/personalizations", json!([]), "personalizations"),
            ("/personalizations/0/to", json!([]), "personalizations.0.to"),
            ("/personalizations/0/to/0/email", json!("nobody"), "personalizations.0.to.0.email"),
            ("/personalizations/0/custom_args/delivery_id", json!(17), "personalizations.0.custom_args"),
            (
                "/personalizations/0/custom_args/delivery_id",
                json!("x".repeat(10_000)),
                "personalizations.0.custom_args",
            ),
            ("/attachments/0/content", json!("no base64!"), "attachments.0.content"),
            ("/attachments/0/filename", json!(""), "attachments.0.filename"),
            ("/attachments/0/type", json!("a;b"), "attachments.0.type"),
            ("/headers", json!({ "Subject": "no" }), "headers.Subject"),
            ("/categories", json!(eleven), "categories"),
            ("/send_at", json!(4_102_444_800_i64), "send_at"),
        ];
        for (pointer, value, field) in cases {
            let mut body = valid();
            for extra in ["headers", "categories", "send_at"] {
                body[extra] = json!(null);
            }
            body["headers"] = json!({});
            body["categories"] = json!([]);
            *body.pointer_mut(pointer).expect(pointer) = value;
            assert_eq!(wrong_fields(&body), [field], "{pointer}");
        }
    }

    #[test]
    fn an_address_may_appear_once_only() {
        let mut body = valid();
        body["personalizations"][0]["cc"] = json!([{ "email": "ADA@example.com" }]);
        assert_eq!(wrong_fields(&body), ["personalizations.0"]);
    }

    #[test]
    fn every_personalization_becomes_a_mail_of_its_own() {
        let mut body = valid();
        body["custom_args"] = json!({ "job_id": "job_1", "delivery_id": "overridden" });
        let second = json!({ "to": [{ "email": "bob@example.com" }], "subject": "For Bob" });
        body["personalizations"].as_array_mut().unwrap().push(second);
        let text = body.to_string();
        let checked = SendMail::parse(text.as_bytes()).and_then(into_drafts).unwrap();
        let seen: Vec<_> = checked
            .drafts
            .iter()
            .map(|draft| (draft.recipients[0].as_str(), draft.subject.as_str(), draft.tags["delivery_id"].as_str()))
            .collect();
        assert_eq!(seen, [("ada@example.com", "Invoice 17", "dlv_1"), ("bob@example.com", "For Bob", "overridden")]);
        assert_eq!(checked.drafts[0].from, "Acme <no-reply@acme.example>");
    }
}
