//! One bad entry never costs its neighbours.

use super::{LONG, Subject, message, sorted_bodies};
use std::time::Duration;
use waybill_core::ports::{EntryError, MAX_BATCH_BYTES, OutgoingMessage, QueueName};

/// Sends; exactly the messages at `bad` are refused for good, the others arrive.
async fn refused(subject: Subject<'_>, messages: &[OutgoingMessage], bad: &[usize]) {
    let results = subject.queue.send_batch(QueueName::Main, messages).await.expect("sends");
    assert_eq!(results.len(), messages.len());
    for (index, result) in results.iter().enumerate() {
        if bad.contains(&index) {
            assert!(matches!(result, Err(EntryError::Permanent(_))), "entry {index}: {result:?}");
        } else {
            assert_eq!(*result, Ok(()), "entry {index}");
        }
    }
    let got = subject.receive_exactly(QueueName::Main, messages.len() - bad.len(), LONG).await;
    let good = messages.iter().enumerate().filter(|(index, _)| !bad.contains(index));
    let mut expected: Vec<&str> = good.map(|(_, m)| m.body.as_str()).collect();
    expected.sort_unstable();
    assert!(sorted_bodies(&got) == expected, "the good ones arrive unchanged");
    subject.delete(QueueName::Main, &got).await;
    subject.assert_empty().await;
}

pub async fn sqs_02_an_entry_that_is_too_large_fails_alone(subject: Subject<'_>) {
    let full = message(&"x".repeat(MAX_BATCH_BYTES));
    let over = message(&"x".repeat(MAX_BATCH_BYTES + 1));
    // 600,000 characters, 1,200,000 octets.
    let octets = message(&"\u{e9}".repeat(600_000));
    let attribute = OutgoingMessage { attributes: vec![("n".into(), "v".into())], ..full.clone() };
    refused(subject, &[message("a"), full, over, message("b"), octets, attribute], &[2, 4, 5]).await;
    // Each fits, all together do not: 1.46 MiB in ten entries.
    let many: Vec<_> = (0..10).map(|n| message(&format!("{n}").repeat(150 * 1024))).collect();
    refused(subject, &many, &[]).await;
}

pub async fn sqs_03_forbidden_characters_fail_alone(subject: Subject<'_>) {
    let bad = ["\0", "a\u{1}b", "\u{b}", "\u{1f}", "\u{fffe}", "Ana\u{ffff}"].map(message);
    let attribute = OutgoingMessage { attributes: vec![("request".into(), "a\u{1}b".into())], ..message("x") };
    let good = ["\t\r\n", "\u{7f}\u{85}", "\u{d7ff}\u{e000}\u{fffd}", "\u{10000}\u{10ffff}"].map(message);
    let messages: Vec<_> = bad.into_iter().chain([attribute]).chain(good).collect();
    refused(subject, &messages, &[0, 1, 2, 3, 4, 5, 6]).await;
}

pub async fn other_quotas_fail_alone(subject: Subject<'_>) {
    let attributes = (0..11).map(|n| (format!("n{n}"), "v".to_owned())).collect();
    let messages = [
        message("good"),
        message(""),
        OutgoingMessage { delay: Duration::from_secs(901), ..message("too long a delay") },
        OutgoingMessage { attributes, ..message("eleven attributes") },
        OutgoingMessage { attributes: vec![("n".into(), String::new())], ..message("an empty attribute") },
        message("another good one"),
    ];
    refused(subject, &messages, &[1, 2, 3, 4]).await;
}
