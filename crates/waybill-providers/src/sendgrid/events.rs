//! The Event Webhook: a JSON array, several tenants and mails mixed, our custom arguments flattened into each event.
//! <https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event>

use crate::{
    detail::detail,
    events::{EventError, content_id},
};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use waybill_core::ports::{FeedbackEvent, FeedbackKind};

/// Reads a batch. Entries that are no objects are left out; unknown events come as [`FeedbackKind::Other`]; an event with no ids is
/// kept as an orphan and attached to nothing.
///
/// # Errors
/// Only when the body as a whole is not a JSON array.
pub fn parse_events(body: &[u8]) -> Result<Vec<FeedbackEvent>, EventError> {
    let batch: Value = serde_json::from_slice(body).map_err(EventError::NotJson)?;
    let Value::Array(entries) = batch else { return Err(EventError::Shape { expected: "an array of events" }) };
    Ok(entries.iter().filter_map(Value::as_object).map(event).collect())
}

fn event(entry: &Map<String, Value>) -> FeedbackEvent {
    let name = text(entry, "event").unwrap_or_default();
    // Stable across SendGrid's own retries.
    let event_id = text(entry, "sg_event_id")
        .map_or_else(|| content_id(serde_json::to_string(entry).unwrap_or_default().as_bytes()), str::to_owned);
    FeedbackEvent {
        provider: "sendgrid",
        event_id: waybill_core::text::storable(&event_id, 200),
        delivery: text(entry, "delivery_id").and_then(|id| id.parse().ok()),
        attempt: text(entry, "attempt_id").and_then(|id| id.parse().ok()),
        provider_message_id: text(entry, "sg_message_id").and_then(message_id),
        kind: kind(name, entry),
        at: timestamp(entry),
        detail: words(name, entry),
    }
}

/// `X-Message-Id` is the part before the first dot; what follows has had several forms.
fn message_id(sg_message_id: &str) -> Option<String> {
    let id = sg_message_id.split('.').next().unwrap_or_default();
    (!id.is_empty()).then(|| waybill_core::text::storable(id, 200))
}

fn kind(name: &str, entry: &Map<String, Value>) -> FeedbackKind {
    match name {
        "processed" => FeedbackKind::Accepted,
        "delivered" => FeedbackKind::Delivered,
        // A soft rejection; SendGrid itself does not put the address on its bounce list.
        "bounce" if text(entry, "type") == Some("blocked") => FeedbackKind::Other,
        "bounce" => FeedbackKind::Bounced,
        "spamreport" => FeedbackKind::Complained,
        "dropped" => FeedbackKind::Dropped,
        // deferred, open, click, unsubscribes, account changes and whatever comes next.
        _ => FeedbackKind::Other,
    }
}

fn words(name: &str, entry: &Map<String, Value>) -> String {
    let parts = ["type", "status", "reason", "response"].into_iter().filter_map(|field| text(entry, field));
    detail(&std::iter::once(name).chain(parts).collect::<Vec<_>>().join(" "))
}

/// A text that is there and not empty.
fn text<'a>(entry: &'a Map<String, Value>, field: &str) -> Option<&'a str> {
    entry.get(field).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Unix seconds, as a number or (seen in old exports) as text.
