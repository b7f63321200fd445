//! Text from the data: bounded, cleaned, and never anything but text.

use std::fmt;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde_json::value::RawValue;

/// Non-empty text of at most `MAX` characters, trimmed, with `\n` as its only control character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text<const MAX: usize>(String);

/// A number or code such as an order number: one line of text, or a JSON number taken as it is spelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Code(String);

impl<const MAX: usize> Deref for Text<MAX> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Deref for Code {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for Text<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor::<MAX>)
    }
}

struct TextVisitor<const MAX: usize>;

impl<const MAX: usize> Visitor<'_> for TextVisitor<MAX> {
    type Value = Text<MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "text of 1 to {MAX} characters")
    }

    fn visit_str<E: Error>(self, given: &str) -> Result<Self::Value, E> {
        let cleaned = clean(given);
        match cleaned.chars().count() {
            0 => Err(E::custom("is empty")),
            length if length > MAX => Err(E::custom(format!("is longer than {MAX} characters"))),
            _ => Ok(Text(cleaned)),
        }
    }
}

impl Code {
    const MAX: usize = 60;
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = scalar_text(&raw).ok_or_else(|| D::Error::custom("expected text or a number"))?;
        let cleaned = clean(&text).replace('\n', " ");
        match cleaned.chars().count() {
            0 => Err(D::Error::custom("is empty")),
            length if length > Self::MAX => {
                Err(D::Error::custom(format!("is longer than {} characters", Self::MAX)))
            }
            _ => Ok(Self(cleaned)),
        }
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
pub(crate) fn optional<'de, const MAX: usize, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Text<MAX>>, D::Error> {
    let given = Option::<String>::deserialize(deserializer)?.filter(|text| !clean(text).is_empty());
    given.map(|text| TextVisitor::<MAX>.visit_str(&text)).transpose()
}

/// Unifies line ends, turns tabs into spaces, and drops other control characters and the ones that override the
/// writing direction: with them, text could make an amount beside it read backwards.
fn clean(given: &str) -> String {
    let unified = given.replace("\r\n", "\n").replace(['\r', '\u{2028}', '\u{2029}'], "\n").replace('\t', " ");
    let kept: String = unified.chars().filter(|&c| c == '\n' || !(c.is_control() || overrides_direction(c))).collect();
    kept.trim().to_owned()
}

fn overrides_direction(c: char) -> bool {
    matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// The longest run without a space that is left alone: the narrowest column takes about this much.
const LONGEST_RUN: usize = 14;

/// Adds invisible break opportunities (U+200B) to very long runs without a space, so that a long article number wraps
/// inside its column instead of running into the next one. Ordinary text stays as it is.
pub(crate) fn breakable(text: &str) -> String {
    let mut broken = String::with_capacity(text.len());
    for run in text.split_inclusive(char::is_whitespace) {
        if run.trim_end().chars().count() <= LONGEST_RUN {
            broken.push_str(run);
            continue;
        }
        let mut since_break = 0;
        for c in run.chars() {
            // Never in front of a combining mark, which belongs to the letter before it.
            if since_break >= LONGEST_RUN / 2 && (c.is_alphanumeric() || c.is_ascii_punctuation()) {
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
        let text: Text<20> = serde_json::from_str(r#"" a\r\nb\u0007\tc\u202e ""#).unwrap();
        assert_eq!(&*text, "a\nb c");
    }

    #[test]
    fn empty_and_long_text_is_refused() {
        assert!(serde_json::from_str::<Text<3>>(r#""  ""#).unwrap_err().to_string().contains("is empty"));
        assert!(serde_json::from_str::<Text<3>>(r#""äöüß""#).unwrap_err().to_string().contains("longer than 3"));
        assert_eq!(&*serde_json::from_str::<Text<3>>(r#""äöü""#).unwrap(), "äöü");
    }

    #[test]
    fn a_code_may_be_a_json_number_of_any_length() {
        assert_eq!(&*serde_json::from_str::<Code>("12345678901234567890123").unwrap(), "12345678901234567890123");
        assert_eq!(&*serde_json::from_str::<Code>(r#""PO\n1""#).unwrap(), "PO 1");
        assert!(serde_json::from_str::<Code>("true").is_err());
        assert!(serde_json::from_str::<Code>(r#"{"a":1}"#).is_err());
    }

    #[test]
    fn only_long_runs_get_break_opportunities() {
        assert_eq!(breakable("an ordinary sentence, with words"), "an ordinary sentence, with words");
        let long = "x".repeat(40);
        let broken = breakable(&long);
        assert_eq!(broken.replace('\u{200B}', ""), long);
        assert!(broken.split('\u{200B}').all(|part| part.len() <= LONGEST_RUN));
    }
}
