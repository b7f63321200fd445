//! Event publishing: what a configuration set sends through SNS with raw message delivery, so the body is the event
//! itself. <https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns-contents.html>

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value, json};

use crate::{
    events::{Fate, Post, fate_of},
    mail::Mail,
};

const TOPIC: &str = "arn:aws:sns:us-east-1:000000000000:waybill-sink";

/// `Send` first, then what became of each recipient.
pub(super) fn after_acceptance(mail: &Mail) -> Vec<Post> {
    let about = mail_object(mail);
    let mut posts = vec![post("Send", &about, "send", json!({}))];
    for recipient in &mail.recipients {
        match fate_of(recipient) {
            Fate::Delivered => posts.push(post("Delivery", &about, "delivery", delivery(recipient))),
            Fate::Bounced => posts.push(post("Bounce", &about, "bounce", bounce(recipient))),
            Fate::Complained => {
                posts.push(post("Delivery", &about, "delivery", delivery(recipient)));
                posts.push(post("Complaint", &about, "complaint", complaint(recipient)));
            }
            // Refused before acceptance here; nothing to report.
            Fate::Dropped => {}
        }
    }
    posts
}

fn post(event_type: &str, about: &Value, detail_name: &str, detail: Value) -> Post {
    let event = json!({ "eventType": event_type, "mail": about, detail_name: detail });
    Post {
        headers: vec![
            ("content-type", "text/plain; charset=UTF-8".to_owned()),
            ("user-agent", "Amazon Simple Notification Service Agent".to_owned()),
            ("x-amz-sns-message-type", "Notification".to_owned()),
            ("x-amz-sns-message-id", uuid::Uuid::now_v7().to_string()),
            ("x-amz-sns-topic-arn", TOPIC.to_owned()),
            ("x-amz-sns-rawdelivery", "true".to_owned()),
        ],
        body: event.to_string().into(),
        svix_id: None,
    }
}

fn mail_object(mail: &Mail) -> Value {
    let mut tags: Map<String, Value> = mail.tags.iter().map(|(name, value)| (name.clone(), json!([value]))).collect();
    tags.insert("ses:configuration-set".to_owned(), json!(mail.labels));
    let domain = mail.from.rsplit_once('@').map_or("", |(_, domain)| domain.trim_end_matches('>'));
    tags.insert("ses:from-domain".to_owned(), json!([domain]));
    tags.insert("ses:source-ip".to_owned(), json!(["127.0.0.1"]));
    let headers: Vec<Value> =
        mail.headers.iter().map(|header| json!({ "name": header.name, "value": header.value })).collect();
    json!({
        "timestamp": timestamp(mail.received_at),
        "source": mail.from,
        "sendingAccountId": "000000000000",
        "messageId": mail.message_id,
        "destination": mail.recipients,
        "headersTruncated": false,
        "headers": headers,
        "commonHeaders": { "from": [mail.from], "to": mail.recipients, "messageId": mail.message_id, "subject": mail.subject },
        "tags": tags,
    })
}

fn timestamp(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn now() -> String {
    timestamp(Utc::now())
}

fn delivery(recipient: &str) -> Value {
    json!({
        "timestamp": now(),
        "processingTimeMillis": 12,
        "recipients": [recipient],
        "smtpResponse": "250 2.0.0 OK",
        "reportingMTA": "a8-1.smtp-out.sink.example",
        "remoteMtaIp": "127.0.0.1",
    })
}

fn bounce(recipient: &str) -> Value {
    json!({
        "bounceType": "Permanent",
        "bounceSubType": "General",
        "bouncedRecipients": [{
            "emailAddress": recipient,
            "action": "failed",
            "status": "5.1.1",
            "diagnosticCode": "smtp; 550 5.1.1 user unknown",
        }],
        "timestamp": now(),
        "feedbackId": uuid::Uuid::now_v7().to_string(),
        "reportingMTA": "dns; a8-1.smtp-out.sink.example",
    })
}

fn complaint(recipient: &str) -> Value {
    json!({
        "complainedRecipients": [{ "emailAddress": recipient }],
        "timestamp": now(),
        "feedbackId": uuid::Uuid::now_v7().to_string(),
        "complaintSubType": null,
        "complaintFeedbackType": "abuse",
        "userAgent": "Waybill sink",
    })
}
