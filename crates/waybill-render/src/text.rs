//! Text from the data: bounded, cleaned, and never anything but text.

use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::value::RawValue;

/// Non-empty text of at most `MAX` characters, trimmed, without control characters. With `LINES` it may have line ends
/// (`\n`); without, they become spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text<const MAX: usize, const LINES: bool = false>(String);

/// Text that may have several lines.
pub(crate) type Paragraph<const MAX: usize> = Text<MAX, true>;

/// A number or code such as an order number: one line of text, or a JSON number taken as it is spelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Code<const MAX: usize>(String);

impl<const MAX: usize, const LINES: bool> Deref for Text<MAX, LINES> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> Deref for Code<MAX> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de, const MAX: usize, const LINES: bool> Deserialize<'de> for Text<MAX, LINES> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = String::deserialize(deserializer)?;
        bounded(clean::<LINES>(&given), MAX).map(Self)
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for Code<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let given = scalar_text(&raw).ok_or_else(|| D::Error::custom("expected text or a number"))?;
        bounded(clean::<false>(&given), MAX).map(Self)
    }
}

fn bounded<E: Error>(text: String, max: usize) -> Result<String, E> {
    match text.chars().count() {
        0 => Err(E::custom("is empty")),
        length if length > max => Err(E::custom(format!("is longer than {max} characters"))),
        _ => Ok(text),
    }
}

/// The text of a JSON string, or of a JSON number exactly as it was spelled.
pub(crate) fn scalar_text(raw: &RawValue) -> Option<String> {
    let spelled = raw.get();
    match spelled.as_bytes().first()? {
        b'"' => serde_json::from_str(spelled).ok(),
        b'-' | b'0'..=b'9' => Some(spelled.to_owned()),
        _ => None,
    }
}

/// Optional text in which the empty text means the same as none.
pub(crate) fn optional<'de, const MAX: usize, const LINES: bool, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Text<MAX, LINES>>, D::Error> {
    let given = Option::<String>::deserialize(deserializer)?.map(|text| clean::<LINES>(&text));
    given.filter(|text| !text.is_empty()).map(|text| bounded(text, MAX).map(Text)).transpose()
}

/// Unifies line ends, keeps at most one empty line in a row, turns tabs into spaces, and drops other control characters
/// and the ones that override the writing direction: with them, text could make an amount beside it read backwards.
fn clean<const LINES: bool>(given: &str) -> String {
    let mut kept = String::with_capacity(given.len());
    for c in given.replace("\r\n", "\n").chars() {
        match c {
            '\n' | '\r' | '\u{2028}' | '\u{2029}' if LINES => {
                if !kept.ends_with("\n\n") {
                    kept.push('\n');
                }
            }
            c if c.is_whitespace() && c.is_control() => kept.push(' '),
            '\u{2028}' | '\u{2029}' => kept.push(' '),
            c if c.is_control() || overrides_direction(c) => {}
            c => kept.push(c),
        }
    }
    kept.trim().to_owned()
}

fn overrides_direction(c: char) -> bool {
    matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Marks break opportunities (U+200B) in runs without a space that are longer than `longest`, so that a long article
/// number wraps inside its column instead of running into the next one. Ordinary text stays as it is. The template's
/// `placed` turns the marks into empty space, so that they are not in the text that a reader copies.
pub(crate) fn breakable(text: &str, longest: usize) -> String {
    let mut broken = String::with_capacity(text.len());
    for run in text.split_inclusive(char::is_whitespace) {
        if run.trim_end().chars().count() <= longest {
            broken.push_str(run);
            continue;
        }
        let mut since_break = 0;
        for c in run.chars() {
            // Never in front of a combining mark, which belongs to the letter before it.
            if since_break >= 2 && (c.is_alphanumeric() || c.is_ascii_punctuation()) {
                broken.push('\u{200B}');
                since_break = 0;
            }
            broken.push(c);
            since_break += 1;
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_trimmed_and_loses_control_characters() {
        let given = r#"" a\r\nb\u0007\tc\u202e\n\n\n\nd ""#;
        assert_eq!(&*serde_json::from_str::<Paragraph<20>>(given).unwrap(), "a\nb c\n\nd");
        assert_eq!(&*serde_json::from_str::<Text<20>>(given).unwrap(), "a b c    d");
    }

    #[test]
    fn empty_and_long_text_is_refused() {
        assert!(serde_json::from_str::<Text<3>>(r#""  ""#).unwrap_err().to_string().contains("is empty"));
        assert!(serde_json::from_str::<Text<3>>(r#""äöüß""#).unwrap_err().to_string().contains("longer than 3"));
        assert_eq!(&*serde_json::from_str::<Text<3>>(r#""äöü""#).unwrap(), "äöü");
    }

    #[test]
    fn a_code_may_be_a_json_number_of_any_length() {
        assert_eq!(&*serde_json::from_str::<Code<60>>("12345678901234567890123").unwrap(), "12345678901234567890123");
        assert_eq!(&*serde_json::from_str::<Code<60>>(r#""PO\n1""#).unwrap(), "PO 1");
        assert!(serde_json::from_str::<Code<60>>("true").is_err());
        assert!(serde_json::from_str::<Code<60>>(r#"{"a":1}"#).is_err());
    }

    #[test]
    fn only_long_runs_get_break_opportunities() {
        assert_eq!(breakable("an ordinary sentence, with words", 9), "an ordinary sentence, with words");
        let long = "x".repeat(41);
        let broken = breakable(&long, 40);
        assert_eq!(broken.replace('\u{200B}', ""), long);
        assert!(broken.split('\u{200B}').all(|part| part.len() <= 2));
        assert_eq!(breakable("e\u{301}e\u{301}e\u{301}", 2), "e\u{301}\u{200B}e\u{301}\u{200B}e\u{301}");
    }
}
