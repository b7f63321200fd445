//! What SQS refuses to take, entry by entry (Amazon SQS developer guide, "Message quotas"; `SendMessage`, "Characters").
//!
//! Written here a second time on purpose: a fake that borrowed the adapters' check could not find them wrong.

use std::time::Duration;
use waybill_core::ports::{EntryError, MAX_BATCH_BYTES, OutgoingMessage};

pub(super) fn check(message: &OutgoingMessage) -> Result<(), EntryError> {
    let texts = message.attributes.iter().flat_map(|(name, value)| [name, value]).chain([&message.body]);
    let refusal = if message.body.is_empty() {
        "an empty body"
    } else if message.bytes() > MAX_BATCH_BYTES {
        "larger than 1 MiB"
    } else if texts.flat_map(|text| text.chars()).any(|c| !in_xml(c)) {
        "characters outside XML 1.0"
    } else if message.delay > Duration::from_secs(900) {
        "a delay above 900 s"
    } else if message.attributes.len() > 10 || message.attributes.iter().any(|(n, v)| n.is_empty() || v.is_empty()) {
        "more than ten attributes, or an empty one"
    } else {
        return Ok(());
    };
    Err(EntryError::Permanent(refusal.into()))
}

fn in_xml(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}
