//! Webhooks: one event per request, signed by Svix. <https://resend.com/docs/dashboard/webhooks/event-types>

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value, json};

use crate::{
    events::{Fate, Post, fate_of},
    mail::Mail,
};

/// `email.sent` first, then what became of each recipient.
pub(super) fn after_acceptance(mail: &Mail) -> Vec<Post> {
    let mut posts = vec![post(mail, "email.sent", json!({}))];
    for recipient in &mail.recipients {
        match fate_of(recipient) {
            Fate::Delivered => posts.push(post(mail, "email.delivered", json!({}))),
            Fate::Bounced => posts.push(post(mail, "email.bounced", bounce())),
            Fate::Complained => {
                posts.push(post(mail, "email.delivered", json!({})));
                posts.push(post(mail, "email.complained", json!({})));
            }
            // Refused before acceptance here; nothing to report.
            Fate::Dropped => {}
        }
    }
    posts
}

fn bounce() -> Value {
    json!({ "bounce": {
        "type": "Permanent",
        "subType": "NoEmail",
        "message": "The recipient's mail server permanently rejected the email.",
        "diagnosticCode": ["smtp; 550 5.1.1 user unknown"],
    } })
}

fn post(mail: &Mail, name: &str, details: Value) -> Post {
    let tags: Map<String, Value> = mail.tags.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let mut data = json!({
        "email_id": mail.message_id,
        "created_at": timestamp(mail.received_at),
        "from": mail.from,
        "to": mail.recipients,
        "subject": mail.subject,
        // An object, although the request has an array.
        "tags": tags,
    });
    if let (Value::Object(data), Value::Object(details)) = (&mut data, details) {
        data.extend(details);
    }
    let event = json!({ "type": name, "created_at": timestamp(Utc::now()), "data": data });
    Post {
        headers: vec![
            ("content-type", "application/json".to_owned()),
            ("user-agent", "Svix-Webhooks/1.24.0 (sender-sink)".to_owned()),
        ],
        body: event.to_string().into(),
        svix_id: Some(format!("msg_{}", uuid::Uuid::now_v7().simple())),
    }
}

fn timestamp(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}
