//! Start-up: one clear error that names the queue and what to do.

use crate::fake_aws::{FakeAws, Reply, attributes};
use serde_json::json;
use waybill_aws::{SqsConfig, SqsQueue};

async fn refusal(fake: &FakeAws) -> String {
    match SqsQueue::connect(&fake.config().await, SqsConfig::new("waybill")).await {
        Ok(_) => panic!("connected"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_missing_queue_is_named_with_what_to_do() {
    let fake = FakeAws::start().await;
    fake.on("GetQueueUrl", |body| {
        if body["QueueName"] == "waybill-intake-dead" { Reply::Error(400, "QueueDoesNotExist") } else { Reply::Well }
    });
    let text = refusal(&fake).await;
    assert!(text.starts_with("queue waybill-intake-dead: does not exist") && text.contains("AWS_REGION"), "{text}");
}

#[tokio::test]
async fn missing_rights_are_named() {
    let fake = FakeAws::start().await;
    fake.on("GetQueueAttributes", |_| Reply::Error(403, "AccessDenied"));
    let text = refusal(&fake).await;
    assert!(text.starts_with("queue waybill-") && text.contains("sqs:GetQueueAttributes"), "{text}");
}

#[tokio::test]
async fn sqs_06_queues_that_lose_messages_are_refused() {
    let fake = FakeAws::start().await;
    fake.on("GetQueueAttributes", |body| {
        let url = body["QueueUrl"].as_str().unwrap();
        let mut attributes = attributes(url);
        if url.ends_with("waybill-feedback-dead") {
            attributes["MessageRetentionPeriod"] = "345600".into();
        }
        Reply::Json(json!({"Attributes": attributes}))
    });
    let text = refusal(&fake).await;
    assert!(text.starts_with("queue waybill-feedback: keeps messages for 345600 s"), "{text}");
    fake.on("GetQueueAttributes", |body| {
        let mut attributes = attributes(body["QueueUrl"].as_str().unwrap());
        attributes.as_object_mut().unwrap().remove("RedrivePolicy");
        Reply::Json(json!({"Attributes": attributes}))
    });
    let text = refusal(&fake).await;
    assert!(text.contains("has no RedrivePolicy"), "{text}");
}

#[tokio::test]
async fn nobody_there_is_said_within_the_connect_time_out() {
    let mut fake = FakeAws::start().await;
    fake.url = "http://127.0.0.1:1".into();
    let text = refusal(&fake).await;
    assert!(text.starts_with("queue waybill-main: could not be asked"), "{text}");
}