fn timestamp(entry: &Map<String, Value>) -> Option<DateTime<Utc>> {
    let value = entry.get("timestamp")?;
    let seconds = value.as_i64().or_else(|| value.as_str()?.parse().ok())?;
    DateTime::from_timestamp(seconds, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use uuid::Uuid;
    use waybill_core::ids::{AttemptId, DeliveryId};

    fn one(event: Value) -> FeedbackEvent {
        parse_events(json!([event]).to_string().as_bytes()).unwrap().remove(0)
    }

    #[test]
    fn every_event_has_its_kind() {
        for (event, kind) in [
            (json!({"event": "processed"}), FeedbackKind::Accepted),
            (json!({"event": "delivered"}), FeedbackKind::Delivered),
            (json!({"event": "deferred"}), FeedbackKind::Other),
            (json!({"event": "bounce", "type": "bounce"}), FeedbackKind::Bounced),
            (json!({"event": "bounce"}), FeedbackKind::Bounced),
            (json!({"event": "bounce", "type": "blocked"}), FeedbackKind::Other),
            (json!({"event": "dropped", "reason": "Bounced Address"}), FeedbackKind::Dropped),
            (json!({"event": "spamreport"}), FeedbackKind::Complained),
            (json!({"event": "open"}), FeedbackKind::Other),
            (json!({"event": "click"}), FeedbackKind::Other),
            (json!({"event": "unsubscribe"}), FeedbackKind::Other),
            (json!({"event": "group_unsubscribe"}), FeedbackKind::Other),
            (json!({"event": "group_resubscribe"}), FeedbackKind::Other),
            (json!({"event": "account_status_change"}), FeedbackKind::Other),
            (json!({"event": "brand_new"}), FeedbackKind::Other),
            (json!({}), FeedbackKind::Other),
        ] {
            assert_eq!(one(event.clone()).kind, kind, "{event}");
        }
    }

    #[test]
    fn our_ids_come_back_from_the_custom_arguments() {
        let event = one(json!({
            "event": "delivered", "sg_event_id": "e1", "sg_message_id": "abc123.recvd-9-1.0", "timestamp": 1_764_547_200,
            "delivery_id": "dlv_00000000000000000000000003", "attempt_id": "att_00000000000000000000000004",
            "email": "ada@example.com", "response": "250 OK for ada@example.com", "category": ["a"], "attempt": 7,
        }));
        assert_eq!(event.delivery, Some(DeliveryId(Uuid::from_u128(3))));
        assert_eq!(event.attempt, Some(AttemptId(Uuid::from_u128(4))));
        assert_eq!((event.event_id.as_str(), event.provider), ("e1", "sendgrid"));
        assert_eq!(event.at.unwrap().to_rfc3339(), "2025-12-01T00:00:00+00:00");
        assert_eq!(event.detail, "delivered 250 OK for (address)");
    }

    #[test]
    fn sg_02_the_message_id_is_what_stands_before_the_first_dot() {
        for id in ["abc123.filterdrecv-1-2.0", "abc123.recvd-9-1.0", "abc123"] {
            assert_eq!(one(json!({"sg_message_id": id})).provider_message_id.as_deref(), Some("abc123"), "{id}");
        }
    }

    #[test]
    fn sg_02_a_bounce_with_empty_ids_is_an_orphan_and_its_neighbours_count() {
        let body = json!([
            {"event": "bounce", "sg_message_id": "", "sg_event_id": "", "delivery_id": "dlv_nonsense"},
            "no object",
            {"event": "delivered", "sg_message_id": "abc.x", "sg_event_id": "e2"},
        ]);
        let events = parse_events(body.to_string().as_bytes()).unwrap();
        assert_eq!(events.len(), 2);
        let orphan = &events[0];
        assert_eq!((orphan.delivery, orphan.attempt, &orphan.provider_message_id), (None, None, &None));
        assert_eq!(orphan.kind, FeedbackKind::Bounced);
        assert_eq!(events[1].kind, FeedbackKind::Delivered);
    }

    #[test]
    fn an_event_without_an_id_gets_one_from_its_content() {
        let event = json!({"event": "bounce", "timestamp": 1});
        assert_eq!(one(event.clone()).event_id, one(event.clone()).event_id);
        assert_ne!(one(event).event_id, one(json!({"event": "bounce", "timestamp": 2})).event_id);
    }

    #[test]
    fn a_body_that_is_no_batch_is_an_error() {
        assert!(matches!(parse_events(b"hello"), Err(EventError::NotJson(_))));
        assert!(matches!(parse_events(b"{}"), Err(EventError::Shape { .. })));
        assert!(parse_events(b"[]\r\n").unwrap().is_empty());
    }
}
