//! What stands in a message on the intake queue: EventBridge's envelope, and in its `detail` an event or a claim check for one.
//!
//! Source: Amazon EventBridge user guide, "AWS service events" (fields of the envelope). Fields that we don't need are not looked at:
//! the envelope is EventBridge's and may grow, and `id` is new each time a producer repeats its call.

use crate::poison::Refusal;
use serde::Deserialize;
use serde_json::value::RawValue;
use waybill_core::{
    event::{Event, EventLimits, FieldError},
    json::{self, Json},
};

/// Where objects of claim checks live. Whoever may write there may write events; nothing else of the store can be named.
pub(super) const PREFIX: &str = "intake/";

#[derive(Debug, Deserialize)]
pub(super) struct Envelope<'a> {
    /// Says whose event it is.
    pub(super) source: String,
    /// As it was written: it is read by the reader of `POST /events`, which is stricter than that of the envelope.
    #[serde(borrow)]
    pub(super) detail: &'a RawValue,
}

/// Reads an envelope.
pub(super) fn read(body: &str) -> Result<Envelope<'_>, Refusal> {
    // A sequence would be read as the fields in their order.
    let object = body.trim_ascii_start().starts_with('{');
    match serde_json::from_str::<Envelope<'_>>(body) {
        Ok(envelope) if object => Ok(envelope),
        Err(error) if !error.is_data() => {
            // Not the error's own words, which repeat what they stumbled over.
            Err(Refusal::new("not_json", format!("line {}, column {}", error.line(), error.column())))
        }
        Ok(_) | Err(_) => Err(Refusal::new(
            "not_an_envelope",
            "expected an object with the text `source` and the object `detail`, each once",
        )),
    }
}

/// What `detail` holds.
#[derive(Debug)]
pub(super) enum Detail {
    Event(Box<Event>),
    ClaimCheck(ClaimCheck),
}

/// The event is in an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClaimCheck {
    pub(super) key: String,
    pub(super) size: u64,
    pub(super) sha256: [u8; 32],
}

/// Reads `detail`: the body of `POST /events`, or `{"payload": {"key", "size", "sha256"}}`.
pub(super) fn detail(text: &str, limits: &EventLimits, max_bytes: usize) -> Result<Detail, Refusal> {
    if text.len() > max_bytes {
        return Err(too_large("detail", text.len() as u64, max_bytes));
    }
    let json = json::parse(text.as_bytes()).map_err(|error| Refusal::new("invalid_event", error.to_string()))?;
    if let Json::Object(members) = &json
        && let [(name, payload)] = members.as_slice()
        && name == "payload"
    {
        return claim_check(payload, max_bytes).map(Detail::ClaimCheck);
    }
    event(&json, limits).map(|event| Detail::Event(Box::new(event)))
}

/// Reads the event in an object.
pub(super) fn payload(bytes: &[u8], limits: &EventLimits) -> Result<Event, Refusal> {
    let json = json::parse(bytes).map_err(|error| Refusal::new("invalid_event", error.to_string()))?;
    event(&json, limits)
}

fn event(json: &Json, limits: &EventLimits) -> Result<Event, Refusal> {
    Event::from_json(json, limits).map_err(|errors| {
        let one =
            |e: &FieldError| format!("{}: {}", if e.pointer.is_empty() { "the event" } else { &e.pointer }, e.detail);
        Refusal::new("invalid_event", errors.iter().map(one).collect::<Vec<_>>().join("; "))
    })
}

fn too_large(what: &str, bytes: u64, limit: usize) -> Refusal {
    Refusal::new("event_too_large", format!("{what}: {bytes} bytes; the limit max_body_bytes is {limit}"))
}

