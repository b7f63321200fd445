//! The checks of `SendEmail`, in the order in which a person would fix them. Limits:
//! <https://docs.aws.amazon.com/ses/latest/dg/quotas.html> and the SESv2 service model.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

use super::{
    address::parse_mailbox,
    answers::SesError,
    request::{Content, Destination, SendEmail, Simple, Tag, WireAttachment},
};
use crate::{
    mail::{Attachment, Draft, Header},
    mime,
};

const MAX_RECIPIENTS: usize = 50;
const MAX_HEADERS: usize = 15;
const MAX_TAG_CHARS: usize = 256;
/// 40 MB, after MIME encoding.
const MAX_MESSAGE_BYTES: usize = 40 * 1024 * 1024;
/// Extensions that a mail client would run; SES refuses a longer list of the same kind.
/// <https://docs.aws.amazon.com/ses/latest/dg/mime-types.html>
const REFUSED_EXTENSIONS: [&str; 20] = [
    "bat", "chm", "cmd", "com", "cpl", "exe", "hta", "inf", "js", "jse", "lnk", "msi", "pif", "ps1", "reg", "scr",
    "sys", "vb", "vbs", "wsf",
];

pub(super) fn into_draft(request: SendEmail<'_>) -> Result<Draft, SesError> {
    let content = request.content.ok_or_else(|| SesError::bad_request("Content is required"))?;
    let mut tags = tags(&request.email_tags)?;
    let mut draft = match content {
        Content { simple: Some(simple), raw: None, template: None } => {
            let mut draft = from_simple(simple)?;
            let from = request.from_email_address.as_deref();
            draft.from = from.ok_or_else(|| SesError::bad_request("FromEmailAddress is required"))?.to_owned();
            draft
        }
        Content { simple: None, raw: Some(message), template: None } => {
            let bytes = decode("Raw.Data", &message.data)?;
            check_size(bytes.len())?;
            let (mut draft, raw_tags) = mime::into_draft(&bytes, "X-SES-MESSAGE-TAGS")
                .map_err(|why| SesError::bad_request(format!("Raw.Data: {why}")))?;
            if let Some(from) = request.from_email_address {
                draft.from = from;
            }
            if tags.is_empty() {
                tags = raw_tags;
            }
            draft
        }
        Content { simple: None, raw: None, template: Some(template) } => {
            return Err(SesError::unknown_template(template.template_name.as_deref().unwrap_or("(inline)")));
        }
        Content { .. } => return Err(SesError::bad_request("Content needs exactly one of Simple, Raw and Template")),
    };
    mailbox("FromEmailAddress", &draft.from)?;
    for address in &request.reply_to_addresses {
        mailbox("ReplyToAddresses", address)?;
    }
    // A raw message may name its recipients in its own headers; the destination wins.
    if request.destination.all().next().is_some() {
        draft.recipients = recipients(&request.destination)?;
    }
    check_recipient_count(draft.recipients.len())?;
    draft.tags = tags;
    draft.labels = request.configuration_set_name.into_iter().collect();
    Ok(draft)
}

fn mailbox(field: &str, text: &str) -> Result<String, SesError> {
    parse_mailbox(text).map(str::to_owned).map_err(|reason| SesError::bad_request(format!("{field}: {reason}")))
}

fn recipients(destination: &Destination) -> Result<Vec<String>, SesError> {
    destination.all().map(|address| mailbox("Destination", address)).collect()
}

fn check_recipient_count(count: usize) -> Result<(), SesError> {
    match count {
        0 => Err(SesError::bad_request("Destination needs at least one address")),
        1..=MAX_RECIPIENTS => Ok(()),
        _ => Err(SesError::bad_request(format!("Recipient count exceeds {MAX_RECIPIENTS}."))),
    }
}

fn check_size(bytes: usize) -> Result<(), SesError> {
    if bytes <= MAX_MESSAGE_BYTES {
        return Ok(());
    }
    Err(SesError::bad_request(format!("Message length is more than {MAX_MESSAGE_BYTES} bytes long: '{bytes}'.")))
}

