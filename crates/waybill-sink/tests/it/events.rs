use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use waybill_sink::{EventsTarget, SinkConfig};

use crate::common::{TestSink, eventually, sendgrid_mail, ses_mail};

/// A receiver that fails its first requests, as one that is still starting does.
#[derive(Clone, Default)]
struct Receiver {
    state: Arc<Mutex<Received>>,
}

#[derive(Default)]
struct Received {
    failures_left: usize,
    refused: usize,
    events: Vec<(HeaderMap, Value)>,
}

impl Receiver {
    async fn start(failures: usize) -> (Receiver, String) {
        let receiver = Receiver::default();
        receiver.state.lock().expect("not poisoned").failures_left = failures;
        let router = Router::new().route("/in", post(receive)).with_state(receiver.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(axum::serve(listener, router).into_future());
        (receiver, format!("http://hook:s%40cret@{address}/in"))
    }

    fn count(&self) -> usize {
        self.state.lock().expect("not poisoned").events.len()
    }

    fn events(&self) -> Vec<(HeaderMap, Value)> {
        self.state.lock().expect("not poisoned").events.clone()
    }
}

async fn receive(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let mut state = receiver.state.lock().expect("not poisoned");
    if state.failures_left > 0 {
        state.failures_left -= 1;
        state.refused += 1;
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    let body = serde_json::from_slice(&body).expect("JSON");
    state.events.push((headers, body));
    StatusCode::OK
}

async fn sink_with(ses: Option<&str>, sendgrid: Option<&str>) -> TestSink {
    let events = EventsTarget::new(ses, sendgrid).expect("loopback");
    TestSink::with(SinkConfig { events: Some(events), ..SinkConfig::default() }).await
}

#[tokio::test]
async fn ses_posts_send_then_delivery_like_raw_sns() {
    let (receiver, url) = Receiver::start(0).await;
    let sink = sink_with(Some(&url), None).await;
    let answer: Value = sink.send_ses(&ses_mail("dlv_1")).await.json().await.unwrap();
    eventually("two events", || receiver.count() == 2).await;
    let events = receiver.events();
    let types: Vec<&str> = events.iter().map(|(_, event)| event["eventType"].as_str().unwrap()).collect();
    assert_eq!(types, ["Send", "Delivery"]);
    for (headers, event) in &events {
        assert!(headers["content-type"].to_str().unwrap().starts_with("text/plain"));
        assert_eq!(headers["x-amz-sns-message-type"], "Notification");
        assert_eq!(headers["authorization"], "Basic aG9vazpzQGNyZXQ=");
        assert_eq!(event["mail"]["messageId"], answer["MessageId"]);
        assert_eq!(event["mail"]["tags"]["delivery_id"], json!(["dlv_1"]));
        assert_eq!(event["mail"]["tags"]["ses:configuration-set"], json!(["waybill"]));
        assert_eq!(event["mail"]["destination"], json!(["ada@example.com"]));
    }
    assert_eq!(events[0].1["send"], json!({}));
    assert_eq!(events[1].1["delivery"]["recipients"], json!(["ada@example.com"]));
}

#[tokio::test]
async fn sendgrid_posts_an_array_with_flattened_arguments() {
    let (receiver, url) = Receiver::start(0).await;
    let sink = sink_with(None, Some(&url)).await;
    let answer = sink.send_sendgrid(&sendgrid_mail("dlv_1")).await;
    let id = answer.headers()["x-message-id"].to_str().unwrap().to_owned();
    eventually("an event batch", || receiver.count() == 1).await;
    let (headers, batch) = receiver.events().remove(0);
    assert_eq!(headers["content-type"], "application/json");
    let names: Vec<&str> = batch.as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["processed", "delivered"]);
    for event in batch.as_array().unwrap() {
        assert_eq!((&event["delivery_id"], &event["job_id"]), (&json!("dlv_1"), &json!("job_1")));
        assert!(event["sg_message_id"].as_str().unwrap().starts_with(&format!("{id}.")));
        assert!(event["timestamp"].is_i64() && event["smtp-id"].is_string());
    }
    assert_ne!(batch[0]["sg_event_id"], batch[1]["sg_event_id"]);
}

#[tokio::test]
async fn simulated_recipients_bounce_and_complain_at_ses() {
    let (receiver, url) = Receiver::start(0).await;
    let sink = sink_with(Some(&url), None).await;
    for (recipient, expected) in [
        ("bounce+1@simulator.example", vec!["Send", "Bounce"]),
        ("complaint@simulator.example", vec!["Send", "Delivery", "Complaint"]),
    ] {
        let before = receiver.count();
        let mut mail = ses_mail("dlv_1");
        mail["Destination"]["ToAddresses"] = json!([recipient]);
        sink.send_ses(&mail).await;
        eventually("the events", || receiver.count() == before + expected.len()).await;
        let events = receiver.events();
        let types: Vec<&str> = events[before..].iter().map(|(_, event)| event["eventType"].as_str().unwrap()).collect();
        assert_eq!(types, expected);
    }
    let bounce = receiver.events().remove(1).1["bounce"].clone();
    assert_eq!((&bounce["bounceType"], &bounce["bounceSubType"]), (&json!("Permanent"), &json!("General")));
    assert_eq!(bounce["bouncedRecipients"][0]["emailAddress"], "bounce+1@simulator.example");
}

#[tokio::test]
async fn events_are_retried_until_the_receiver_takes_them_and_keep_their_order() {
    let (receiver, url) = Receiver::start(3).await;
    let sink = sink_with(Some(&url), None).await;
    sink.send_ses(&ses_mail("dlv_1")).await;
    eventually("both events", || receiver.count() == 2).await;
    assert_eq!(receiver.state.lock().unwrap().refused, 3);
    assert_eq!(receiver.events()[0].1["eventType"], "Send");
    let events = sink.get_json("/counts").await["events"].clone();
    assert_eq!(events, json!({ "posted": 2, "retried": 3, "dropped": 0, "waiting": 0 }));
}

#[tokio::test]
async fn a_swallowed_answer_still_has_its_events_and_a_missing_id_has_none() {
    let (receiver, url) = Receiver::start(0).await;
    let sink = sink_with(Some(&url), None).await;
    sink.script(json!([
        { "provider": "ses", "fault": "no_message_id", "count": 1 },
        { "provider": "ses", "fault": "timeout_after_accept", "count": 1 },
    ]))
    .await;
    sink.send_ses(&ses_mail("dlv_none")).await;
    let held = sink.ses_request(&ses_mail("dlv_held")).timeout(Duration::from_millis(200)).send().await;
    assert!(held.unwrap_err().is_timeout());
    eventually("the events of the held mail", || receiver.count() == 2).await;
    for (_, event) in receiver.events() {
        assert_eq!(event["mail"]["tags"]["delivery_id"], json!(["dlv_held"]));
    }
}

#[tokio::test]
async fn a_target_can_be_set_and_switched_off_over_http() {
    let (receiver, url) = Receiver::start(0).await;
    let sink = TestSink::start().await;
    let set = |enabled: bool| json!({ "sendgrid_url": url, "delay_ms": 100, "enabled": enabled });
    assert_eq!(sink.put("/events-target", &set(true)).await.status(), 200);
    let shown = sink.get_json("/events-target").await;
    assert!(!shown.to_string().contains("s%40cret") && shown["delay_ms"] == 100, "{shown}");
    sink.send_sendgrid(&sendgrid_mail("dlv_1")).await;
    assert_eq!(receiver.count(), 0);
    eventually("the delayed events", || receiver.count() == 1).await;
    sink.send_sendgrid(&sendgrid_mail("dlv_2")).await;
    assert_eq!(sink.put("/events-target", &set(false)).await.status(), 200);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(receiver.count(), 1, "events that were waiting are swallowed");
    assert_eq!(sink.get_json("/counts").await["events"]["dropped"], 1);
}
