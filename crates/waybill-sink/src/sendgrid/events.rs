//! The Event Webhook: a JSON array per request, custom arguments at the top level of each event.
//! <https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event>

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};

use crate::{
    events::{Fate, Post, fate_of},
    mail::Mail,
};

/// One request with all events of the mail. Unsigned: the sink is nobody whose key could be trusted.
pub(super) fn after_acceptance(mail: &Mail) -> Vec<Post> {
    let mut events = Vec::with_capacity(mail.recipients.len() * 2);
    for (at, recipient) in mail.recipients.iter().enumerate() {
        let mut add = |name: &str, details: Value| events.push(event(mail, at, recipient, name, details));
        let fate = fate_of(recipient);
        if fate == Fate::Dropped {
            add("dropped", json!({ "reason": "Invalid", "status": "5.0.0" }));
            continue;
        }
        add("processed", json!({ "send_at": 0 }));
        match fate {
            Fate::Delivered | Fate::Dropped => add("delivered", delivered()),
            Fate::Bounced => add("bounce", bounce()),
            Fate::Complained => {
                add("delivered", delivered());
                add("spamreport", json!({}));
            }
        }
    }
    let body = Value::Array(events).to_string() + "\r\n";
    vec![Post { headers: vec![("content-type", "application/json".to_owned())], body: body.into(), svix_id: None }]
}

fn delivered() -> Value {
    json!({ "response": "250 2.0.0 OK", "tls": 1 })
}

fn bounce() -> Value {
    json!({
        "type": "bounce",
        "status": "5.1.1",
        "reason": "550 5.1.1 user unknown",
        "bounce_classification": "Invalid Address",
    })
}

fn event(mail: &Mail, at: usize, recipient: &str, name: &str, details: Value) -> Value {
    // Custom arguments first, so that they can't forge the provider's own fields.
    let mut event: Map<String, Value> = mail.tags.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    event.insert("email".to_owned(), json!(recipient));
    event.insert("timestamp".to_owned(), json!(chrono::Utc::now().timestamp()));
    event.insert("event".to_owned(), json!(name));
    event.insert("smtp-id".to_owned(), json!(format!("<{}@ismtpd-sink.example>", mail.message_id)));
    event.insert("sg_event_id".to_owned(), json!(URL_SAFE_NO_PAD.encode(uuid::Uuid::now_v7().as_bytes())));
    event.insert("sg_message_id".to_owned(), json!(sg_message_id(mail, at, recipient)));
    if !mail.labels.is_empty() {
        event.insert("category".to_owned(), json!(mail.labels));
    }
    if let Value::Object(details) = details {
        event.extend(details);
    }
    Value::Object(event)
}

/// The message id is a prefix only, and the suffix has had several forms over the years, so both of them occur here:
/// which one follows from the recipient, the same for all events of a mail.
fn sg_message_id(mail: &Mail, at: usize, recipient: &str) -> String {
    let form = if recipient.len().is_multiple_of(2) { "filterdrecv-7d9f-sink-1" } else { "recvd-5b6c-sink-1" };
    format!("{}.{form}-{:X}.{at}", mail.message_id, mail.received_at.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::{Draft, Provider};

    fn events_for(recipient: &str) -> Vec<Value> {
        let draft = Draft {
            recipients: vec![recipient.to_owned()],
            tags: [("delivery_id", "dlv_1"), ("event", "forged")].map(|(n, v)| (n.to_owned(), v.to_owned())).into(),
            ..Draft::default()
        };
        let mail = draft.into_mail(Provider::SendGrid, "abc123".to_owned(), chrono::Utc::now());
        let posts = after_acceptance(&mail);
        serde_json::from_slice(&posts[0].body).unwrap()
    }

    fn names(recipient: &str) -> Vec<String> {
        events_for(recipient).iter().map(|event| event["event"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn simulated_recipients_get_their_fate() {
        assert_eq!(names("ada@example.com"), ["processed", "delivered"]);
        assert_eq!(names("bounce@simulator.example"), ["processed", "bounce"]);
        assert_eq!(names("complaint@simulator.example"), ["processed", "delivered", "spamreport"]);
    }

    #[test]
    fn ses_02_sendgrid_takes_a_non_ascii_local_part_and_drops_it_later() {
        assert_eq!(names("søren@example.test"), ["dropped"]);
    }

    #[test]
    fn sg_02_the_message_id_is_a_prefix_with_changing_suffixes() {
        for recipient in ["even@example.co", "odd@example.com"] {
            let events = events_for(recipient);
            let ids: Vec<&str> = events.iter().map(|event| event["sg_message_id"].as_str().unwrap()).collect();
            assert!(
                ids.iter().all(|id| id.split('.').next() == Some("abc123") && id.len() > "abc123.".len()),
                "{ids:?}"
            );
        }
        assert!(events_for("even@example.co").iter().all(|event| event["delivery_id"] == "dlv_1"));
    }
}
