//! Text from outside on its way into our rows and onto our queues.

use crate::ports::queue_quotas::is_xml_text;
use std::{borrow::Cow, fmt::Write};

/// Makes a text that came from a provider or another foreign place storable: U+0000 (which Postgres can't hold) becomes U+FFFD, other
/// control characters a space, and at most `max` characters are kept. Used for every `detail`, so that an answer full of NULs
/// spoils nothing but its own wording.
pub fn storable(text: &str, max: usize) -> String {
    text.chars()
        .take(max)
        .map(|c| match c {
            '\0' => '\u{fffd}',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect()
}

/// Makes a foreign text sendable: each character that no queue takes (outside XML 1.0) becomes `\uXXXX`. Within a JSON string that means
/// the same character; anywhere else it shows what was there.
pub fn sendable(text: &str) -> Cow<'_, str> {
    if is_xml_text(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if is_xml_text(c.encode_utf8(&mut [0; 4])) {
            out.push(c);
        } else {
            // All of them are below U+10000. Writing to a String can't fail.
            let _infallible = write!(out, "\\u{:04x}", u32::from(c));
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    #[test]
    fn sqs_03_forbidden_characters_are_escaped_json_keeps_its_meaning_and_other_text_stays_readable() {
        let body = "{\"name\":\"Ana\u{ffff}\u{fffe}\",\"ok\":\"\u{1f4e6}\"}";
        let sent = super::sendable(body);
        assert_eq!(sent, "{\"name\":\"Ana\\uffff\\ufffe\",\"ok\":\"\u{1f4e6}\"}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&sent), read(body));
        assert_eq!(super::sendable("a\0b\u{1f}\t\r\n"), "a\\u0000b\\u001f\t\r\n");
        assert!(crate::ports::queue_quotas::is_xml_text(&super::sendable("\u{b}\u{ffff}")));
        assert!(matches!(super::sendable("plain"), std::borrow::Cow::Borrowed("plain")));
    }

    #[test]
    fn pg_04_nul_becomes_the_replacement_character_and_length_is_bounded() {
        assert_eq!(super::storable("a\0b\r\nc", 100), "a\u{fffd}b  c");
        assert_eq!(super::storable("ééé", 2), "éé");
    }
}
