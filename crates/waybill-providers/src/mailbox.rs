//! One mailbox, as a header needs it (RFC 5322 section 3.4) and as JSON fields need it.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use waybill_core::{address::EmailAddress, mail::OutgoingMail, outcome::Outcome};

/// An encoded word has at most 75 characters, and a line with one at most 76 (RFC 2047 section 2). `=?utf-8?B?` and `?=` take 12 of them,
/// the name of a header up to 9, base64 comes in fours, and 52 characters of it hold 39 octets.
const ENCODED_WORD_OCTETS: usize = 39;

/// The two addresses of a mail in the form that every provider takes: ASCII, the domain as A-labels.
pub(crate) struct Addresses {
    pub(crate) from: String,
    pub(crate) to: String,
}

impl Addresses {
    /// # Errors
    /// The outcome of a mail that no provider can carry; nothing is called for it. The detail names the rule, not the address.
    pub(crate) fn of(mail: &OutgoingMail) -> Result<Self, Outcome> {
        let from = sendable(&mail.from)
            .map_err(|rule| Outcome::RejectedMessage { detail: format!("the sender's address: {rule}") })?;
        let to = sendable(&mail.to)
            .map_err(|rule| Outcome::RejectedRecipient { detail: format!("the recipient's address: {rule}") })?;
        Ok(Self { from, to })
    }
}

fn sendable(address: &str) -> Result<String, String> {
    EmailAddress::parse(address).map_err(|e| e.to_string())?.sendable().map_err(|e| e.to_string())
}

/// A text for one header line or one JSON name: control characters become spaces, the ends are trimmed.
pub(crate) fn one_line(text: &str) -> String {
    let spaced: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    spaced.trim().to_owned()
}

/// `name <address>` for a header: exactly one mailbox whatever the name holds. Printable ASCII becomes a quoted string, everything
/// else encoded words (never inside quotes, RFC 2047 section 5); no name, no brackets.
pub(crate) fn mailbox(name: &str, address: &str) -> String {
    let name = one_line(name);
    if name.is_empty() {
        address.to_owned()
    } else if name.is_ascii() && !name.contains("=?") {
        format!("\"{}\" <{address}>", name.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        format!("{} <{address}>", encoded_words(&name))
    }
}

/// The same for a JSON field that holds a whole mailbox, where the provider encodes: the name as it is, in quotes.
pub(crate) fn plain_mailbox(name: &str, address: &str) -> String {
    let name = one_line(name);
    if name.is_empty() {
        return address.to_owned();
    }
    format!("\"{}\" <{address}>", name.replace('\\', "\\\\").replace('"', "\\\""))
}

/// RFC 2047 words, cut between characters and joined by a space, which a reader drops.
pub(crate) fn encoded_words(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (word, tail) = rest.split_at(floor_char_boundary(rest, ENCODED_WORD_OCTETS));
        words.push(format!("=?utf-8?B?{}?=", BASE64.encode(word)));
        rest = tail;
    }
    words.join(" ")
}

fn floor_char_boundary(text: &str, at_most: usize) -> usize {
    let mut end = text.len().min(at_most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail_parser::MessageParser;

    /// Reads a mailbox back with a MIME parser that is not ours: all (name, address) pairs that it finds.
    fn read(mailbox: &str) -> Vec<(Option<String>, Option<String>)> {
        let raw = format!("To: {mailbox}\r\n\r\n");
        let message = MessageParser::default().parse(raw.as_bytes()).unwrap();
        let list = message.to().unwrap();
        list.iter().map(|a| (a.name().map(str::to_owned), a.address().map(str::to_owned))).collect()
    }

    #[test]
    fn ses_03_every_display_name_stays_one_mailbox_and_reads_back() {
        let long = "漢".repeat(200);
        for name in [
            "Silva, Ana \"Nina\" (Vendas)",
            "Nguyễn Thị Một Cái Tên Rất Rất Dài, Phòng Kế Toán (Chi nhánh)",
            "Bo (;-",
            "back\\slash",
            "a <b@example.com>, c",
            "=?utf-8?q?not_encoded?=",
            "🎉 Party; Team, 漢字",
            &long,
        ] {
            let mailbox = mailbox(name, "ana@example.test");
            assert!(mailbox.is_ascii(), "{mailbox}");
            let expected = (Some(name.to_owned()), Some("ana@example.test".to_owned()));
            assert_eq!(read(&mailbox), [expected], "{mailbox}");
        }
    }

    #[test]
    fn ses_03_in_json_a_name_is_quoted_and_not_encoded() {
        for (name, expected) in [
            ("", "ana@example.test"),
            ("Silva, Ana \"Nina\" (Vendas)", r#""Silva, Ana \"Nina\" (Vendas)" <ana@example.test>"#),
            ("漢 a\\b", r#""漢 a\\b" <ana@example.test>"#),
            ("A\r\nBcc: b@example.test", "\"A  Bcc: b@example.test\" <ana@example.test>"),
        ] {
            assert_eq!(plain_mailbox(name, "ana@example.test"), expected);
        }
    }

    #[test]
    fn ses_03_encoded_words_are_short_and_whole() {
        for name in ["漢".repeat(200), format!("a{}", "é".repeat(300)), format!("ab{}", "🎉".repeat(100))] {
            let words = encoded_words(&name);
            for word in words.split(' ') {
                assert!(word.len() <= 75, "{}", word.len());
                let base64 = word.strip_prefix("=?utf-8?B?").and_then(|w| w.strip_suffix("?=")).unwrap();
                String::from_utf8(BASE64.decode(base64).unwrap()).expect("cut inside a character");
            }
        }
    }

    #[test]
    fn ses_03_no_name_needs_no_brackets_and_controls_can_t_add_a_header() {
        assert_eq!(mailbox("", "a@example.test"), "a@example.test");
        assert_eq!(mailbox(" \t\r\n", "a@example.test"), "a@example.test");
        assert_eq!(mailbox("A\r\nBcc: b@example.test", "a@x.test"), "\"A  Bcc: b@example.test\" <a@x.test>");
        assert!(!mailbox("Å\r\nBcc: b", "a@x.test").contains(['\r', '\n']));
    }

    #[test]
    fn ses_02_addresses_are_made_ascii_or_refused_before_any_call() {
        assert_eq!(sendable("ana@bücher.example").unwrap(), "ana@xn--bcher-kva.example");
        assert_eq!(sendable("Ana.B+x@example.test").unwrap(), "Ana.B+x@example.test");
        for bad in ["søren@example.test", "用户@例子.测试", "=?utf-8?q?=C3=A5sa?=@example.test", "a@b", "a@b.c\r\nx"]
        {
            assert!(sendable(bad).is_err(), "{bad}");
        }
    }
}
