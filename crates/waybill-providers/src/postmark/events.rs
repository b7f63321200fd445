//! Webhooks of a stream: one record per request. <https://postmarkapp.com/developer/webhooks/webhooks-overview>
//!
//! Postmark signs nothing: HTTP Basic and TLS are what there is.

use crate::{
    detail::detail,
    events::{EventError, content_id},
};
use chrono::{DateTime, Utc};
use serde_json::Value;
use waybill_core::ports::{FeedbackEvent, FeedbackKind};

/// Reads one record. An inbound mail, which has no `RecordType`, is none.
///
/// # Errors
/// Only when the body is no JSON object.
pub fn parse_events(body: &[u8]) -> Result<Vec<FeedbackEvent>, EventError> {
    let record: Value = serde_json::from_slice(body).map_err(EventError::NotJson)?;
    if !record.is_object() {
        return Err(EventError::Shape { expected: "a record" });
    }
    Ok(record["RecordType"].as_str().map(|name| read(name, &record, body)).into_iter().collect())
}

fn read(name: &str, record: &Value, body: &[u8]) -> FeedbackEvent {
    let metadata = |name: &str| record["Metadata"][name].as_str();
    let at = ["DeliveredAt", "BouncedAt", "ChangedAt", "ReceivedAt"].into_iter().find_map(|name| record[name].as_str());
    FeedbackEvent {
        provider: "postmark",
        // Bounces have a number, deliveries have none; a repeated record has the same bytes.
        event_id: content_id(body),
        delivery: metadata("delivery_id").and_then(|id| id.parse().ok()),
        attempt: metadata("attempt_id").and_then(|id| id.parse().ok()),
        provider_message_id: record["MessageID"]
            .as_str()
            .filter(|id| !id.is_empty())
            .map(|id| waybill_core::text::storable(id, 200)),
        kind: kind(name, record),
        at: at.and_then(|at| DateTime::parse_from_rfc3339(at).ok()).map(|at| at.with_timezone(&Utc)),
        detail: words(name, record),
    }
}

fn kind(name: &str, record: &Value) -> FeedbackKind {
    match name {
        "Delivery" => FeedbackKind::Delivered,
        "Bounce" => bounce_kind(record),
        "SpamComplaint" => FeedbackKind::Complained,
        // SubscriptionChange says something of the address, not of a mail. Open, Click and whatever comes next.
        _ => FeedbackKind::Other,
    }
}

/// By `Type`, for which `TypeCode` is another spelling. `Inactive` outranks it: Postmark has stopped sending to that address.
fn bounce_kind(record: &Value) -> FeedbackKind {
    match record["Type"].as_str().unwrap_or_default() {
        "SpamComplaint" => FeedbackKind::Complained,
        "HardBounce" | "BadEmailAddress" | "ManuallyDeactivated" => FeedbackKind::Bounced,
        // The API took it, and then could not make or hand on a mail.
        "SMTPApiError" | "TemplateRenderingFailed" => FeedbackKind::Dropped,
        // Transient, SoftBounce, DnsError, Blocked, DMARCPolicy, SpamNotification, VirusNotification, Unknown, OpenRelayTest; and what is no
        // failure at all: AutoResponder, Subscribe, Unsubscribe, AddressChange, ChallengeVerification, Unconfirmed, InboundError.
        _ if record["Inactive"] == true => FeedbackKind::Bounced,
        _ => FeedbackKind::Other,
    }
}

