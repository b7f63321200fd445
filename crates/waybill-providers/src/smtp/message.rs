//! The message in MIME (RFC 5322, 2045 to 2047, 2183): every byte follows from the delivery, none from the moment or from chance.
//!
//! All parts are base64, so no line is longer than 76 characters, no text needs 8BITMIME, and no boundary can occur in a part.

use crate::mailbox::{Addresses, encoded_words, mailbox, one_line};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use chrono::DateTime;
use waybill_core::mail::{Attachment, OutgoingMail};

/// Octets that make a base64 line of 76 characters (RFC 2045 section 6.8).
const LINE_OCTETS: usize = 57;
/// An ASCII name or subject that is longer is written in encoded words too, because those can be folded.
const MAX_PLAIN: usize = 60;

pub(super) fn message(mail: &OutgoingMail, addresses: &Addresses) -> Vec<u8> {
    let mut out = String::new();
    headers(&mut out, mail, addresses);
    let (outer, inner) = (boundary(mail, "mixed"), boundary(mail, "alternative"));
    if mail.attachments.is_empty() {
        texts(&mut out, mail, &inner);
    } else {
        line(&mut out, "Content-Type: multipart/mixed;");
        line(&mut out, &format!(" boundary=\"{outer}\""));
        line(&mut out, "");
        line(&mut out, &format!("--{outer}"));
        texts(&mut out, mail, &inner);
        for one in &mail.attachments {
            line(&mut out, &format!("--{outer}"));
            attachment(&mut out, one);
        }
        line(&mut out, &format!("--{outer}--"));
    }
    out.into_bytes()
}

fn headers(out: &mut String, mail: &OutgoingMail, addresses: &Addresses) {
    if let Some(date) = date(mail) {
        line(out, &format!("Date: {date}"));
    }
    line(out, &format!("From: {}", folded_mailbox(&mail.from_name, &addresses.from)));
    line(out, &format!("To: {}", folded_mailbox(&mail.to_name, &addresses.to)));
    line(out, &format!("Subject: {}", folded(&one_line(&mail.subject))));
    line(out, &format!("Message-ID: <{}@{}>", mail.delivery, domain(&addresses.from)));
    // RFC 3834: so that vacation responders stay quiet.
    line(out, "Auto-Submitted: auto-generated");
    // Unique, so that mail clients don't fold different documents into one conversation.
    line(out, &format!("X-Entity-Ref-ID: {}", mail.delivery));
    // What other providers have tags for: a bounce that a person looks into names its delivery.
    line(out, &format!("X-Waybill-IDs: tenant_id={},", mail.tenant));
    line(out, &format!(" job_id={},", mail.job));
    line(out, &format!(" delivery_id={},", mail.delivery));
    line(out, &format!(" attempt_id={}", mail.attempt));
    line(out, "MIME-Version: 1.0");
}

/// When the delivery was made, which its id says (RFC 9562, version 7). An id of another kind gives none, and the server writes its own
/// (RFC 6409 section 8.2).
fn date(mail: &OutgoingMail) -> Option<String> {
    let (seconds, _) = mail.delivery.uuid().get_timestamp()?.to_unix();
    Some(DateTime::from_timestamp(i64::try_from(seconds).ok()?, 0)?.to_rfc2822())
}

fn domain(address: &str) -> &str {
    address.rsplit_once('@').map_or(address, |(_, domain)| domain)
}

/// No line of base64 has a `=` that is followed by anything but its end.
fn boundary(mail: &OutgoingMail, name: &str) -> String {
    format!("=_{name}_{}", mail.delivery)
}

fn texts(out: &mut String, mail: &OutgoingMail, boundary: &str) {
    let parts = [("plain", &mail.text), ("html", &mail.html)];
    let parts: Vec<_> = parts.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    match parts[..] {
        [(kind, text)] => text_part(out, kind, text),
        [] => text_part(out, "plain", " "),
        [..] => {
            line(out, "Content-Type: multipart/alternative;");
            line(out, &format!(" boundary=\"{boundary}\""));
            line(out, "");
            for (kind, text) in parts {
                line(out, &format!("--{boundary}"));
                text_part(out, kind, text);
            }
            line(out, &format!("--{boundary}--"));
        }
    }
}

fn text_part(out: &mut String, kind: &str, text: &str) {
    line(out, &format!("Content-Type: text/{kind}; charset=utf-8"));
    // Lines of a text end in CRLF inside the encoding, too (RFC 2046 section 4.1.1).
    body(out, text.replace("\r\n", "\n").replace('\n', "\r\n").as_bytes());
}

