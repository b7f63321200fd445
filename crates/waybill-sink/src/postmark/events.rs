//! Webhooks: one record per request, unsigned. <https://postmarkapp.com/developer/webhooks/webhooks-overview>

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::{
    events::{Fate, Post, fate_of},
    mail::Mail,
};

/// What became of each recipient; Postmark has no event for having taken a mail.
pub(super) fn after_acceptance(mail: &Mail) -> Vec<Post> {
    let mut posts = Vec::new();
    for recipient in &mail.recipients {
        match fate_of(recipient) {
            Fate::Delivered => posts.push(delivery(mail, recipient)),
            Fate::Bounced => posts.push(bounce(mail, recipient, "Bounce", "HardBounce", 1)),
            Fate::Complained => {
                posts.push(delivery(mail, recipient));
                posts.push(bounce(mail, recipient, "SpamComplaint", "SpamComplaint", 100_001));
            }
            // Refused before acceptance here; nothing to report.
            Fate::Dropped => {}
        }
    }
    posts
}

fn delivery(mail: &Mail, recipient: &str) -> Post {
    let record = json!({
        "RecordType": "Delivery",
        "Recipient": recipient,
        "DeliveredAt": timestamp(Utc::now()),
        "Details": "smtp;250 2.0.0 OK",
        "Tag": "",
    });
    post(mail, record)
}

fn bounce(mail: &Mail, recipient: &str, record_type: &str, kind: &str, code: u32) -> Post {
    let record = json!({
        "RecordType": record_type,
        "ID": mail.received_at.timestamp_micros(),
        "Type": kind,
        "TypeCode": code,
        "Name": kind,
        "Email": recipient,
        "From": mail.from,
        "Subject": mail.subject,
        "BouncedAt": timestamp(Utc::now()),
        "Description": "The server was unable to deliver your message",
        "Details": format!("smtp;550 5.1.1 <{recipient}> user unknown"),
        "DumpAvailable": false,
        "Inactive": true,
        "CanActivate": code == 1,
    });
    post(mail, record)
}

fn post(mail: &Mail, mut record: Value) -> Post {
    record["MessageID"] = json!(mail.message_id);
    record["ServerID"] = json!(1);
    record["MessageStream"] = json!(mail.labels.first());
    record["Metadata"] = json!(mail.tags);
    Post {
        headers: vec![("content-type", "application/json".to_owned()), ("user-agent", "Postmark".to_owned())],
        body: record.to_string().into(),
        svix_id: None,
    }
}

/// Seven digits of a second, as .NET writes them.
fn timestamp(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%dT%H:%M:%S%.6f0Z").to_string()
}
