//! The checks of `POST /email`: the first mistake is answered, as Postmark does it.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

use super::{
    answers::PostmarkError,
    request::{SendEmail, WireAttachment},
};
use crate::{
    address::{bare, split_list},
    mail::{Attachment, Draft, Header},
};

const MAX_RECIPIENTS: usize = 50;
/// Attachments included, after base64.
const MAX_MESSAGE_BYTES: usize = 10 * 1024 * 1024;
const MAX_BODY_BYTES: usize = 5 * 1024 * 1024;
const MAX_METADATA: usize = 10;
/// The two streams that every server has; others are made by a person.
const STREAMS: [&str; 2] = ["outbound", "broadcast"];
/// Extensions that a mail client would run. <https://postmarkapp.com/developer/user-guide/send-email-with-api>
const FORBIDDEN: [&str; 12] = ["vbs", "exe", "bin", "bat", "chm", "com", "cpl", "crt", "hlp", "hta", "js", "lnk"];

/// The local part of an address that is on the list of inactive ones.
const INACTIVE: &str = "inactive";

pub(super) fn into_draft(request: SendEmail<'_>) -> Result<Draft, PostmarkError> {
    bare(&request.from).map_err(|why| PostmarkError::invalid(format!("Invalid 'From' address. {why}.")))?;
    let recipients = recipients(&request)?;
    check_text(&request)?;
    check_metadata(&request)?;
    let stream = request.message_stream.as_deref().unwrap_or("outbound");
    if !STREAMS.contains(&stream) {
        return Err(PostmarkError::refused(1235, "The Message Stream you supplied does not exist."));
    }
    let attachments = attachments(&request)?;
    // Checked last: with other mistakes the list is not even looked at.
    let inactive = |address: &String| address.split('@').next().is_some_and(|local| local == INACTIVE);
    if recipients.iter().all(inactive) {
        let names = recipients.join(", ");
        return Err(PostmarkError::refused(
            406,
            format!("You tried to send to recipient(s) that have been marked as inactive. Inactive: {names}"),
        ));
    }
    Ok(Draft {
        recipients,
        from: request.from,
        subject: request.subject,
        text: request.text_body.filter(|text| !text.is_empty()),
        html: request.html_body.filter(|html| !html.is_empty()),
        headers: request.headers.into_iter().map(|header| Header { name: header.name, value: header.value }).collect(),
        tags: request.metadata,
        labels: vec![stream.to_owned()],
        attachments,
    })
}

fn recipients(request: &SendEmail<'_>) -> Result<Vec<String>, PostmarkError> {
    if request.to.trim().is_empty() {
        return Err(PostmarkError::invalid("Zero recipients specified"));
    }
    let mut all = Vec::new();
    for (field, list) in [("To", Some(&request.to)), ("Cc", request.cc.as_ref()), ("Bcc", request.bcc.as_ref())] {
        for mailbox in list.into_iter().flat_map(|list| split_list(list)) {
            if mailbox.contains(['\r', '\n']) {
                return Err(PostmarkError::invalid(format!("Error parsing '{field}'")));
            }
            let address = bare(mailbox).map_err(|why| {
                PostmarkError::invalid(format!("Error parsing '{field}': Illegal email address. {why}."))
            })?;
            all.push(address.to_owned());
        }
    }
    if all.len() > MAX_RECIPIENTS {
        return Err(PostmarkError::invalid("Too many recipients: at most 50."));
    }
    Ok(all)
}

fn check_text(request: &SendEmail<'_>) -> Result<(), PostmarkError> {
    let parts = [&request.text_body, &request.html_body];
    if parts.iter().all(|part| part.as_deref().unwrap_or_default().is_empty()) {
        return Err(PostmarkError::invalid("Provide either email TextBody or HtmlBody or both."));
    }
    if parts.iter().any(|part| part.as_deref().unwrap_or_default().len() > MAX_BODY_BYTES) {
        return Err(PostmarkError::invalid("TextBody and HtmlBody have at most 5 MB each."));
    }
    if request.subject.contains(['\r', '\n']) {
        return Err(PostmarkError::invalid("The subject must be one line."));
    }
    for header in &request.headers {
        let well_formed = !header.name.is_empty() && header.name.bytes().all(|b| b.is_ascii_graphic() && b != b':');
        if !well_formed || header.value.contains(['\r', '\n']) {
            return Err(PostmarkError::invalid("Header names and values must be one line."));
        }
    }
    let links = request.track_links.as_deref().unwrap_or("None");
    if !["None", "HtmlAndText", "HtmlOnly", "TextOnly"].contains(&links) {
        return Err(PostmarkError::refused(403, "Incompatible JSON: TrackLinks."));
    }
    Ok(())
}

fn check_metadata(request: &SendEmail<'_>) -> Result<(), PostmarkError> {
    let fits = |(name, value): (&String, &String)| (1..=20).contains(&name.len()) && value.len() <= 80;
    if request.metadata.len() > MAX_METADATA || !request.metadata.iter().all(fits) {
        return Err(PostmarkError::invalid("Metadata: at most 10 pairs, names of 20 and values of 80 characters."));
    }
    Ok(())
}