fn attachment(out: &mut String, attachment: &Attachment) {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
    let name: String = attachment.filename.chars().map(plain).collect();
    line(out, &format!("Content-Type: {}", one_line(attachment.content_type)));
    line(out, "Content-Disposition: attachment;");
    line(out, &format!(" filename=\"{name}\""));
    body(out, &attachment.bytes);
}

fn body(out: &mut String, bytes: &[u8]) {
    line(out, "Content-Transfer-Encoding: base64");
    line(out, "");
    out.reserve(bytes.len() * 3 / 2);
    for chunk in bytes.chunks(LINE_OCTETS) {
        BASE64.encode_string(chunk, out);
        out.push_str("\r\n");
    }
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push_str("\r\n");
}

fn folded_mailbox(name: &str, address: &str) -> String {
    let name = one_line(name);
    if name.is_empty() || is_plain(&name) {
        mailbox(&name, address)
    } else {
        format!("{}\r\n <{address}>", folded(&name))
    }
}

/// One text of a header: as it is, or in encoded words, one on each line.
fn folded(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { encoded_words(text).replace(' ', "\r\n ") }
}

fn is_plain(text: &str) -> bool {
    text.is_ascii() && text.len() <= MAX_PLAIN && !text.contains("=?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_mail::{mail, mail_with_attachment};
    use mail_parser::{MessageParser, MimeHeaders as _};
    use uuid::Uuid;
    use waybill_core::ids::{AttemptId, DeliveryId};

    fn written(mail: &OutgoingMail) -> String {
        String::from_utf8(message(mail, &Addresses::of(mail).unwrap())).unwrap()
    }

    fn delivery() -> DeliveryId {
        DeliveryId("019c0e2f-6a00-7000-8000-000000000001".parse().unwrap())
    }

    #[test]
    fn a_whole_mail_reads_back() {
        let long = "漢".repeat(200);
        for (name, subject) in [
            ("Silva, Ana \"Nina\" (Vendas)", "Invoice 17"),
            (long.as_str(), long.as_str()),
            ("", "=?utf-8?q?not_encoded?= März"),
            (&"a".repeat(300), &"b c ".repeat(200)),
        ] {
            let mail = OutgoingMail {
                to_name: name.into(),
                from_name: name.into(),
                subject: subject.into(),
                text: "a\n.\nb\r\n.c\n漢".into(),
                ..mail_with_attachment(1000)
            };
            let text = written(&mail);
            assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 78), "{text}");
            let parsed = MessageParser::default().parse(text.as_bytes()).unwrap();
            let to = parsed.to().unwrap().first().unwrap();
            assert_eq!((to.name().unwrap_or_default(), to.address()), (name, Some("ada@example.com")));
            assert_eq!(parsed.subject(), Some(subject.trim()));
            assert_eq!(parsed.body_text(0).unwrap(), "a\r\n.\r\nb\r\n.c\r\n漢");
            assert_eq!(parsed.body_html(0).unwrap(), mail.html);
            let attachment = parsed.attachment(0).unwrap();
            assert_eq!(
                (attachment.attachment_name(), attachment.contents()),
                (Some("invoice-17.pdf"), &[0x25; 1000][..])
            );
        }
    }

    #[test]
    fn every_byte_follows_from_the_delivery() {
        let mail = OutgoingMail { delivery: delivery(), ..mail_with_attachment(100) };
        let text = written(&mail);
        assert_eq!(text, written(&mail.clone()));
        let again = written(&OutgoingMail { attempt: AttemptId(Uuid::from_u128(9)), ..mail.clone() });
        let differs: Vec<_> = text.lines().zip(again.lines()).filter(|(a, b)| a != b).map(|(a, _)| a).collect();
        assert_eq!(differs, [" attempt_id=att_00000000000000000000000004"]);
        let header = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        assert_eq!(header("Message-ID: "), format!("<{}@acme.example>", mail.delivery));
        assert_eq!(header("Date: "), "Fri, 30 Jan 2026 09:15:14 +0000");
        assert!(!written(&crate::test_mail::mail()).contains("Date:"), "no time is made up");
    }

    #[test]
    fn a_line_break_in_a_name_or_subject_adds_no_header() {
        let evil = "x\r\nBcc: eve@example.com".to_owned();
        let text = written(&OutgoingMail { to_name: evil.clone(), from_name: evil.clone(), subject: evil, ..mail() });
        assert!(!text.contains("\r\nBcc"), "{text}");
    }

    #[test]
    fn a_mail_with_one_text_or_none_is_one_part() {
        for (text, html, kind) in [("x", "", "text/plain"), ("", "<p>x</p>", "text/html"), ("", "", "text/plain")] {
            let written = written(&OutgoingMail { text: text.into(), html: html.into(), ..mail() });
            assert!(written.contains(&format!("MIME-Version: 1.0\r\nContent-Type: {kind};")), "{written}");
        }
    }
}
