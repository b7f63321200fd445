//! A raw MIME message: read back with a parser that is not the one that wrote it.

use std::collections::BTreeMap;

use mail_parser::{Address, MessageParser, MimeHeaders as _, PartType};

use crate::mail::{Attachment, Draft, Header};

/// RFC 5322 section 2.1.1: 998 characters and CRLF.
const MAX_LINE_BYTES: usize = 998;

/// The mail, and the tags of its header `tags_header`, or what is wrong with it.
pub(crate) fn into_draft(bytes: &[u8], tags_header: &str) -> Result<(Draft, BTreeMap<String, String>), &'static str> {
    if bytes.split(|byte| *byte == b'\n').any(|line| line.len() > MAX_LINE_BYTES + 1) {
        return Err("a line is longer than 1000 characters");
    }
    let message = MessageParser::default()
        .parse(bytes)
        .filter(|message| !message.headers().is_empty())
        .ok_or("not a MIME message")?;
    let headers: Vec<Header> = message
        .headers_raw()
        .map(|(name, value)| Header { name: name.to_owned(), value: value.trim().to_owned() })
        .collect();
    let tags = headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case(tags_header))
        .map(|header| header_tags(&header.value))
        .unwrap_or_default();
    let recipients = [message.to(), message.cc(), message.bcc()].into_iter().flatten().flat_map(addresses).collect();
    let attachments = message.attachments().map(attachment).collect();
    let draft = Draft {
        recipients,
        from: message.from().map(addresses).unwrap_or_default().into_iter().next().unwrap_or_default(),
        subject: message.subject().unwrap_or_default().to_owned(),
        text: own_text(&message),
        html: own_html(&message),
        headers,
        attachments,
        ..Draft::default()
    };
    Ok((draft, tags))
}

/// The parser offers a text made from the HTML when there is none; the mailbox shows what was sent.
fn own_text(message: &mail_parser::Message<'_>) -> Option<String> {
    message.text_bodies().find_map(|part| match &part.body {
        PartType::Text(text) => Some(text.to_string()),
        PartType::Html(_)
        | PartType::Binary(_)
        | PartType::InlineBinary(_)
        | PartType::Message(_)
        | PartType::Multipart(_) => None,
    })
}

fn own_html(message: &mail_parser::Message<'_>) -> Option<String> {
    message.html_bodies().find_map(|part| match &part.body {
        PartType::Html(html) => Some(html.to_string()),
        PartType::Text(_)
        | PartType::Binary(_)
        | PartType::InlineBinary(_)
        | PartType::Message(_)
        | PartType::Multipart(_) => None,
    })
}

fn addresses(address: &Address<'_>) -> Vec<String> {
    address.iter().filter_map(|mailbox| mailbox.address()).map(str::to_owned).collect()
}

fn attachment(part: &mail_parser::MessagePart<'_>) -> Attachment {
    let content_type = part.content_type().map(|kind| match kind.subtype() {
        Some(subtype) => format!("{}/{subtype}", kind.ctype()),
        None => kind.ctype().to_owned(),
    });
    let name = part.attachment_name().unwrap_or("attachment").to_owned();
    Attachment::new(name, content_type.as_deref().unwrap_or_default(), part.contents().to_vec())
}

/// `name=value, name=value`. <https://docs.aws.amazon.com/ses/latest/dg/event-publishing-send-email.html>
fn header_tags(value: &str) -> BTreeMap<String, String> {
    value
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = "From: Acme <no-reply@acme.example>\r\nTo: ada@example.com\r\n\
        Subject: =?utf-8?Q?Invoice_=E2=82=AC?=\r\nX-SES-MESSAGE-TAGS: delivery_id=dlv_1, job_id=job_1\r\n\
        MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n\
        <p>Hi</p>\r\n--b\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment;\r\n \
        filename*=UTF-8''Rechnung%20%C3%BC.pdf\r\nContent-Transfer-Encoding: base64\r\n\r\nJVBERi0x\r\n--b--\r\n";

    #[test]
    fn a_message_is_read_back_with_tags_and_attachment() {
        let (draft, tags) = into_draft(MESSAGE.as_bytes(), "X-SES-MESSAGE-TAGS").unwrap();
        assert_eq!(draft.subject, "Invoice €");
        assert_eq!(draft.recipients, ["ada@example.com"]);
        assert_eq!(draft.from, "no-reply@acme.example");
        assert_eq!(draft.html.as_deref(), Some("<p>Hi</p>"));
        assert_eq!(draft.text, None);
        assert_eq!(draft.attachments[0].filename, "Rechnung ü.pdf");
        assert_eq!(draft.attachments[0].content_type, "application/pdf");
        assert_eq!(&draft.attachments[0].content[..], b"%PDF-1");
        assert_eq!(tags.get("delivery_id").map(String::as_str), Some("dlv_1"));
        assert_eq!(tags.get("job_id").map(String::as_str), Some("job_1"));
    }

    #[test]
    fn ses_05_an_unwrapped_line_is_refused() {
        let long = format!("{MESSAGE}{}\r\n", "A".repeat(999));
        assert!(into_draft(long.as_bytes(), "X-SES-MESSAGE-TAGS").is_err());
        let longest = format!("{MESSAGE}{}\r\n", "A".repeat(998));
        assert!(into_draft(longest.as_bytes(), "X-SES-MESSAGE-TAGS").is_ok());
    }
}
