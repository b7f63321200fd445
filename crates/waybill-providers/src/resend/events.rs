//! Webhooks: one event per request. <https://resend.com/docs/dashboard/webhooks/event-types>

use crate::{
    detail::detail,
    events::{EventError, content_id},
};
use chrono::{DateTime, Utc};
use serde_json::Value;
use waybill_core::ports::{FeedbackEvent, FeedbackKind};

/// Reads one event. One that is about no mail (a contact, a domain) is none.
///
/// # Errors
/// Only when the body is no JSON object.
pub fn parse_events(body: &[u8]) -> Result<Vec<FeedbackEvent>, EventError> {
    let event: Value = serde_json::from_slice(body).map_err(EventError::NotJson)?;
    if !event.is_object() {
        return Err(EventError::Shape { expected: "an event" });
    }
    let name = event["type"].as_str().and_then(|name| name.strip_prefix("email."));
    Ok(name.map(|name| read(name, &event, body)).into_iter().collect())
}

fn read(name: &str, event: &Value, body: &[u8]) -> FeedbackEvent {
    let data = &event["data"];
    // The envelope's time is the event's; `data` repeats when the mail was made.
    let at = event["created_at"].as_str().and_then(|at| DateTime::parse_from_rfc3339(at).ok());
    FeedbackEvent {
        provider: "resend",
        // `svix-id` is a header; a repeated delivery has the same bytes, and two events have not.
        event_id: content_id(body),
        delivery: tag(data, "delivery_id").and_then(|id| id.parse().ok()),
        // Not among the tags: the body of a mail is the same for all its attempts.
        attempt: None,
        provider_message_id: data["email_id"]
            .as_str()
            .filter(|id| !id.is_empty())
            .map(|id| waybill_core::text::storable(id, 200)),
        kind: kind(name, data),
        at: at.map(|at| at.with_timezone(&Utc)),
        detail: words(name, data),
    }
}

/// An object of names and values in events, although requests have an array; either is read.
fn tag<'a>(data: &'a Value, name: &str) -> Option<&'a str> {
    let tags = &data["tags"];
    match tags.as_array() {
        Some(tags) => tags.iter().find(|tag| tag["name"] == name)?["value"].as_str(),
        None => tags[name].as_str(),
    }
}

fn kind(name: &str, data: &Value) -> FeedbackKind {
    match name {
        "sent" => FeedbackKind::Accepted,
        "delivered" => FeedbackKind::Delivered,
        // `Transient` and `Undetermined` come under the same name: they are recorded, and say nothing for good.
        "bounced" if data["bounce"]["type"] == "Permanent" => FeedbackKind::Bounced,
        "complained" => FeedbackKind::Complained,
        // `failed`: it could not be sent. `suppressed`: it was not even tried, because of a list of theirs.
        "failed" | "suppressed" => FeedbackKind::Dropped,
        // scheduled, delivery_delayed, other bounces, opened, clicked, received and whatever comes next.
        _ => FeedbackKind::Other,
    }
}

fn words(name: &str, data: &Value) -> String {
    let (bounce, suppressed) = (&data["bounce"], &data["suppressed"]);
    let parts = [
        &bounce["type"],
        &bounce["subType"],
        &bounce["message"],
        &data["failed"]["reason"],
        &suppressed["type"],
        &suppressed["reason"],
        &suppressed["message"],
    ];
    let said = parts.into_iter().filter_map(Value::as_str);
    detail(&std::iter::once(name).chain(said).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use uuid::Uuid;
    use waybill_core::ids::DeliveryId;

    fn one(event: &Value) -> FeedbackEvent {
        parse_events(event.to_string().as_bytes()).unwrap().remove(0)
    }

    #[test]
    fn every_event_has_its_kind() {
        let bounce = |kind: &str| json!({"bounce": {"type": kind, "subType": "General"}});
        for (name, data, kind) in [
            ("sent", json!({}), FeedbackKind::Accepted),
            ("scheduled", json!({}), FeedbackKind::Other),
            ("delivered", json!({}), FeedbackKind::Delivered),
            ("delivery_delayed", json!({}), FeedbackKind::Other),
            ("bounced", bounce("Permanent"), FeedbackKind::Bounced),
            ("bounced", bounce("Transient"), FeedbackKind::Other),
            ("bounced", bounce("Undetermined"), FeedbackKind::Other),
            ("bounced", json!({}), FeedbackKind::Other),
            ("complained", json!({}), FeedbackKind::Complained),
            ("opened", json!({}), FeedbackKind::Other),
            ("clicked", json!({}), FeedbackKind::Other),
            ("failed", json!({"failed": {"reason": "x"}}), FeedbackKind::Dropped),
            ("suppressed", json!({"suppressed": {"type": "Suppressed"}}), FeedbackKind::Dropped),
            ("received", json!({}), FeedbackKind::Other),
            ("brand_new", json!({}), FeedbackKind::Other),
        ] {
            assert_eq!(one(&json!({"type": format!("email.{name}"), "data": data})).kind, kind, "{name} {data}");
        }
    }

    #[test]
    fn a_bounce_comes_with_our_ids_its_time_and_words_without_an_address() {
        for tags in [
            json!({"delivery_id": "dlv_00000000000000000000000003"}),
            json!([{"name": "delivery_id", "value": "dlv_00000000000000000000000003"}]),
        ] {
            let event = one(&json!({
                "type": "email.bounced", "created_at": "2026-11-30T10:00:03.120Z",
                "data": {
                    "email_id": "49a3", "created_at": "2026-11-30T10:00:00.000Z", "to": ["ada@example.com"], "tags": tags,
                    "bounce": {"type": "Permanent", "subType": "NoEmail", "message": "550 <ada@example.com> unknown"},
                },
            }));
            assert_eq!(event.delivery, Some(DeliveryId(Uuid::from_u128(3))));
            assert_eq!((event.provider, event.attempt), ("resend", None));
            assert_eq!(event.provider_message_id.as_deref(), Some("49a3"));
            assert_eq!(event.at.unwrap().to_rfc3339(), "2026-11-30T10:00:03.120+00:00");
            assert_eq!(event.detail, "bounced Permanent NoEmail 550 <(address)> unknown");
        }
    }

    #[test]
    fn pv_01_the_same_event_twice_is_one_event() {
        let event = json!({"type": "email.sent", "created_at": "2026-11-30T10:00:00Z", "data": {"email_id": "a"}});
        let later = json!({"type": "email.sent", "created_at": "2026-11-30T10:00:01Z", "data": {"email_id": "a"}});
        assert_eq!(one(&event).event_id, one(&event).event_id);
        assert_ne!(one(&event).event_id, one(&later).event_id);
    }

    #[test]
    fn what_is_about_no_mail_is_no_event_and_what_is_no_object_is_an_error() {
        for body in [json!({"type": "contact.created", "data": {}}), json!({"type": 7}), json!({})] {
            assert!(parse_events(body.to_string().as_bytes()).unwrap().is_empty(), "{body}");
        }
        assert!(matches!(parse_events(b"hello"), Err(EventError::NotJson(_))));
        assert!(matches!(parse_events(b"[]"), Err(EventError::Shape { .. })));
    }
}
