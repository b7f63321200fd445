//! SES event publishing: the event itself (SQS or raw delivery), or wrapped as text in an SNS envelope.
//! <https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns-contents.html>

use crate::{
    detail::detail,
    events::{EventError, content_id},
};
use chrono::{DateTime, Utc};
use serde_json::Value;
use waybill_core::ports::{FeedbackEvent, FeedbackKind};

/// What SES publishes to a topic once, to see whether it may; bare where the topic delivers messages as they are.
const TEST_SENTENCE: &[u8] = b"Successfully validated SNS topic";

/// Reads a body of zero or one events, whatever its content type says (SNS posts JSON as `text/plain`).
///
/// Confirmations of SNS subscriptions and messages that are no SES events (SNS sends plain sentences to test a topic) are no events and
/// no errors. No URL of an envelope is ever fetched here.
///
/// # Errors
/// Only when the body as a whole is not a JSON object.
pub fn parse_events(body: &[u8]) -> Result<Vec<FeedbackEvent>, EventError> {
    if body.starts_with(TEST_SENTENCE) {
        return Ok(Vec::new());
    }
    let outer: Value = serde_json::from_slice(body).map_err(EventError::NotJson)?;
    if !outer.is_object() {
        return Err(EventError::Shape { expected: "an object" });
    }
    let (event, bytes) = match (outer["Type"].as_str(), outer["Message"].as_str()) {
        (Some("Notification"), Some(message)) => match serde_json::from_str::<Value>(message) {
            Ok(inner) => (inner, message.as_bytes()),
            Err(_) => return Ok(Vec::new()),
        },
        _ => (outer.clone(), body),
    };
    Ok(event_name(&event).map(|name| read(name, &event, bytes)).into_iter().collect())
}

/// `eventType` in event publishing, `notificationType` in the notifications of an identity.
fn event_name(event: &Value) -> Option<&str> {
    event["eventType"].as_str().or_else(|| event["notificationType"].as_str())
}

fn read(name: &str, event: &Value, bytes: &[u8]) -> FeedbackEvent {
    let mail = &event["mail"];
    let tag = |name: &str| mail["tags"][name][0].as_str();
    let about = details(name, event);
    let at = about["timestamp"].as_str().or_else(|| mail["timestamp"].as_str());
    FeedbackEvent {
        provider: "ses",
        // SNS ids differ between two publications of one event; its content does not.
        event_id: content_id(bytes),
        delivery: tag("delivery_id").and_then(|id| id.parse().ok()),
        attempt: tag("attempt_id").and_then(|id| id.parse().ok()),
        provider_message_id: mail["messageId"]
            .as_str()
            .filter(|id| !id.is_empty())
            .map(|id| waybill_core::text::storable(id, 200)),
        kind: kind(name, about),
        at: at.and_then(|at| DateTime::parse_from_rfc3339(at).ok()).map(|at| at.with_timezone(&Utc)),
        detail: words(name, about),
    }
}

/// The object that belongs to the event's name.
fn details<'a>(name: &str, event: &'a Value) -> &'a Value {
    match name {
        "Bounce" => &event["bounce"],
        "Complaint" => &event["complaint"],
        "Delivery" => &event["delivery"],
        "Reject" => &event["reject"],
        "Rendering Failure" => &event["failure"],
        "DeliveryDelay" => &event["deliveryDelay"],
        _ => &Value::Null,
    }
}

fn kind(name: &str, about: &Value) -> FeedbackKind {
    match name {
        "Send" => FeedbackKind::Accepted,
        "Delivery" => FeedbackKind::Delivered,
        "Bounce" => bounce_kind(about),
        "Complaint" => complaint_kind(about),
        // A virus, or a template that did not render: accepted by the API, sent to nobody.
        "Reject" | "Rendering Failure" => FeedbackKind::Dropped,
        // DeliveryDelay, Open, Click, Subscription and whatever comes next.
        _ => FeedbackKind::Other,
    }
}

/// Only `Permanent` is permanent. Four of its subtypes mean that SES did not even try because of a list of ours or of its own
/// validation, so they say nothing new about the address.
fn bounce_kind(bounce: &Value) -> FeedbackKind {
    match (bounce["bounceType"].as_str(), bounce["bounceSubType"].as_str()) {
        (
            Some("Permanent"),
            Some(
                "OnAccountSuppressionList"
                | "OnTenantSuppressionList"
                | "UnsubscribedRecipient"
                | "EmailValidationSuppressed",
            ),
        ) => FeedbackKind::Dropped,
        (Some("Permanent"), _) => FeedbackKind::Bounced,
        // Transient (SES has given up, the address may be fine) and Undetermined.
        _ => FeedbackKind::Other,
    }
}

