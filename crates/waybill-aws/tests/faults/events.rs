//! EventBridge and SNS.

use crate::fake_aws::{FakeAws, Reply};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use waybill_aws::{BusError, BusEvent, EventBridgeBus, SnsAlerts};
use waybill_core::ports::{Alert, AlertCause, AlertSink};

fn event(n: usize) -> BusEvent {
    BusEvent { source: "waybill".into(), detail_type: "job.done".into(), detail: format!("{{\"n\":{n}}}") }
}

async fn bus() -> (FakeAws, EventBridgeBus) {
    let fake = FakeAws::start().await;
    let bus = EventBridgeBus::new(&fake.config().await, "orders");
    (fake, bus)
}

#[tokio::test]
async fn events_go_in_tens_and_each_has_its_own_result() {
    let (fake, bus) = bus().await;
    fake.on("PutEvents", |body| {
        let answer = |event: &Value| match event["Detail"].as_str().unwrap() {
            "{\"n\":3}" => json!({"ErrorCode": "InternalFailure", "ErrorMessage": "m"}),
            "{\"n\":11}" => json!({"ErrorCode": "NotAuthorizedForSourceException", "ErrorMessage": "m"}),
            detail => json!({"EventId": detail}),
        };
        let entries: Vec<Value> = body["Entries"].as_array().unwrap().iter().map(answer).collect();
        Reply::Json(json!({"FailedEntryCount": 1, "Entries": entries}))
    });
    let mut events: Vec<BusEvent> = (0..25).map(event).collect();
    events[20].detail = format!("{{\"x\":\"{}\"}}", "x".repeat(1_000_000));
    let results = bus.publish(&events).await;
    assert_eq!(results.len(), 25);
    for (n, result) in results.iter().enumerate() {
        match n {
            3 => assert_eq!(*result, Err(BusError::Temporary("InternalFailure: m".into()))),
            11 => assert_eq!(*result, Err(BusError::Permanent("NotAuthorizedForSourceException: m".into()))),
            20 => assert!(matches!(result, Err(BusError::Permanent(text)) if text.contains("999999")), "{result:?}"),
            _ => assert_eq!(*result, Ok(format!("{{\"n\":{n}}}"))),
        }
    }
    let requests = fake.calls("PutEvents");
    assert_eq!(requests.len(), 3);
    let first = &requests[0]["Entries"][0];
    assert_eq!((&first["EventBusName"], &first["Source"]), (&json!("orders"), &json!("waybill")));
    assert_eq!(first["DetailType"], "job.done");
}

#[tokio::test]
async fn a_lost_or_refused_request_is_never_repeated_by_the_sdk() {
    let (fake, bus) = bus().await;
    let events: Vec<BusEvent> = (0..3).map(event).collect();
    for reply in [
        || Reply::Error(500, "InternalException"),
        || Reply::Error(400, "ThrottlingException"),
        || Reply::Error(400, "AccessDeniedException"),
        || Reply::BreakOff,
    ] {
        fake.on("PutEvents", move |_| reply());
        let before = fake.call_count();
        let results = bus.publish(&events).await;
        assert!(results.len() == 3 && results.iter().all(|r| matches!(r, Err(BusError::Temporary(_)))), "{results:?}");
        assert_eq!(fake.call_count() - before, 1);
    }
}

#[tokio::test]
async fn one_event_that_spoils_the_request_costs_only_itself() {
    let (fake, bus) = bus().await;
    fake.on("PutEvents", |body| {
        let spoilt = body["Entries"].as_array().unwrap().iter().any(|event| event["Detail"] == "{\"n\":2}");
        if spoilt { Reply::Error(400, "ValidationException") } else { Reply::Well }
    });
    let results = bus.publish(&(0..5).map(event).collect::<Vec<_>>()).await;
    let bad: Vec<usize> = (0..5).filter(|n| results[*n].is_err()).collect();
    assert_eq!(bad, [2]);
    assert!(matches!(results[2], Err(BusError::Permanent(_))));
}

fn alert() -> Alert {
    Alert {
        cause: AlertCause::ProviderFailing,
        key: "ses".into(),
        count: 7,
        message: "provider ses fails".into(),
        command: "waybill queues".into(),
    }
}

#[tokio::test]
async fn an_alert_is_published_and_a_failing_topic_hurts_nobody() {
    let fake = FakeAws::start().await;
    let topic = "arn:aws:sns:eu-central-1:000000000000:alerts";
    let alerts = SnsAlerts::new(&fake.config().await, topic);
    alerts.raise(&alert()).await;
    let published = &fake.calls("Publish")[0];
    assert_eq!(
        (&published["TopicArn"], &published["Subject"]),
        (&json!(topic), &json!("Waybill: provider_failing (7 in all) ses"))
    );
    assert!(published["Message"].as_str().unwrap().contains("next: waybill queues"));
    fake.on("Publish", |_| Reply::Error(500, "InternalError"));
    alerts.raise(&alert()).await;
    assert_eq!(fake.calls("Publish").len(), 2, "asked once");
    fake.on("Publish", |_| Reply::Hang);
    let begin = Instant::now();
    tokio::time::timeout(Duration::from_secs(20), alerts.raise(&alert())).await.expect("gives up by itself");
    assert!((4..10).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
}
