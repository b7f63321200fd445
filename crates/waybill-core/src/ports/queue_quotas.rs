//! What SQS refuses, known to every queue adapter, entry by entry.
//!
//! Sources: Amazon SQS developer guide, "Message quotas" and "Message metadata"; API reference, `SendMessage` and
//! `ChangeMessageVisibility`. Checked before the queue is asked, so that one bad entry costs
//! its neighbours nothing, and because emulators take what SQS refuses.

use super::{EntryError, MAX_BATCH_BYTES, OutgoingMessage};
use sha2::{Digest, Sha256};
use std::{borrow::Cow, time::Duration};

/// Longest delay of a message (SQS quota).
pub const MAX_DELAY: Duration = Duration::from_secs(900);
const MAX_VISIBILITY: Duration = Duration::from_secs(43_200);
const MAX_ATTRIBUTES: usize = 10;
const MAX_GROUP: usize = 128;

fn refuse<T>(why: &str) -> Result<T, EntryError> {
    Err(EntryError::Permanent(why.into()))
}

/// # Errors
/// [`EntryError::Permanent`]: this message can never be taken.
pub fn check_message(message: &OutgoingMessage) -> Result<(), EntryError> {
    if message.body.is_empty() {
        return refuse("the body is empty");
    }
    if message.bytes() > MAX_BATCH_BYTES {
        return refuse("body and attributes are larger than 1 MiB");
    }
    if !is_xml_text(&message.body) {
        return refuse("the body has characters outside XML 1.0");
    }
    if message.delay > MAX_DELAY {
        return refuse("the delay is above 900 s");
    }
    if message.attributes.len() > MAX_ATTRIBUTES {
        return refuse("there are more than 10 attributes");
    }
    for (name, value) in &message.attributes {
        if name.is_empty() || value.is_empty() {
            return refuse("an attribute is empty");
        }
        if !is_xml_text(name) || !is_xml_text(value) {
            return refuse("an attribute has characters outside XML 1.0");
        }
    }
    Ok(())
}

/// # Errors
/// [`EntryError::Permanent`]: no message may be hidden for so long.
pub fn check_visibility(timeout: Duration) -> Result<(), EntryError> {
    if timeout > MAX_VISIBILITY { refuse("the visibility timeout is above 12 h") } else { Ok(()) }
}

/// A group as SQS takes it: 1 to 128 ASCII letters, digits and punctuation. Any other text is replaced by its SHA-256 in hex: fairness is
/// no reason to refuse a message.
pub fn group(text: &str) -> Cow<'_, str> {
    let fits = (1..=MAX_GROUP).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { Cow::Borrowed(text) } else { Cow::Owned(hex::encode(Sha256::digest(text))) }
}

/// `Char` of XML 1.0 without the surrogates, which a `char` can't be.
pub fn is_xml_text(text: &str) -> bool {
    text.chars().all(|c| match c {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        c => c >= ' ',
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqs_03_the_characters_of_xml_and_no_others() {
        for good in ["\t\n\r ~", "\u{7f}\u{d7ff}\u{e000}\u{fffd}", "\u{10000}\u{10ffff}"] {
            assert!(is_xml_text(good), "{good:?}");
        }
        for bad in ["\0", "\u{1}", "\u{8}", "\u{b}", "\u{c}", "\u{e}", "\u{1f}", "\u{fffe}", "\u{ffff}"] {
            assert!(!is_xml_text(bad), "{bad:?}");
        }
    }

    #[test]
    fn sqs_09_groups_are_made_into_what_sqs_takes() {
        for good in ["ten_01h455vb4pex5vsknk084sn02q", "!~", &"x".repeat(128)] {
            assert_eq!(group(good), good);
        }
        let strange = ["", "Acme GmbH & Co", "a\u{e7}ai", "a\nb", &"x".repeat(129), &"x".repeat(130)];
        let hashed: std::collections::HashSet<_> = strange.iter().map(|text| group(text).into_owned()).collect();
        assert_eq!(hashed.len(), strange.len(), "different groups stay different");
        for made in hashed {
            assert!(made.len() == 64 && made.bytes().all(|b| b.is_ascii_hexdigit()), "{made}");
        }
    }
}
