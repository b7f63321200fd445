//! `SendMessageBatch`.

use super::{connected, failures, message, messages};
use crate::fake_aws::{FakeAws, Reply, attributes, failed, ids, taken};
use serde_json::{Value, json};
use std::{collections::HashSet, time::Instant};
use waybill_aws::{SqsConfig, SqsQueue};
use waybill_core::ports::{EntryError, MAX_BATCH_BYTES, OutgoingMessage, Queue, QueueName};

const QUEUE: QueueName = QueueName::Delivery;

fn bytes(request: &Value) -> usize {
    request["Entries"].as_array().unwrap().iter().map(|e| e["MessageBody"].as_str().unwrap().len()).sum()
}

/// Answers every request well, but not the one that begins with this entry.
fn on_batch(fake: &FakeAws, first: &'static str, reply: impl Fn(&[String]) -> Reply + Send + Sync + 'static) {
    fake.on("SendMessageBatch", move |body| {
        let ids = ids(body);
        if ids[0] == first { reply(&ids) } else { Reply::Well }
    });
}

#[tokio::test]
async fn sqs_01_a_entries_that_failed_within_a_200_are_failures_of_these_entries_only() {
    let (fake, queue) = connected().await;
    on_batch(&fake, "370", |ids| {
        let good: Vec<Value> =
            ids.iter().filter(|id| !["373", "377"].contains(&id.as_str())).map(|id| taken(id)).collect();
        let bad = [failed("373", "InternalError", false), failed("377", "InvalidMessageContents", true)];
        Reply::Json(json!({"Successful": good, "Failed": bad}))
    });
    let results = queue.send_batch(QUEUE, &messages(10_000)).await.unwrap();
    assert_eq!(results.len(), 10_000);
    assert_eq!(failures(&results), (vec![373], vec![377]));
    assert_eq!(results[373], Err(EntryError::Temporary("InternalError: said the fake".into())));
    let sent: HashSet<String> = fake.calls("SendMessageBatch").iter().flat_map(ids).collect();
    assert_eq!((sent.len(), fake.calls("SendMessageBatch").len()), (10_000, 1_000), "each once");
}

#[tokio::test]
async fn sqs_01_b_an_entry_that_the_answer_does_not_mention_has_failed() {
    let (fake, queue) = connected().await;
    on_batch(&fake, "20", |ids| {
        let mut good: Vec<Value> = ids[..9].iter().map(|id| taken(id)).collect();
        good.push(taken("0"));
        good.push(taken("nobody"));
        Reply::Json(json!({"Successful": good, "Failed": [failed("24", "InternalError", false)]}))
    });
    let results = queue.send_batch(QUEUE, &messages(45)).await.unwrap();
    assert_eq!(failures(&results), (vec![24, 29], vec![]), "24 is in both lists, 29 in none");
    on_batch(&fake, "0", |_| Reply::Json(json!({})));
    let results = queue.send_batch(QUEUE, &messages(3)).await.unwrap();
    assert_eq!(failures(&results), (vec![0, 1, 2], vec![]));
}

#[tokio::test]
async fn sqs_01_c_a_lost_answer_is_asked_for_once_and_is_the_caller_s_to_repeat() {
    let (fake, queue) = connected().await;
    on_batch(&fake, "10", |_| Reply::BreakOff);
    let before = queue.requests();
    let results = queue.send_batch(QUEUE, &messages(25)).await.unwrap();
    assert_eq!(failures(&results), ((10..20).collect(), vec![]));
    assert_eq!(fake.calls("SendMessageBatch").len(), 3, "the SDK repeats nothing");
    assert_eq!(queue.requests() - before, 3);
}