fn complaint_kind(complaint: &Value) -> FeedbackKind {
    if complaint["complaintSubType"].as_str() == Some("OnAccountSuppressionList") {
        return FeedbackKind::Dropped;
    }
    // RFC 5965 section 7.3: a report that something is *not* spam.
    if complaint["complaintFeedbackType"].as_str() == Some("not-spam") {
        return FeedbackKind::Other;
    }
    FeedbackKind::Complained
}

fn words(name: &str, about: &Value) -> String {
    let recipient = &about["bouncedRecipients"][0];
    let parts = [
        &about["bounceType"],
        &about["bounceSubType"],
        &recipient["status"],
        &recipient["diagnosticCode"],
        &about["complaintSubType"],
        &about["complaintFeedbackType"],
        &about["smtpResponse"],
        &about["reason"],
        &about["errorMessage"],
        &about["delayType"],
    ];
    let said = parts.into_iter().filter_map(Value::as_str);
    detail(&std::iter::once(name).chain(said).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use uuid::Uuid;
    use waybill_core::ids::{AttemptId, DeliveryId};

    fn one(event: &Value) -> FeedbackEvent {
        parse_events(event.to_string().as_bytes()).unwrap().remove(0)
    }

    fn bounce(kind: &str, subtype: &str) -> Value {
        json!({
            "eventType": "Bounce",
            "mail": {
                "messageId": "0107-a", "timestamp": "2026-11-30T10:00:00.000Z",
                "destination": ["ada@example.com", "bob@example.com", "eve@example.com"],
                "tags": {
                    "delivery_id": ["dlv_00000000000000000000000003"], "attempt_id": ["att_00000000000000000000000004"],
                    "ses:configuration-set": ["x"],
                },
            },
            "bounce": {
                "bounceType": kind, "bounceSubType": subtype, "timestamp": "2026-11-30T10:00:03.120Z", "feedbackId": "f",
                "bouncedRecipients": [{
                    "emailAddress": "ada@example.com", "status": "5.1.1",
                    "diagnosticCode": "smtp; 550 5.1.1 <ada@example.com> unknown",
                }],
            },
        })
    }

    #[test]
    fn a_bounce_comes_with_our_ids_its_time_and_words_without_an_address() {
        let event = one(&bounce("Permanent", "NoEmail"));
        assert_eq!(event.kind, FeedbackKind::Bounced);
        assert_eq!(event.delivery, Some(DeliveryId(Uuid::from_u128(3))));
        assert_eq!(event.attempt, Some(AttemptId(Uuid::from_u128(4))));
        assert_eq!(event.provider_message_id.as_deref(), Some("0107-a"));
        assert_eq!(event.at.unwrap().to_rfc3339(), "2026-11-30T10:00:03.120+00:00");
        assert_eq!(event.detail, "Bounce Permanent NoEmail 5.1.1 smtp; 550 5.1.1 <(address)> unknown");
    }

    #[test]
    fn ses_07_only_a_permanent_bounce_of_a_mail_that_was_tried_is_a_bounce() {
        for (kind, subtype, expected) in [
            ("Permanent", "General", FeedbackKind::Bounced),
            ("Permanent", "NoEmail", FeedbackKind::Bounced),
            ("Permanent", "Suppressed", FeedbackKind::Bounced),
            ("Permanent", "BrandNew", FeedbackKind::Bounced),
            ("Permanent", "OnAccountSuppressionList", FeedbackKind::Dropped),
            ("Permanent", "OnTenantSuppressionList", FeedbackKind::Dropped),
            ("Permanent", "UnsubscribedRecipient", FeedbackKind::Dropped),
            ("Permanent", "EmailValidationSuppressed", FeedbackKind::Dropped),
            ("Transient", "General", FeedbackKind::Other),
            ("Transient", "MailboxFull", FeedbackKind::Other),
            ("Transient", "MessageTooLarge", FeedbackKind::Other),
            ("Transient", "CustomTimeoutExceeded", FeedbackKind::Other),
            ("Transient", "ContentRejected", FeedbackKind::Other),
            ("Transient", "AttachmentRejected", FeedbackKind::Other),
            ("Undetermined", "Undetermined", FeedbackKind::Other),
        ] {
            assert_eq!(one(&bounce(kind, subtype)).kind, expected, "{kind} {subtype}");
        }
    }

    #[test]
    fn every_event_has_its_kind() {
        for (event, expected) in [
            (json!({"eventType": "Send", "send": {}}), FeedbackKind::Accepted),
            (json!({"eventType": "Delivery"}), FeedbackKind::Delivered),
            (json!({"eventType": "Complaint", "complaint": {"complaintSubType": null}}), FeedbackKind::Complained),
            (
                json!({"eventType": "Complaint", "complaint": {"complaintFeedbackType": "abuse"}}),
                FeedbackKind::Complained,
            ),
            (
                json!({"eventType": "Complaint", "complaint": {"complaintFeedbackType": "not-spam"}}),
                FeedbackKind::Other,
            ),
            (
                json!({"eventType": "Complaint", "complaint": {"complaintSubType": "OnAccountSuppressionList"}}),
                FeedbackKind::Dropped,
            ),
            (json!({"eventType": "Reject", "reject": {"reason": "Bad content"}}), FeedbackKind::Dropped),
            (json!({"eventType": "Rendering Failure"}), FeedbackKind::Dropped),
            (json!({"eventType": "DeliveryDelay"}), FeedbackKind::Other),
            (json!({"eventType": "Open"}), FeedbackKind::Other),
            (json!({"eventType": "Click"}), FeedbackKind::Other),
            (json!({"eventType": "Subscription"}), FeedbackKind::Other),
            (json!({"eventType": "BrandNew"}), FeedbackKind::Other),
            (json!({"eventType": "Bounce"}), FeedbackKind::Other),
        ] {
            assert_eq!(one(&event).kind, expected, "{event}");
        }
    }

    #[test]
    fn ses_08_wrapped_in_sns_or_not_and_in_both_spellings_it_is_the_same_event() {
        let raw = bounce("Permanent", "NoEmail");
        let envelope = |message: &str, id: &str| json!({"Type": "Notification", "MessageId": id, "TopicArn": "arn:x", "Message": message});
        let wrapped = one(&envelope(&raw.to_string(), "m1"));
        assert_eq!(wrapped, one(&raw));
        assert_eq!(wrapped.event_id, one(&envelope(&raw.to_string(), "m2")).event_id, "one event, published twice");
        assert_ne!(wrapped.event_id, one(&bounce("Permanent", "General")).event_id);

        let mut notification = raw.clone();
        notification["notificationType"] = notification["eventType"].take();
        assert_eq!(one(&notification).kind, FeedbackKind::Bounced);
    }

    #[test]
    fn ses_08_what_is_no_event_is_no_error() {
        for body in [
            json!({"Type": "Notification", "Message": "Successfully validated SNS topic for Amazon SES event publishing."}),
            json!({"Type": "SubscriptionConfirmation", "Message": "You have chosen …", "SubscribeURL": "http://169.254.169.254/"}),
            json!({"Type": "UnsubscribeConfirmation", "Message": "x"}),
            json!({"Type": "Notification", "Message": "{}"}),
            json!({"Type": "Notification", "Message": "[1]"}),
            json!({}),
        ] {
            assert!(parse_events(body.to_string().as_bytes()).unwrap().is_empty(), "{body}");
        }
        let bare = parse_events(b"Successfully validated SNS topic for Amazon SES event publishing.");
        assert!(bare.unwrap().is_empty(), "delivered without an envelope");
        assert!(matches!(parse_events(b"hello"), Err(EventError::NotJson(_))));
        assert!(matches!(parse_events(b"[]"), Err(EventError::Shape { .. })));
    }

    #[test]
    fn an_event_without_tags_is_an_orphan_that_keeps_the_provider_s_id() {
        let event = one(
            &json!({"notificationType": "Delivery", "mail": {"messageId": "0107-b", "tags": {"delivery_id": "x"}}}),
        );
        assert_eq!((event.delivery, event.attempt), (None, None));
        assert_eq!(event.provider_message_id.as_deref(), Some("0107-b"));
        assert_eq!(event.at, None);
    }
}