fn attachments(request: &SendEmail<'_>) -> Result<Vec<Attachment>, PostmarkError> {
    let texts = [&request.text_body, &request.html_body].into_iter().flatten().map(String::len).sum::<usize>();
    let encoded: usize = request.attachments.iter().map(|one| one.content.len()).sum();
    if texts + encoded > MAX_MESSAGE_BYTES {
        return Err(PostmarkError::invalid("The message is larger than 10 MB."));
    }
    request.attachments.iter().map(attachment).collect()
}

fn attachment(one: &WireAttachment<'_>) -> Result<Attachment, PostmarkError> {
    if one.name.is_empty() || one.name.contains(['\r', '\n']) || one.content_type.is_empty() {
        return Err(PostmarkError::invalid("An attachment needs a Name and a ContentType."));
    }
    let extension = one.name.rsplit_once('.').map_or(String::new(), |(_, extension)| extension.to_ascii_lowercase());
    if FORBIDDEN.contains(&extension.as_str()) {
        return Err(PostmarkError::refused(411, "Forbidden attachment type."));
    }
    match BASE64.decode(one.content.as_ref()) {
        Ok(content) if !content.is_empty() => Ok(Attachment::new(one.name.clone(), &one.content_type, content)),
        Ok(_) | Err(_) => Err(PostmarkError::invalid("The Content of an attachment must be base64.")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn valid() -> Value {
        json!({
            "From": "\"Acme, Inc.\" <no-reply@acme.example>",
            "To": "\"Lovelace, Ada\" <ada@example.com>",
            "Subject": "Invoice 17",
            "TextBody": "Hi",
            "HtmlBody": "<p>Hi</p>",
            "Headers": [{ "Name": "Auto-Submitted", "Value": "auto-generated" }],
            "Metadata": { "delivery_id": "dlv_1" },
            "MessageStream": "outbound",
            "TrackLinks": "None",
            "Attachments": [{ "Name": "invoice.pdf", "Content": "JVBERi0x", "ContentType": "application/pdf" }],
        })
    }

    fn draft(body: &Value) -> Result<Draft, PostmarkError> {
        let text = body.to_string();
        SendEmail::parse(text.as_bytes()).and_then(into_draft)
    }

    #[test]
    fn a_whole_mail_is_read_and_a_comma_between_quotes_makes_no_second_recipient() {
        let draft = draft(&valid()).unwrap();
        assert_eq!((draft.recipients.len(), draft.recipients[0].as_str()), (1, "ada@example.com"));
        assert_eq!((draft.tags["delivery_id"].as_str(), draft.labels[0].as_str()), ("dlv_1", "outbound"));
        assert_eq!(&draft.attachments[0].content[..], b"%PDF-1");
    }

    #[test]
    fn pv_02_only_when_all_recipients_are_inactive_it_is_an_error() {
        let to = |text: &str| {
            let mut body = valid();
            body["To"] = json!(text);
            draft(&body).map(|draft| draft.recipients.len()).map_err(|error| error.code())
        };
        assert_eq!(to("inactive@example.com"), Err(406));
        assert_eq!(to("inactive@example.com, inactive@example.org"), Err(406));
        assert_eq!(to("inactive@example.com, ada@example.com"), Ok(2));
    }

    #[test]
    fn each_mistake_has_its_code() {
        for (pointer, value, code) in [
            ("/From", json!("nobody"), 300),
            ("/From", json!("Acme, Inc. <no-reply@acme.example>"), 300),
            ("/To", json!(""), 300),
            ("/To", json!("søren@example.test"), 300),
            ("/To", json!(vec!["a@example.com"; 51].join(",")), 300),
            ("/To", json!(7), 403),
            ("/Subject", json!("a\r\nBcc: b"), 300),
            ("/Headers/0/Value", json!("a\nb"), 300),
            ("/Metadata/delivery_id", json!("x".repeat(81)), 300),
            ("/MessageStream", json!("nowhere"), 1235),
            ("/TrackLinks", json!("Yes"), 403),
            ("/Attachments/0/Content", json!("no base64!"), 300),
            ("/Attachments/0/Content", json!("A".repeat(11 << 20)), 300),
            ("/Attachments/0/Name", json!("a.exe"), 411),
            ("/Attachments/0/ContentType", json!(""), 300),
        ] {
            let mut body = valid();
            *body.pointer_mut(pointer).expect(pointer) = value;
            assert_eq!(draft(&body).err().map(|error| error.code()), Some(code), "{pointer}");
        }
        let mut bare = valid();
        (bare["TextBody"], bare["HtmlBody"]) = (Value::Null, json!(""));
        assert_eq!(draft(&bare).err().map(|error| error.code()), Some(300), "an attachment alone is no mail");
        assert_eq!(SendEmail::parse(b"{").err().map(|error| error.code()), Some(402));
    }
}
