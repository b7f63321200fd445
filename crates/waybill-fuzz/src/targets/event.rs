//! Events of `POST /events`: the strict JSON reader, the canonical form, and the fields.

use waybill_core::{
    event::{Event, EventLimits},
    json::{self, Json},
};

pub(crate) const WORDS: &[&str] = &[
    "\"specversion\"",
    "\"id\"",
    "\"source\"",
    "\"type\"",
    "\"subject\"",
    "\"time\"",
    "\"data\"",
    "\"revision\"",
    "\"ordering_key\"",
    "\"recipients\"",
    "\"expires_at\"",
    "\"email\"",
    "\"name\"",
    "\"ana@example.test\"",
    "\"1.0\"",
    "\"order.placed\"",
    "/orders",
    "1.10",
];

const LIMITS: EventLimits = EventLimits { max_recipients: 50 };

pub(crate) fn check(input: &[u8]) {
    match json::parse(input) {
        Ok(json) => {
            written_and_read(&json);
            fields(&json);
        }
        Err(error) => assert!(error.pointer.is_empty() || error.pointer.starts_with('/'), "{error:?}"),
    }
}

/// What was read is written so that it is read as the same, numbers digit by digit.
fn written_and_read(json: &Json) {
    assert_eq!(json::parse(json.to_text().as_bytes()).as_ref(), Ok(json));
    let canonical = json.canonical();
    let again = json::parse(canonical.as_bytes()).expect("the canonical form is JSON");
    assert_eq!(again.canonical(), canonical, "the canonical form is its own");
}

fn fields(json: &Json) {
    match Event::from_json(json, &LIMITS) {
        Ok(event) => {
            assert!((1..=255).contains(&event.id.chars().count()), "{}", event.id);
            assert!(event.recipients.len() <= LIMITS.max_recipients);
            let again = json::parse(json.canonical().as_bytes()).expect("the canonical form is JSON");
            let again = Event::from_json(&again, &LIMITS).expect("the same event");
            assert_eq!(again.fingerprint, event.fingerprint, "the order of members says nothing");
            assert_eq!(again.effective_revision(), event.effective_revision());
        }
        Err(errors) => {
            assert!(!errors.is_empty());
            for error in errors {
                assert!(error.pointer.is_empty() || error.pointer.starts_with('/'), "{error:?}");
                assert!(!error.code.is_empty() && !error.detail.is_empty(), "{error:?}");
            }
        }
    }
}