fn tags(tags: &[Tag]) -> Result<BTreeMap<String, String>, SesError> {
    let allowed = |text: &str| {
        (1..=MAX_TAG_CHARS).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    let mut map = BTreeMap::new();
    for tag in tags {
        if !allowed(&tag.name) || !allowed(&tag.value) {
            return Err(SesError::bad_request("EmailTags: 1 to 256 characters out of A-Z, a-z, 0-9, _ and -"));
        }
        if map.insert(tag.name.clone(), tag.value.clone()).is_some() {
            return Err(SesError::bad_request("EmailTags: a tag name may appear once only"));
        }
    }
    Ok(map)
}

fn from_simple(simple: Simple<'_>) -> Result<Draft, SesError> {
    let subject = simple.subject.ok_or_else(|| SesError::bad_request("Simple.Subject is required"))?.data;
    let body = simple.body.ok_or_else(|| SesError::bad_request("Simple.Body is required"))?;
    let (text, html) = (body.text.map(|part| part.data), body.html.map(|part| part.data));
    if text.is_none() && html.is_none() {
        return Err(SesError::bad_request("Simple.Body needs Text or Html"));
    }
    if subject.contains(['\r', '\n']) {
        return Err(SesError::bad_request("Simple.Subject must be one line"));
    }
    let headers = headers(simple.headers)?;
    let attachments = simple.attachments.iter().map(attachment).collect::<Result<Vec<_>, _>>()?;
    let texts: usize = [&text, &html].into_iter().flatten().map(String::len).sum();
    let encoded: usize = attachments.iter().map(|attachment| base64_mime_len(attachment.content.len())).sum();
    check_size(texts + subject.len() + encoded)?;
    Ok(Draft { subject, text, html, headers, attachments, ..Draft::default() })
}

/// base64 in lines of 76 characters and CRLF (RFC 2045 section 6.8).
fn base64_mime_len(bytes: usize) -> usize {
    let characters = bytes.div_ceil(3) * 4;
    characters + characters.div_ceil(76) * 2
}

fn headers(headers: Vec<Tag>) -> Result<Vec<Header>, SesError> {
    if headers.len() > MAX_HEADERS {
        return Err(SesError::bad_request(format!("Headers: at most {MAX_HEADERS}")));
    }
    headers.into_iter().map(header).collect()
}

fn header(Tag { name, value }: Tag) -> Result<Header, SesError> {
    let name_fits = (1..=126).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
    if !name_fits {
        return Err(SesError::bad_request("Headers: a name has 1 to 126 printable ASCII characters and no colon"));
    }
    let value_fits = (1..=995).contains(&value.len()) && value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if !value_fits || name.len() + value.len() > 996 {
        return Err(SesError::bad_request(
            "Headers: a value has 1 to 995 printable ASCII characters, 996 together with its name",
        ));
    }
    Ok(Header { name, value })
}

fn attachment(attachment: &WireAttachment<'_>) -> Result<Attachment, SesError> {
    let fits = |text: &Option<String>, max: usize| text.as_ref().is_none_or(|text| (1..=max).contains(&text.len()));
    let one_of =
        |text: &Option<String>, allowed: &[&str]| text.as_ref().is_none_or(|text| allowed.contains(&text.as_str()));
    let name = &attachment.file_name;
    if name.is_empty() || name.chars().count() > 255 || name.contains(char::is_control) {
        return Err(SesError::bad_request("Attachments: FileName has 1 to 255 characters and no control characters"));
    }
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    if extension.is_some_and(|extension| REFUSED_EXTENSIONS.contains(&extension.as_str())) {
        return Err(SesError::bad_request("Attachments: this kind of file is not supported"));
    }
    if !fits(&attachment.content_type, 78) || !fits(&attachment.content_id, 78) {
        return Err(SesError::bad_request("Attachments: ContentType and ContentId have 1 to 78 characters"));
    }
    if !fits(&attachment.content_description, 1000) {
        return Err(SesError::bad_request("Attachments: ContentDescription has 1 to 1000 characters"));
    }
    if !one_of(&attachment.content_disposition, &["ATTACHMENT", "INLINE"])
        || !one_of(&attachment.content_transfer_encoding, &["BASE64", "QUOTED_PRINTABLE", "SEVEN_BIT"])
    {
        return Err(SesError::bad_request("Attachments: unknown ContentDisposition or ContentTransferEncoding"));
    }
    let content = decode("Attachments.RawContent", &attachment.raw_content)?;
    Ok(Attachment::new(name.clone(), attachment.content_type.as_deref().unwrap_or_default(), content))
}

fn decode(field: &str, text: &str) -> Result<Vec<u8>, SesError> {
    if text.is_empty() {
        return Err(SesError::bad_request(format!("{field} is required")));
    }
    BASE64.decode(text).map_err(|_| SesError::bad_request(format!("{field} is not base64")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ses_05_the_size_limit_is_after_encoding_with_line_breaks() {
        let raw: usize = 29 * 1024 * 1024 + 512 * 1024;
        assert!(raw.div_ceil(3) * 4 < MAX_MESSAGE_BYTES);
        assert!(check_size(base64_mime_len(raw)).is_err());
        assert!(check_size(base64_mime_len(28 * 1024 * 1024)).is_ok());
    }

    #[test]
    fn a_header_keeps_to_the_limits_of_the_service_model() {
        let ok = |name: &str, value: &str| header(Tag { name: name.to_owned(), value: value.to_owned() }).is_ok();
        assert!(ok("X-Entity-Ref-ID", "0198f6"));
        assert!(ok("X", &"v".repeat(995)));
        assert!(!ok("XY", &"v".repeat(995)));
        assert!(!ok("X-A:", "v"));
        assert!(!ok("X-A\r\nBcc", "v"));
        assert!(!ok("X-A", "v\r\nBcc: eve@example.com"));
        assert!(!ok("X-A", "ü"));
        assert!(!ok("X-A", ""));
    }

    #[test]
    fn a_tag_with_an_at_sign_or_a_repeated_name_is_refused() {
        let tag = |name: &str, value: &str| Tag { name: name.to_owned(), value: value.to_owned() };
        assert!(tags(&[tag("delivery_id", "dlv_01")]).is_ok());
        assert!(tags(&[tag("to", "ada@example.com")]).is_err());
        assert!(tags(&[tag("a", "1"), tag("a", "2")]).is_err());
        assert!(tags(&[tag("a", "")]).is_err());
    }

    #[test]
    fn more_than_fifty_recipients_are_refused() {
        assert!(check_recipient_count(50).is_ok());
        let error = check_recipient_count(51).unwrap_err();
        assert!(error.message().contains("50"), "{error:?}");
        assert!(check_recipient_count(0).is_err());
    }
}
