//! The words that are stored and shown, each its own and read back; and the limits of what other systems take, on both sides of each.

use std::{collections::HashSet, time::Duration};
use waybill_core::{
    address::Channel,
    identity::Identity,
    outcome::{OnUnknown, Outcome},
    policy::Timings,
    ports::{
        AlertCause, EntryError, FeedbackKind, MAX_BATCH_BYTES, MAX_OBJECT_KEY_BYTES, OutgoingMessage, QueueName,
        Receipt, ReceivedMessage, check_object_key,
        queue_quotas::{check_message, check_visibility},
    },
    trace::Traceparent,
};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn words_are_read_back() {
    assert_eq!(Channel::parse("email"), Some(Channel::Email));
    assert_eq!((Channel::Email.as_str(), Channel::parse("Email")), ("email", None));
    for (word, policy) in
        [("reconcile", OnUnknown::Reconcile), ("failover", OnUnknown::Failover), ("hold", OnUnknown::Hold)]
    {
        assert_eq!((policy.as_str(), OnUnknown::parse(word)), (word, Some(policy)));
    }
    assert_eq!(OnUnknown::parse(""), None);
    for queue in QueueName::ALL {
        assert_eq!(QueueName::parse(queue.as_str()), Some(queue));
        let dead = queue.dead_letter().map(|dead| dead.as_str().to_owned());
        let expected = (!queue.as_str().ends_with("-dead")).then(|| format!("{}-dead", queue.as_str()));
        assert_eq!(dead, expected, "{}", queue.as_str());
    }
    assert_eq!(QueueName::parse("mains"), None);
}

#[test]
fn stored_words_are_those_of_the_schema_and_of_the_documentation() {
    let detail = || "its words".to_owned();
    let outcomes = [
        (Outcome::RejectedRecipient { detail: detail() }, "rejected_recipient"),
        (Outcome::RejectedMessage { detail: detail() }, "rejected_message"),
        (Outcome::Unusable { detail: detail() }, "unusable"),
        (Outcome::Throttled { retry_after: None, detail: detail() }, "throttled"),
        (Outcome::Unavailable { detail: detail() }, "unavailable"),
        (Outcome::Unknown { detail: detail() }, "unknown"),
    ];
    for (outcome, word) in outcomes {
        assert_eq!((outcome.as_str(), outcome.detail()), (word, "its words"));
    }
    let accepted = Outcome::Accepted { provider_message_id: "m".into() };
    assert_eq!((accepted.as_str(), accepted.detail()), ("accepted", ""));
    let kinds = [
        FeedbackKind::Accepted,
        FeedbackKind::Delivered,
        FeedbackKind::Bounced,
        FeedbackKind::Complained,
        FeedbackKind::Dropped,
        FeedbackKind::Other,
    ]
    .map(FeedbackKind::as_str);
    assert_eq!(kinds, ["accepted", "delivered", "bounced", "complained", "dropped", "other"]);
    let causes =
        [AlertCause::DeadLetter, AlertCause::ProviderFailing, AlertCause::RowsStuck, AlertCause::OutboxLagging];
    let words: HashSet<_> = causes.iter().map(|cause| cause.as_str()).collect();
    assert_eq!(words, HashSet::from(["dead_letter", "provider_failing", "rows_stuck", "outbox_lagging"]));
}

#[test]
fn an_identity_is_thirty_two_octets_and_is_printed_short() {
    assert_eq!(Identity::from_slice(&[7; 32]), Some(Identity([7; 32])));
    assert_eq!(Identity::from_slice(&[7; 31]), None);
    assert_eq!(format!("{:?}", Identity([7; 32])), "Identity(070707070707\u{2026})");
}

#[test]
fn a_trace_context_travels_as_an_attribute() {
    let trace = Traceparent::parse(TRACE).unwrap();
    assert_eq!((trace.attribute(), format!("{trace:?}")), (("traceparent".into(), TRACE.into()), TRACE.into()));
    let received = |name: &str| ReceivedMessage {
        id: String::new(),
        receipt: Receipt(String::new()),
        body: String::new(),
        receive_count: 1,
        sent_at: chrono::DateTime::UNIX_EPOCH,
        attributes: vec![("other".into(), "x".into()), (name.into(), TRACE.into())],
    };
    assert_eq!(Traceparent::of(&received("traceparent")), Some(trace));
    assert_eq!(Traceparent::of(&received("tracestate")), None);
}

#[test]
fn an_object_s_key_is_a_plain_relative_path() {
    for good in ["a", "tenant/purchase_order/x.pdf", "..a/b..", &"k".repeat(MAX_OBJECT_KEY_BYTES)] {
        assert!(check_object_key(good).is_ok(), "{good}");
    }
    for bad in ["", "/a", "a/", "a//b", ".", "a/./b", "../a", "a\\b", "a\0b", &"k".repeat(MAX_OBJECT_KEY_BYTES + 1)] {
        assert!(check_object_key(bad).is_err(), "{bad:?}");
    }
}

fn message(body: usize, attributes: usize) -> OutgoingMessage {
    OutgoingMessage {
        body: "x".repeat(body),
        attributes: (0..attributes).map(|n| (format!("n{n}"), "v".to_owned())).collect(),
        ..OutgoingMessage::default()
    }
}

#[test]
fn sqs_02_name_value_and_type_of_an_attribute_count() {
    // `n0`, `v` and `String`.
    assert_eq!((message(5, 0).bytes(), message(5, 2).bytes()), (5, 5 + 2 * 9));
}

#[test]
fn sqs_03_what_sqs_refuses_is_refused_on_both_sides_of_each_limit() {
    let delayed = |seconds| OutgoingMessage { delay: Duration::from_secs(seconds), ..message(1, 0) };
    let with =
        |name: &str, value: &str| OutgoingMessage { attributes: vec![(name.into(), value.into())], ..message(1, 0) };
    let text = |body: &str| OutgoingMessage { body: body.into(), ..OutgoingMessage::default() };
    for good in [message(MAX_BATCH_BYTES, 0), delayed(900), message(1, 10), with("n", "v"), text("\u{1f4e6}")] {
        assert_eq!(check_message(&good), Ok(()));
    }
    let bad = [
        (text(""), "empty"),
        (message(MAX_BATCH_BYTES + 1, 0), "1 MiB"),
        (message(MAX_BATCH_BYTES, 1), "1 MiB"),
        (text("\u{b}"), "the body has characters"),
        (delayed(901), "900 s"),
        (message(1, 11), "more than 10"),
        (with("", "v"), "an attribute is empty"),
        (with("n", ""), "an attribute is empty"),
        (with("n\u{b}", "v"), "an attribute has characters"),
        (with("n", "v\u{b}"), "an attribute has characters"),
    ];
    for (message, words) in bad {
        match check_message(&message) {
            Err(EntryError::Permanent(why)) => assert!(why.contains(words), "{why} for {words}"),
            other => panic!("{words}: {other:?}"),
        }
    }
    assert_eq!(check_visibility(Duration::from_secs(43_200)), Ok(()));
    assert!(check_visibility(Duration::from_secs(43_201)).is_err());
}

#[test]
fn renders_back_off_as_attempts_do() {
    let timings = Timings::default().document;
    assert_eq!([1, 2, 30].map(|attempt| timings.backoff(attempt, 1.0).as_secs()), [2, 4, 60]);
    assert_eq!(timings.backoff(1, 0.0), Duration::from_secs(1));
}
