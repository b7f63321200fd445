//! `ReceiveMessage`, `DeleteMessageBatch`, `ChangeMessageVisibilityBatch`, and what is counted.

use super::{connected, failures, messages};
use crate::fake_aws::{Reply, failed, ids, taken};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use waybill_core::ports::{EntryError, Queue, QueueName, Receipt};

const QUEUE: QueueName = QueueName::Delivery;
const MINUTE: Duration = Duration::from_secs(60);

fn receipts(count: usize) -> Vec<Receipt> {
    (0..count).map(|n| Receipt(format!("r{n}"))).collect()
}

fn received(id: &str) -> Value {
    json!({
        "MessageId": id, "ReceiptHandle": format!("r-{id}"), "Body": "{}",
        "Attributes": {"ApproximateReceiveCount": "2", "SentTimestamp": "1764547200123"},
        "MessageAttributes": {
            "b": {"DataType": "String", "StringValue": "2"}, "a": {"DataType": "String", "StringValue": "1"},
            "binary": {"DataType": "Binary", "BinaryValue": "AAE="},
        },
    })
}

#[tokio::test]
async fn a_message_is_read_whole() {
    let (fake, queue) = connected().await;
    fake.on("ReceiveMessage", |_| Reply::Json(json!({"Messages": [received("one")]})));
    let got = queue.receive(QUEUE, 10, Duration::from_millis(1_001), Duration::from_millis(59_001)).await.unwrap();
    assert_eq!(got.len(), 1);
    let message = &got[0];
    assert_eq!((message.id.as_str(), message.receipt.0.as_str(), message.body.as_str()), ("one", "r-one", "{}"));
    assert_eq!((message.receive_count, message.sent_at.timestamp_millis()), (2, 1_764_547_200_123));
    assert_eq!(message.attributes, [("a".into(), "1".into()), ("b".into(), "2".into())]);
    let request = &fake.calls("ReceiveMessage")[0];
    assert_eq!(request["MaxNumberOfMessages"], 10);
    assert_eq!((&request["WaitTimeSeconds"], &request["VisibilityTimeout"]), (&json!(2), &json!(60)));
    assert_eq!(request["MessageAttributeNames"], json!(["All"]));
    assert_eq!(request["MessageSystemAttributeNames"], json!(["ApproximateReceiveCount", "SentTimestamp"]));
}

#[tokio::test]
async fn sqs_08_a_message_with_a_hole_is_left_alone_and_its_neighbours_go_on() {
    let (fake, queue) = connected().await;
    fake.on("ReceiveMessage", |_| {
        let without = |field: &str| {
            let mut message = received("bad");
            message.as_object_mut().unwrap().remove(field);
            message
        };
        let mut odd = received("odd");
        odd["Attributes"]["ApproximateReceiveCount"] = "many".into();
        let bad = ["MessageId", "ReceiptHandle", "Body", "Attributes"].map(without);
        let all: Vec<Value> = bad.into_iter().chain([odd, received("good")]).collect();
        Reply::Json(json!({"Messages": all}))
    });
    let got = queue.receive(QUEUE, 10, Duration::ZERO, MINUTE).await.unwrap();
    assert_eq!(got.iter().map(|m| m.id.as_str()).collect::<Vec<_>>(), ["good"]);
    assert!(fake.calls("DeleteMessageBatch").is_empty());
}

#[tokio::test]
async fn quotas_of_a_poll_are_kept() {
    let (fake, queue) = connected().await;
    queue.receive(QUEUE, 100, Duration::from_secs(600), MINUTE).await.unwrap();
    queue.receive(QUEUE, 0, Duration::ZERO, Duration::ZERO).await.unwrap();
    let requests = fake.calls("ReceiveMessage");
    assert_eq!((&requests[0]["MaxNumberOfMessages"], &requests[0]["WaitTimeSeconds"]), (&json!(10), &json!(20)));
    assert_eq!((&requests[1]["MaxNumberOfMessages"], &requests[1]["WaitTimeSeconds"]), (&json!(1), &json!(0)));
    assert!(queue.receive(QUEUE, 1, Duration::ZERO, Duration::from_secs(43_201)).await.is_err());
    assert_eq!(fake.calls("ReceiveMessage").len(), 2);
}

#[tokio::test]
async fn a_poll_that_fails_is_asked_once_and_one_that_hangs_ends() {
    let (fake, queue) = connected().await;
    for reply in [|| Reply::Error(503, "ServiceUnavailable"), || Reply::Error(400, "OverLimit"), || Reply::BreakOff] {
        fake.on("ReceiveMessage", move |_| reply());
        let before = fake.call_count();
        assert!(queue.receive(QUEUE, 10, Duration::ZERO, MINUTE).await.is_err());
        assert_eq!(fake.call_count() - before, 1);
    }
    fake.on("ReceiveMessage", |_| Reply::Hang);
    let begin = Instant::now();
    let error = queue.receive(QUEUE, 10, Duration::from_secs(1), MINUTE).await.unwrap_err();
    assert_eq!(error.to_string(), "queue request failed: no answer within the time-out");
    assert!((5..12).contains(&begin.elapsed().as_secs()), "longer than the poll: {:?}", begin.elapsed());
}