#[tokio::test]
async fn whatever_is_wrong_with_the_service_or_our_rights_is_temporary_for_each_entry() {
    let (fake, queue) = connected().await;
    let errors = [
        (400, "RequestThrottled"),
        (400, "ThrottlingException"),
        (403, "AccessDenied"),
        (400, "QueueDoesNotExist"),
        (400, "KmsThrottled"),
        (500, "InternalFailure"),
        (503, "ServiceUnavailable"),
        (500, "InvalidParameterValue"),
        (400, "SomethingNew"),
    ];
    for (status, code) in errors {
        fake.on("SendMessageBatch", move |_| Reply::Error(status, code));
        let before = fake.call_count();
        let results = queue.send_batch(QUEUE, &messages(2)).await.unwrap();
        assert_eq!(results, vec![Err(EntryError::Temporary(format!("{code}: said the fake"))); 2]);
        assert_eq!(fake.call_count() - before, 1, "{code} is not repeated here");
    }
    fake.on("SendMessageBatch", |_| Reply::Json(json!("not what SQS says")));
    assert_eq!(failures(&queue.send_batch(QUEUE, &messages(2)).await.unwrap()), (vec![0, 1], vec![]));
}

#[tokio::test]
async fn nobody_there_or_no_answer_is_temporary_within_the_time_out() {
    let (fake, queue) = connected().await;
    fake.on("SendMessageBatch", |_| Reply::Hang);
    let begin = Instant::now();
    let results = queue.send_batch(QUEUE, &messages(11)).await.unwrap();
    assert_eq!(failures(&results), ((0..11).collect(), vec![]));
    assert_eq!(results[0], Err(EntryError::Temporary("no answer within the time-out".into())));
    assert!((9..20).contains(&begin.elapsed().as_secs()), "{:?}", begin.elapsed());
    assert_eq!(fake.calls("SendMessageBatch").len(), 2);
}

#[tokio::test]
async fn sqs_02_a_d_requests_stay_below_a_mebibyte_of_octets() {
    let (fake, queue) = connected().await;
    let many: Vec<_> = (0..10).map(|n| message(format!("{n}").repeat(150 * 1024))).collect();
    assert_eq!(failures(&queue.send_batch(QUEUE, &many).await.unwrap()), (vec![], vec![]));
    // 300,000 characters of two octets each.
    let octets = [message("\u{e9}".repeat(300_000)), message("\u{e9}".repeat(300_000))];
    assert_eq!(failures(&queue.send_batch(QUEUE, &octets).await.unwrap()), (vec![], vec![]));
    let requests = fake.calls("SendMessageBatch");
    assert!(requests.iter().all(|request| bytes(request) <= MAX_BATCH_BYTES));
    assert_eq!(requests.len(), 4);
}

async fn with_small_queue() -> (FakeAws, SqsQueue) {
    let fake = FakeAws::start().await;
    fake.on("GetQueueAttributes", |body| {
        let mut attributes = attributes(body["QueueUrl"].as_str().unwrap());
        attributes["MaximumMessageSize"] = "262144".into();
        Reply::Json(json!({"Attributes": attributes}))
    });
    let queue = SqsQueue::connect(&fake.config().await, SqsConfig::new("waybill")).await.unwrap();
    (fake, queue)
}

#[tokio::test]
async fn sqs_02_b_a_queue_s_own_lower_limit_counts() {
    let (fake, queue) = with_small_queue().await;
    let three = [200_000, 200_000, 262_145].map(|n| message("x".repeat(n)));
    let results = queue.send_batch(QUEUE, &three).await.unwrap();
    assert_eq!(failures(&results), (vec![], vec![2]));
    assert!(results[2].as_ref().unwrap_err().to_string().contains("262145 bytes, the queue takes 262144"));
    let sizes: Vec<usize> = fake.calls("SendMessageBatch").iter().map(bytes).collect();
    assert_eq!(sizes, [200_000, 200_000]);
}

#[tokio::test]
async fn sqs_02_c_what_is_too_large_alone_is_refused_for_good_without_a_request() {
    let (fake, queue) = connected().await;
    let results = queue.send_batch(QUEUE, &[message("x".repeat(1_258_291))]).await.unwrap();
    assert_eq!(failures(&results), (vec![], vec![0]));
    assert!(fake.calls("SendMessageBatch").is_empty());
}

