//! Bodies of provider events: SES (bare, or in an SNS envelope) and SendGrid.

use super::assert_storable;
use waybill_core::ports::FeedbackEvent;
use waybill_providers::registry::find;

pub(crate) const SES: &[&str] = &[
    "\"Type\":\"Notification\"",
    "\"Type\":\"SubscriptionConfirmation\"",
    "\"Message\"",
    "\"eventType\"",
    "\"notificationType\"",
    "\"Bounce\"",
    "\"Complaint\"",
    "\"Delivery\"",
    "\"Send\"",
    "\"mail\"",
    "\"tags\"",
    "\"delivery_id\"",
    "\"attempt_id\"",
    "\"messageId\"",
    "\"timestamp\"",
    "\"bounceType\":\"Permanent\"",
    "\"bounceSubType\"",
    "Successfully validated SNS topic",
];
pub(crate) const SENDGRID: &[&str] = &[
    "\"event\":\"processed\"",
    "\"event\":\"bounce\"",
    "\"sg_event_id\"",
    "\"sg_message_id\"",
    "\"delivery_id\"",
    "\"attempt_id\"",
    "\"timestamp\"",
    "\"reason\"",
    "\"type\":\"blocked\"",
    "\"event\":\"spamreport\"",
];

pub(crate) fn ses(input: &[u8]) {
    let events = read("ses", input);
    assert!(events.len() <= 1);
}

pub(crate) fn sendgrid(input: &[u8]) {
    read("sendgrid", input);
}

/// Each event can be stored as it is, and the same body says the same again: repeats are told by the event's id.
fn read(provider: &'static str, input: &[u8]) -> Vec<FeedbackEvent> {
    let parse = find(provider).and_then(|kind| kind.parse_events).expect("a provider with events");
    let Ok(events) = parse(input) else { return Vec::new() };
    for event in &events {
        assert_eq!(event.provider, provider);
        assert!(!event.event_id.is_empty() || provider == "sendgrid");
        assert_storable(&event.event_id, 200);
        assert_storable(&event.detail, 1_000);
        if let Some(id) = &event.provider_message_id {
            assert!(!id.is_empty());
            assert_storable(id, 200);
        }
    }
    assert_eq!(parse(input).expect("the same body"), events);
    events
}