#[tokio::test]
async fn expired_receipts_are_stale_and_their_neighbours_are_deleted() {
    let (fake, queue) = connected().await;
    fake.on("DeleteMessageBatch", |body| {
        if ids(body)[0] != "0" {
            return Reply::Well;
        }
        let expired = json!({
            "Id": "2", "Code": "InvalidParameterValue", "SenderFault": true,
            "Message": "Value r2 for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.",
        });
        let bad = [failed("1", "ReceiptHandleIsInvalid", true), expired, failed("3", "InternalError", false)];
        let good: Vec<Value> = ["0", "5", "6", "7", "8", "9"].map(taken).into();
        Reply::Json(json!({"Successful": good, "Failed": bad}))
    });
    let results = queue.delete_batch(QUEUE, &receipts(25)).await.unwrap();
    let stale: Vec<usize> = (0..25).filter(|i| results[*i] == Err(EntryError::StaleReceipt)).collect();
    assert_eq!(stale, [1, 2]);
    assert_eq!(failures(&results), (vec![3, 4], vec![]), "4 is not mentioned");
    assert_eq!(fake.calls("DeleteMessageBatch").len(), 3);
}

#[tokio::test]
async fn a_nonsense_receipt_costs_only_itself_even_where_the_whole_request_is_refused() {
    let (fake, queue) = connected().await;
    fake.on("DeleteMessageBatch", |body| {
        let nonsense = body["Entries"].as_array().unwrap().iter().any(|entry| entry["ReceiptHandle"] == "nonsense");
        if nonsense { Reply::Error(400, "ReceiptHandleIsInvalid") } else { Reply::Well }
    });
    let mut some = receipts(10);
    some[4] = Receipt("nonsense".into());
    some[5] = Receipt(String::new());
    let results = queue.delete_batch(QUEUE, &some).await.unwrap();
    let bad: Vec<usize> = (0..10).filter(|i| results[*i].is_err()).collect();
    assert_eq!(bad, [4, 5]);
    assert!(bad.iter().all(|i| results[*i] == Err(EntryError::StaleReceipt)));
}

#[tokio::test]
async fn visibility_is_changed_in_tens_with_an_answer_for_each() {
    let (fake, queue) = connected().await;
    fake.on("ChangeMessageVisibilityBatch", |body| {
        if ids(body)[0] != "0" {
            return Reply::Error(400, "RequestThrottled");
        }
        let good: Vec<Value> = ids(body)[1..].iter().map(|id| json!({"Id": id})).collect();
        Reply::Json(json!({"Successful": good, "Failed": [failed("0", "MessageNotInflight", true)]}))
    });
    let mut entries: Vec<_> = receipts(12).into_iter().map(|receipt| (receipt, Duration::from_millis(1_500))).collect();
    entries[11].1 = Duration::from_secs(43_201);
    let results = queue.change_visibility_batch(QUEUE, &entries).await.unwrap();
    assert_eq!(results[0], Err(EntryError::StaleReceipt));
    assert_eq!(failures(&results), (vec![10], vec![11]));
    let requests = fake.calls("ChangeMessageVisibilityBatch");
    assert_eq!(requests.len(), 2);
    let first = requests.iter().find(|request| ids(request)[0] == "0").unwrap();
    assert_eq!(first["Entries"][0], json!({"Id": "0", "ReceiptHandle": "r0", "VisibilityTimeout": 2}));
}

#[tokio::test]
async fn requests_are_counted_as_sqs_bills_them() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let shown = recorder.handle();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let (fake, queue) = connected().await;
    assert_eq!(queue.requests(), 16, "address and attributes of eight queues");
    queue.send_batch(QUEUE, &messages(25)).await.unwrap();
    assert_eq!(queue.requests(), 19);
    queue.receive(QUEUE, 10, Duration::ZERO, MINUTE).await.unwrap();
    queue.delete_batch(QUEUE, &receipts(25)).await.unwrap();
    let depth = queue.depth(QUEUE).await.unwrap();
    assert_eq!((depth.visible, depth.in_flight, depth.delayed, depth.oldest_age), (3, 2, 1, None));
    queue.send_batch(QUEUE, &[]).await.unwrap();
    queue.delete_batch(QUEUE, &[]).await.unwrap();
    assert_eq!((queue.requests(), fake.call_count()), (24, 24), "each HTTP request, and nothing else");
    let text = shown.render();
    for line in [
        "waybill_sqs_requests_total{action=\"SendMessageBatch\"} 3",
        "waybill_sqs_requests_total{action=\"ReceiveMessage\"} 1",
        "waybill_sqs_requests_total{action=\"DeleteMessageBatch\"} 3",
        "waybill_sqs_empty_receives_total 1",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}
