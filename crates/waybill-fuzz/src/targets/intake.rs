//! Messages of the intake queue: EventBridge's envelope, an event or a claim check in it.

use super::as_text;
use serde_json::Value;
use waybill_core::event::EventLimits;

pub(crate) const WORDS: &[&str] = &[
    "\"source\":\"shop\"",
    "\"detail\":{",
    "\"detail-type\"",
    "\"payload\":{",
    "\"key\":\"intake/",
    "\"size\":",
    "\"sha256\":\"",
    "\"id\":\"1\"",
    "\"type\":\"order.placed\"",
    "\"recipients\":[{\"email\":\"ana@example.test\"}]",
    "../",
    "intake/",
];

/// Stands in the values of the corpus and nowhere else.
const VALUE: &str = "ana@example.test";

pub(crate) fn check(input: &[u8]) {
    let Some(body) = as_text(input) else { return };
    if let Err(refusal) = waybill_pipeline::intake::check(body, &EventLimits { max_recipients: 20 }, 8_000) {
        let word = refusal.split(':').next().unwrap_or_default();
        assert!(!word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{refusal}");
        // The pointer of an error repeats the names of members.
        let named = serde_json::from_str(body).is_ok_and(|json| names(&json));
        assert!(named || !refusal.contains(VALUE), "a value is repeated: {refusal}");
    }
}

/// Whether a member's name holds [`VALUE`].
fn names(json: &Value) -> bool {
    match json {
        Value::Object(members) => members.iter().any(|(name, json)| name.contains(VALUE) || names(json)),
        Value::Array(items) => items.iter().any(names),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
