//! The group is for fairness, and for nothing else (Amazon SQS developer guide, "Fair queues").

use super::{LONG, NO_WAIT, Subject, message, sorted_bodies};
use waybill_core::ports::{OutgoingMessage, QueueName};

fn of(group: &str, body: &str) -> OutgoingMessage {
    OutgoingMessage { group: Some(group.into()), ..message(body) }
}

/// Two messages with one body and group are two messages, and one in flight does not hold the other back.
pub async fn sqs_09_groups_say_nothing_about_order_or_repeats(subject: Subject<'_>) {
    subject.send(&[of("A", "same"), of("A", "same")]).await;
    let first = subject.receive_exactly(QueueName::Main, 1, LONG).await;
    let second = subject.receive_exactly(QueueName::Main, 1, LONG).await;
    assert_ne!(first[0].id, second[0].id);
    subject.delete(QueueName::Main, &first).await;
    subject.delete(QueueName::Main, &second).await;
    subject.assert_empty().await;
}

/// A tenant may be called anything; its messages go all the same.
pub async fn sqs_09_no_group_costs_a_message(subject: Subject<'_>) {
    let groups = ["ten_01h455vb4pex5vsknk084sn02q", "Acme GmbH & Co", "a\u{e7}ai", &"x".repeat(130), "", "-", "a\0b"];
    let messages: Vec<_> = groups.iter().enumerate().map(|(n, group)| of(group, &format!("{n}"))).collect();
    subject.send(&messages).await;
    let got = subject.receive_exactly(QueueName::Main, messages.len(), LONG).await;
    assert_eq!(sorted_bodies(&got), ["0", "1", "2", "3", "4", "5", "6"]);
    subject.delete(QueueName::Main, &got).await;
    subject.assert_empty().await;
}

pub async fn sqs_09_a_backlog_holds_nobody_else_back(subject: Subject<'_>) {
    let backlog: Vec<_> = (0..300).map(|n| of("A", &format!("a{n}"))).collect();
    subject.send(&backlog).await;
    subject.send(&[of("B", "b")]).await;
    let mut got = Vec::new();
    for _ in 0..3 {
        got.extend(subject.receive(10, subject.tick, LONG).await);
    }
    assert!(got.iter().any(|m| m.body == "b"), "B's only message waits for at most three receptions");
    for _ in 0..100 {
        let more = subject.receive(10, NO_WAIT, LONG).await;
        if more.is_empty() {
            break;
        }
        got.extend(more);
    }
    assert_eq!(got.len(), 301);
    subject.delete(QueueName::Main, &got).await;
}
