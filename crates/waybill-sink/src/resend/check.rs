//! The checks of `POST /emails`: the first mistake is answered, as Resend does it.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

use super::{
    answers::ResendError,
    request::{SendEmail, Tag, WireAttachment},
};
use crate::{
    address::bare,
    mail::{Attachment, Draft, Header},
};

const MAX_RECIPIENTS: usize = 50;
/// 40 MB after base64.
const MAX_ATTACHMENT_CHARS: usize = 40 * 1024 * 1024;
const MAX_TAG_CHARS: usize = 256;

pub(super) fn into_draft(request: SendEmail<'_>) -> Result<Draft, ResendError> {
    let from = request.from.as_deref().filter(|from| !from.is_empty()).ok_or_else(|| missing("from"))?;
    bare(from).map_err(|why| ResendError::invalid("invalid_from_address", format!("Invalid `from` field. {why}.")))?;
    let recipients = recipients(&request)?;
    let subject = request.subject.clone().filter(|subject| !subject.is_empty()).ok_or_else(|| missing("subject"))?;
    let body = [&request.text, &request.html].into_iter().flatten().any(|part| !part.is_empty());
    match (body, &request.template) {
        (true, None) | (false, Some(_)) => {}
        (false, None) => return Err(missing("html` or `text")),
        (true, Some(_)) => return Err(invalid("A template can't be used together with `html` or `text`.")),
    }
    if subject.contains(['\r', '\n']) {
        return Err(invalid("The subject must be one line."));
    }
    for (name, value) in &request.headers {
        let well_formed = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
        if !well_formed || value.contains(['\r', '\n']) {
            return Err(invalid("Header names and values must be one line."));
        }
    }
    Ok(Draft {
        recipients,
        from: from.to_owned(),
        subject,
        tags: request.tags.iter().map(tag).collect::<Result<_, _>>()?,
        attachments: attachments(&request.attachments)?,
        text: request.text.filter(|text| !text.is_empty()),
        html: request.html.filter(|html| !html.is_empty()),
        headers: request.headers.into_iter().map(|(name, value)| Header { name, value }).collect(),
        labels: Vec::new(),
    })
}

fn missing(field: &str) -> ResendError {
    ResendError::invalid("missing_required_field", format!("Missing `{field}` field."))
}

fn invalid(message: impl Into<String>) -> ResendError {
    ResendError::invalid("validation_error", message)
}

/// The bare addresses of `to`, `cc` and `bcc`.
fn recipients(request: &SendEmail<'_>) -> Result<Vec<String>, ResendError> {
    if request.to.all().is_empty() {
        return Err(missing("to"));
    }
    for address in request.reply_to.all() {
        bare(address).map_err(|why| invalid(format!("Invalid `reply_to` field. {why}.")))?;
    }
    let mut all = Vec::new();
    for (field, list) in [("to", &request.to), ("cc", &request.cc), ("bcc", &request.bcc)] {
        for mailbox in list.all() {
            if mailbox.contains(['\r', '\n']) {
                return Err(invalid(format!("Invalid `{field}` field.")));
            }
            let address = bare(mailbox).map_err(|why| invalid(format!("Invalid `{field}` field. {why}.")))?;
            all.push(address.to_owned());
        }
    }
    if all.len() > MAX_RECIPIENTS {
        return Err(invalid("At most 50 recipients."));
    }
    Ok(all)
}

fn tag(tag: &Tag) -> Result<(String, String), ResendError> {
    let fits = |text: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        (1..=MAX_TAG_CHARS).contains(&text.len()) && text.bytes().all(plain)
    };
    if fits(&tag.name) && fits(&tag.value) {
        Ok((tag.name.clone(), tag.value.clone()))
    } else {
        Err(invalid("Tags should only contain ASCII letters, numbers, underscores, or dashes."))
    }
}