/// Somebody lowered the limit after our start: nothing was accepted, so it is sent again in halves.
#[tokio::test]
async fn sqs_02_a_batch_that_is_too_long_all_the_same_is_halved() {
    let (fake, queue) = connected().await;
    fake.on("SendMessageBatch", |body| {
        if bytes(body) > 300_000 { Reply::Error(400, "BatchRequestTooLong") } else { Reply::Well }
    });
    let mut ten: Vec<_> = (0..10).map(|_| message("x".repeat(90_000))).collect();
    ten[6] = message("x".repeat(300_001));
    assert_eq!(failures(&queue.send_batch(QUEUE, &ten).await.unwrap()), (vec![], vec![6]));
    let accepted = fake.calls("SendMessageBatch").into_iter().filter(|request| bytes(request) <= 300_000);
    let mut accepted: Vec<String> = accepted.flat_map(|request| ids(&request)).collect();
    accepted.sort();
    assert_eq!(accepted, ["0", "1", "2", "3", "4", "5", "7", "8", "9"], "each exactly once");
}

#[tokio::test]
async fn sqs_03_forbidden_characters_never_reach_the_wire_and_neighbours_go() {
    let (fake, queue) = connected().await;
    let attribute = OutgoingMessage { attributes: vec![("x-request-id".into(), "a\u{1}b".into())], ..message("x") };
    let messages = [message("a"), message("{\"name\":\"Ana\u{ffff}\"}"), attribute, message("\u{b}"), message("b")];
    assert_eq!(failures(&queue.send_batch(QUEUE, &messages).await.unwrap()), (vec![], vec![1, 2, 3]));
    let requests = fake.calls("SendMessageBatch");
    assert_eq!((requests.len(), ids(&requests[0]).len()), (1, 2));
}

/// Whatever else SQS may object to in one entry costs only that entry.
#[tokio::test]
async fn sqs_03_a_request_refused_for_one_entry_is_taken_without_it() {
    let (fake, queue) = connected().await;
    fake.on("SendMessageBatch", |body| {
        let poison = body["Entries"].as_array().unwrap().iter().any(|entry| entry["MessageBody"] == "poison");
        if poison { Reply::Error(400, "InvalidMessageContents") } else { Reply::Well }
    });
    let mut some = messages(30);
    some[17] = message("poison");
    assert_eq!(failures(&queue.send_batch(QUEUE, &some).await.unwrap()), (vec![], vec![17]));
}

#[tokio::test]
async fn sqs_09_every_entry_carries_a_group_that_sqs_takes() {
    let (fake, queue) = connected().await;
    let groups = ["ten_01h455vb4pex5vsknk084sn02q", "Acme GmbH & Co", "a\u{e7}ai", &"x".repeat(130)];
    let messages: Vec<_> =
        groups.iter().map(|g| OutgoingMessage { group: Some((*g).to_owned()), ..message("x") }).collect();
    assert_eq!(failures(&queue.send_batch(QUEUE, &messages).await.unwrap()), (vec![], vec![]));
    let sent = &fake.calls("SendMessageBatch")[0]["Entries"];
    assert_eq!(sent[0]["MessageGroupId"], groups[0]);
    let made: HashSet<&str> =
        sent.as_array().unwrap()[1..].iter().map(|entry| entry["MessageGroupId"].as_str().unwrap()).collect();
    assert!(made.len() == 3 && made.iter().all(|g| g.len() == 64 && g.is_ascii()), "{made:?}");
}

#[tokio::test]
async fn delays_attributes_and_bodies_travel_as_they_are() {
    let (fake, queue) = connected().await;
    let full = OutgoingMessage {
        body: "{\"v\":1}".into(),
        delay: std::time::Duration::from_millis(1_200),
        attributes: vec![("traceparent".into(), "00-ab".into())],
        group: None,
    };
    assert_eq!(queue.send_batch(QUEUE, &[full]).await.unwrap(), [Ok(())]);
    let request = &fake.calls("SendMessageBatch")[0];
    assert_eq!(request["QueueUrl"], "http://fake/waybill-delivery");
    assert_eq!(
        request["Entries"],
        json!([{
            "Id": "0", "MessageBody": "{\"v\":1}", "DelaySeconds": 2,
            "MessageAttributes": {"traceparent": {"DataType": "String", "StringValue": "00-ab"}},
        }])
    );
}