fn claim_check(payload: &Json, max_bytes: usize) -> Result<ClaimCheck, Refusal> {
    let wrong = |field: &str, detail: &str| Refusal::new("invalid_claim_check", format!("/payload{field}: {detail}"));
    const FIELDS: [&str; 3] = ["key", "size", "sha256"];
    let Json::Object(members) = payload else {
        return Err(wrong("", "expected an object with `key`, `size` and `sha256`"));
    };
    if members.iter().any(|(name, _)| !FIELDS.contains(&name.as_str())) {
        return Err(wrong("", "known fields are `key`, `size` and `sha256`"));
    }
    let key = payload.get("key").and_then(Json::as_str).ok_or_else(|| wrong("/key", "a text is required"))?;
    let path = key.strip_prefix(PREFIX).unwrap_or_default();
    if key.len() > 1_024 || path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(wrong("/key", "begins with `intake/`, a plain path of at most 1024 octets"));
    }
    let size = match payload.get("size") {
        Some(Json::Number(digits)) if digits.bytes().all(|b| b.is_ascii_digit()) => digits.parse::<u64>().ok(),
        Some(_) | None => None,
    };
    let size = size.ok_or_else(|| wrong("/size", "the object's bytes are required, a whole number"))?;
    if size > max_bytes as u64 {
        return Err(too_large("/payload/size", size, max_bytes));
    }
    let mut sha256 = [0; 32];
    let hex = payload.get("sha256").and_then(Json::as_str).unwrap_or_default();
    hex::decode_to_slice(hex, &mut sha256)
        .map_err(|_| wrong("/sha256", "the SHA-256 of the object is required, 64 hexadecimal digits"))?;
    Ok(ClaimCheck { key: key.to_owned(), size, sha256 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason<T: std::fmt::Debug>(result: Result<T, Refusal>) -> (&'static str, String) {
        let refusal = result.unwrap_err();
        (refusal.reason, refusal.detail)
    }

    #[test]
    fn sqs_08_what_is_no_envelope_is_told_from_what_is_no_json_and_nothing_of_it_is_repeated() {
        for body in ["", "{\"source\":", "Hello", "{\"source\":\"shop\",\"detail\":{}} x"] {
            assert_eq!(reason(read(body)).0, "not_json", "{body}");
        }
        for body in [
            "null",
            "[]",
            "[\"shop\",{}]",
            "{}",
            r#"{"id":"1","source":"/s","type":"t","data":{"a":1}}"#,
            r#"{"source":{"ana@example.test":1},"detail":{}}"#,
            r#"{"source":"shop","detail":{},"detail":{}}"#,
        ] {
            let (reason, detail) = reason(read(body));
            assert_eq!(reason, "not_an_envelope", "{body}");
            assert!(!detail.contains("ana@"), "{detail}");
        }
    }

    #[test]
    fn an_envelope_is_read_whatever_else_it_holds() {
        let body = r#"{"version":"0","id":"6f1f","detail-type":"x","source":"shop","account":"111122223333",
            "time":"2026-11-30T12:00:00Z","region":"eu-central-1","resources":[],"replay-name":"r","later":[{}],
            "detail":{"a": 1.10}}"#;
        let envelope = read(body).unwrap();
        assert_eq!((envelope.source.as_str(), envelope.detail.get()), ("shop", "{\"a\": 1.10}"));
    }

    #[test]
    fn in_02_the_event_has_the_limits_of_a_post_and_the_refusal_names_them() {
        let limits = EventLimits { max_recipients: 1 };
        let event = r#"{"id":"1","source":"/s","type":"t","data":1,"recipients":["a@b.example","c@d.example"]}"#;
        let (word, said) = reason(detail(event, &limits, 1_000));
        assert_eq!(word, "invalid_event");
        assert!(said.contains("/recipients") && said.contains("max_recipients is 1"), "{said}");
        let (word, said) = reason(detail(event, &limits, 40));
        assert_eq!(word, "event_too_large");
        assert!(said.contains("max_body_bytes is 40"), "{said}");
        // As deep as a post may be, although the envelope is one level more.
        let nested = |depth: usize| {
            let data = "[".repeat(depth - 1) + &"]".repeat(depth - 1);
            detail(&format!(r#"{{"id":"1","source":"/s","type":"t","data":{data}}}"#), &limits, 1_000)
        };
        assert!(matches!(nested(json::MAX_DEPTH), Ok(Detail::Event(_))));
        assert_eq!(reason(nested(json::MAX_DEPTH + 1)).0, "invalid_event");
        assert_eq!(reason(detail(r#"{"payload":{},"id":"1"}"#, &limits, 1_000)).0, "invalid_event");
    }

    #[test]
    fn a_claim_check_is_read_field_by_field() {
        let hash = "ab".repeat(32);
        let read = |payload: &str| detail(&format!("{{\"payload\":{payload}}}"), &EventLimits::default(), 1_000);
        let good = format!(r#"{{"key":"intake/2026/a.json","size":17,"sha256":"{hash}"}}"#);
        let Ok(Detail::ClaimCheck(check)) = read(&good) else { panic!("not read") };
        assert_eq!(check, ClaimCheck { key: "intake/2026/a.json".into(), size: 17, sha256: [0xab; 32] });
        for (from, to, field) in [
            ("intake/2026", "documents", "/payload/key"),
            ("intake/2026", "intake/..", "/payload/key"),
            ("intake/2026/a.json", "intake/", "/payload/key"),
            ("17", "-17", "/payload/size"),
            ("17", "17.5", "/payload/size"),
            ("17", "\"17\"", "/payload/size"),
            ("abab", "ab", "/payload/sha256"),
            ("abab", "xyxy", "/payload/sha256"),
            ("\"size\"", "\"bytes\"", "/payload"),
        ] {
            let (reason, detail) = reason(read(&good.replacen(from, to, 1)));
            assert_eq!(reason, "invalid_claim_check", "{to}");
            assert!(detail.starts_with(&format!("{field}:")), "{to}: {detail}");
        }
        for payload in ["null", "[]", "\"intake/a\"", "{}"] {
            assert_eq!(reason(read(payload)).0, "invalid_claim_check", "{payload}");
        }
        let (reason, detail) = reason(read(&good.replace("17", "1001")));
        assert_eq!(reason, "event_too_large");
        assert!(detail.contains("/payload/size") && detail.contains("max_body_bytes is 1000"), "{detail}");
    }
}