fn attachments(list: &[WireAttachment<'_>]) -> Result<Vec<Attachment>, ResendError> {
    let bad = |message: &str| ResendError::invalid("invalid_attachment", message);
    let characters: usize = list.iter().filter_map(|one| one.content.as_ref()).map(|content| content.len()).sum();
    if characters > MAX_ATTACHMENT_CHARS {
        return Err(bad("Attachments are larger than 40 MB after encoding."));
    }
    list.iter()
        .map(|one| {
            // The real one would fetch a URL here; the sink reaches for nothing.
            let content = match (&one.content, &one.path) {
                (Some(content), None) => content,
                (_, Some(_)) => return Err(bad("This sink fetches no `path`.")),
                (None, None) => return Err(bad("Attachment must have either a `content` or `path`.")),
            };
            let filename = one.filename.clone().filter(|name| !name.is_empty() && !name.contains(['\r', '\n']));
            let filename = filename.ok_or_else(|| bad("Attachment must have a `filename`."))?;
            let content = BASE64.decode(content.as_ref()).ok().filter(|content| !content.is_empty());
            let content = content.ok_or_else(|| bad("The content must be base64 encoded."))?;
            Ok(Attachment::new(filename, one.content_type.as_deref().unwrap_or_default(), content))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn valid() -> Value {
        json!({
            "from": "\"Acme, Inc.\" <no-reply@acme.example>",
            "to": ["\"Ada\" <ada@example.com>"],
            "subject": "Invoice 17",
            "text": "Hi",
            "html": "<p>Hi</p>",
            "headers": { "Auto-Submitted": "auto-generated" },
            "tags": [{ "name": "delivery_id", "value": "dlv_1" }],
            "attachments": [{ "content": "JVBERi0x", "filename": "invoice.pdf", "content_type": "application/pdf" }],
        })
    }

    fn draft(body: &Value) -> Result<Draft, ResendError> {
        let text = body.to_string();
        SendEmail::parse(text.as_bytes()).and_then(into_draft)
    }

    #[test]
    fn a_whole_mail_is_read() {
        let draft = draft(&valid()).unwrap();
        assert_eq!((draft.recipients[0].as_str(), draft.tags["delivery_id"].as_str()), ("ada@example.com", "dlv_1"));
        assert_eq!((draft.text.as_deref(), draft.html.as_deref()), (Some("Hi"), Some("<p>Hi</p>")));
        assert_eq!(&draft.attachments[0].content[..], b"%PDF-1");
        let mut one = valid();
        one["to"] = json!("ada@example.com");
        assert_eq!(super::tests::draft(&one).unwrap().recipients, ["ada@example.com"]);
    }

    #[test]
    fn each_mistake_has_its_name() {
        for (pointer, value, name) in [
            ("/from", Value::Null, "missing_required_field"),
            ("/from", json!("nobody"), "invalid_from_address"),
            ("/from", json!("Acme, Inc. <no-reply@acme.example>"), "invalid_from_address"),
            ("/to", json!([]), "missing_required_field"),
            ("/to", json!(["nobody"]), "validation_error"),
            ("/to", json!(["søren@example.test"]), "validation_error"),
            ("/to", json!(vec!["ada@example.com"; 51]), "validation_error"),
            ("/subject", json!(""), "missing_required_field"),
            ("/subject", json!("a\r\nBcc: b"), "validation_error"),
            ("/tags/0/value", json!("a@b"), "validation_error"),
            ("/tags/0/value", json!(""), "validation_error"),
            ("/headers/Auto-Submitted", json!("a\nb"), "validation_error"),
            ("/attachments/0/content", json!("no base64!"), "invalid_attachment"),
            ("/attachments/0/content", Value::Null, "invalid_attachment"),
            ("/attachments/0/filename", Value::Null, "invalid_attachment"),
        ] {
            let mut body = valid();
            *body.pointer_mut(pointer).expect(pointer) = value;
            assert_eq!(draft(&body).err().map(|error| error.name()), Some(name), "{pointer}");
        }
        let mut bare = valid();
        (bare["text"], bare["html"]) = (Value::Null, json!(""));
        assert_eq!(draft(&bare).err().map(|error| error.name()), Some("missing_required_field"));
        let mut fetched = valid();
        fetched["attachments"][0]["path"] = json!("http://169.254.169.254/");
        assert_eq!(draft(&fetched).err().map(|error| error.name()), Some("invalid_attachment"));
    }
}