fn words(name: &str, record: &Value) -> String {
    let parts = ["Type", "Name", "Description", "Details", "SuppressionReason"]
        .into_iter()
        .filter_map(|name| record[name].as_str());
    detail(&std::iter::once(name).chain(parts).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use uuid::Uuid;
    use waybill_core::ids::{AttemptId, DeliveryId};

    fn one(record: &Value) -> FeedbackEvent {
        parse_events(record.to_string().as_bytes()).unwrap().remove(0)
    }

    /// Every type of the vendor's table, in its order, with `Inactive` as Postmark sets it and the other way round.
    #[test]
    fn every_type_of_bounce_has_its_kind() {
        use FeedbackKind::{Bounced, Complained, Dropped, Other};
        for (kind, code, active, inactive) in [
            ("HardBounce", 1, Bounced, Bounced),
            ("Transient", 2, Other, Bounced),
            ("Unsubscribe", 16, Other, Bounced),
            ("Subscribe", 32, Other, Bounced),
            ("AutoResponder", 64, Other, Bounced),
            ("AddressChange", 128, Other, Bounced),
            ("DnsError", 256, Other, Bounced),
            ("SpamNotification", 512, Other, Bounced),
            ("OpenRelayTest", 1024, Other, Bounced),
            ("Unknown", 2048, Other, Bounced),
            ("SoftBounce", 4096, Other, Bounced),
            ("VirusNotification", 8192, Other, Bounced),
            ("ChallengeVerification", 16384, Other, Bounced),
            ("BadEmailAddress", 100_000, Bounced, Bounced),
            ("SpamComplaint", 100_001, Complained, Complained),
            ("ManuallyDeactivated", 100_002, Bounced, Bounced),
            ("Unconfirmed", 100_003, Other, Bounced),
            ("Blocked", 100_006, Other, Bounced),
            ("SMTPApiError", 100_007, Dropped, Dropped),
            ("InboundError", 100_008, Other, Bounced),
            ("DMARCPolicy", 100_009, Other, Bounced),
            ("TemplateRenderingFailed", 100_010, Dropped, Dropped),
        ] {
            let bounce =
                |inactive| json!({"RecordType": "Bounce", "Type": kind, "TypeCode": code, "Inactive": inactive});
            assert_eq!((one(&bounce(false)).kind, one(&bounce(true)).kind), (active, inactive), "{kind}");
        }
        assert_eq!(one(&json!({"RecordType": "Bounce"})).kind, Other);
    }

    #[test]
    fn every_record_has_its_kind() {
        for (name, kind) in [
            ("Delivery", FeedbackKind::Delivered),
            ("SpamComplaint", FeedbackKind::Complained),
            ("SubscriptionChange", FeedbackKind::Other),
            ("Open", FeedbackKind::Other),
            ("Click", FeedbackKind::Other),
            ("BrandNew", FeedbackKind::Other),
        ] {
            assert_eq!(one(&json!({"RecordType": name})).kind, kind, "{name}");
        }
    }

    #[test]
    fn a_bounce_comes_with_our_ids_its_time_and_words_without_an_address() {
        let event = one(&json!({
            "RecordType": "Bounce", "ID": 42, "Type": "HardBounce", "TypeCode": 1, "Name": "Hard bounce",
            "MessageID": "b7bc2f4a", "Email": "ada@example.com", "BouncedAt": "2026-11-30T10:00:03.1200000Z",
            "Details": "550 5.1.1 <ada@example.com> unknown", "Inactive": true,
            "Metadata": {"delivery_id": "dlv_00000000000000000000000003", "attempt_id": "att_00000000000000000000000004"},
        }));
        assert_eq!(event.delivery, Some(DeliveryId(Uuid::from_u128(3))));
        assert_eq!(event.attempt, Some(AttemptId(Uuid::from_u128(4))));
        assert_eq!((event.provider, event.provider_message_id.as_deref()), ("postmark", Some("b7bc2f4a")));
        assert_eq!(event.at.unwrap().to_rfc3339(), "2026-11-30T10:00:03.120+00:00");
        assert_eq!(event.detail, "Bounce HardBounce Hard bounce 550 5.1.1 <(address)> unknown");
    }

    #[test]
    fn an_inbound_mail_is_no_event_and_what_is_no_object_is_an_error() {
        assert!(parse_events(br#"{"FromName":"Ada"}"#).unwrap().is_empty());
        assert!(matches!(parse_events(b"hello"), Err(EventError::NotJson(_))));
        assert!(matches!(parse_events(b"[]"), Err(EventError::Shape { .. })));
    }
}
