//! Sending, receiving, deleting, dying.

use super::{LONG, NO_WAIT, Subject, message, sorted_bodies};
use chrono::Utc;
use std::{collections::HashSet, time::Duration};
use tokio::time::Instant;
use waybill_core::ports::{OutgoingMessage, QueueDepth, QueueName};

pub async fn a_message_goes_once_around(subject: Subject<'_>) {
    let attributes = vec![("v".to_owned(), "1".to_owned()), ("traceparent".to_owned(), "00-ab-cd-01".to_owned())];
    subject.send(&[OutgoingMessage { attributes: attributes.clone(), ..message("hello") }]).await;
    let got = subject.receive_exactly(QueueName::Main, 1, LONG).await;
    assert_eq!((got[0].body.as_str(), got[0].receive_count), ("hello", 1));
    let mut names = got[0].attributes.clone();
    names.sort_unstable_by_key(|(name, _)| name.len());
    assert_eq!(names, attributes);
    assert!((Utc::now() - got[0].sent_at).num_seconds().abs() < 60, "sent_at is the time of sending");
    subject.delete(QueueName::Main, &got).await;
    if subject.forgives_second_delete {
        subject.delete(QueueName::Main, &got).await;
    }
    subject.assert_empty().await;
}

/// A queue carries text; what it means, or that it means nothing, is the reader's business.
pub async fn any_text_travels_unchanged(subject: Subject<'_>) {
    let texts = [
        "{\"delivery_id\":",
        "null",
        "[]",
        " \t\r\nx ",
        "'; DROP TABLE x --",
        "e\u{301} \u{1f4e6} \u{fffd}",
        "\\u0000",
    ];
    subject.send(&texts.map(message)).await;
    let got = subject.receive_exactly(QueueName::Main, texts.len(), LONG).await;
    let mut expected = texts.to_vec();
    expected.sort_unstable();
    assert_eq!(sorted_bodies(&got), expected);
    subject.delete(QueueName::Main, &got).await;
}

pub async fn many_are_sent_and_received(subject: Subject<'_>) {
    assert_eq!(subject.queue.send_batch(QueueName::Main, &[]).await, Ok(Vec::new()));
    assert_eq!(subject.queue.delete_batch(QueueName::Main, &[]).await, Ok(Vec::new()));
    assert_eq!(subject.queue.change_visibility_batch(QueueName::Main, &[]).await, Ok(Vec::new()));
    let messages: Vec<_> = (0..25).map(|n| message(&format!("{n}"))).collect();
    subject.send(&messages).await;
    let three = subject.receive(3, subject.tick, LONG).await;
    assert!((1..=3).contains(&three.len()), "never more than asked for");
    let mut got = subject.receive_exactly(QueueName::Main, 25 - three.len(), LONG).await;
    got.extend(three);
    let ids: HashSet<&str> = got.iter().map(|m| m.id.as_str()).collect();
    let bodies: HashSet<&str> = got.iter().map(|m| m.body.as_str()).collect();
    assert_eq!((ids.len(), bodies.len()), (25, 25));
    subject.delete(QueueName::Main, &got).await;
    subject.assert_empty().await;
}

pub async fn a_long_poll_waits_and_wakes(subject: Subject<'_>) {
    let begin = Instant::now();
    assert!(subject.receive(10, subject.tick, LONG).await.is_empty());
    assert!(begin.elapsed() >= subject.tick.mul_f32(0.9), "waited {:?}", begin.elapsed());
    let send_later = async {
        tokio::time::sleep(subject.tick.mul_f32(0.3)).await;
        subject.send(&[message("late")]).await;
    };
    let begin = Instant::now();
    let (got, ()) = tokio::join!(subject.receive(10, Duration::from_secs(15), LONG), send_later);
    assert_eq!(got.len(), 1);
    assert!(begin.elapsed() < Duration::from_secs(8), "woke after {:?}", begin.elapsed());
    subject.delete(QueueName::Main, &got).await;
}

pub async fn two_receivers_share_no_message(subject: Subject<'_>) {
    let messages: Vec<_> = (0..40).map(|n| message(&format!("{n}"))).collect();
    subject.send(&messages).await;
    let mut got = Vec::new();
    for _ in 0..20 {
        let receive = || subject.receive(10, NO_WAIT, LONG);
        let (a, b, c, d) = tokio::join!(receive(), receive(), receive(), receive());
        got.extend([a, b, c, d].into_iter().flatten());
        if got.len() >= 40 {
            break;
        }
    }
    let ids: HashSet<&str> = got.iter().map(|m| m.id.as_str()).collect();
    assert_eq!((ids.len(), got.len()), (40, 40));
    subject.delete(QueueName::Main, &got).await;
}

/// On the receive that would exceed the count the message moves instead of being handed out; its neighbours stay.
pub async fn after_so_many_receptions_a_message_is_dead(subject: Subject<'_>) {
    let attributes = vec![("reason".to_owned(), "poison".to_owned())];
    subject.send(&[OutgoingMessage { attributes: attributes.clone(), ..message("poison") }]).await;
    let mut first_sent = None;
    for count in 1..=subject.max_receive_count {
        let got = subject.receive_exactly(QueueName::Main, 1, LONG).await;
        assert_eq!(got[0].receive_count, count);
        first_sent = Some(got[0].sent_at);
        let back = [(got[0].receipt.clone(), Duration::ZERO)];
        assert_eq!(subject.queue.change_visibility_batch(QueueName::Main, &back).await, Ok(vec![Ok(())]));
    }
    subject.send(&[message("good")]).await;
    let got = subject.receive_exactly(QueueName::Main, 1, LONG).await;
    assert_eq!(got[0].body, "good");
    subject.delete(QueueName::Main, &got).await;
    assert!(subject.receive(10, NO_WAIT, LONG).await.is_empty());
    let dead = subject.receive_exactly(QueueName::MainDead, 1, LONG).await;
    assert_eq!((dead[0].body.as_str(), &dead[0].attributes), ("poison", &attributes));
    assert_eq!(Some(dead[0].sent_at), first_sent, "keeps the time of its first sending (SQS, DLQ retention)");
    subject.delete(QueueName::MainDead, &dead).await;
    subject.assert_empty().await;
}

pub async fn depth_counts_what_is_where(subject: Subject<'_>) {
    assert_eq!(subject.queue.depth(QueueName::Main).await, Ok(QueueDepth::default()));
    let delayed = OutgoingMessage { delay: subject.tick * 8, ..message("delayed") };
    subject.send(&[message("a"), message("b"), message("c"), delayed]).await;
    let got = subject.receive_exactly(QueueName::Main, 3, LONG).await;
    let back = [(got[0].receipt.clone(), Duration::ZERO), (got[1].receipt.clone(), Duration::ZERO)];
    subject.queue.change_visibility_batch(QueueName::Main, &back).await.expect("changes");
    let depth = subject.queue.depth(QueueName::Main).await.expect("counts");
    assert_eq!((depth.visible, depth.in_flight, depth.delayed), (2, 1, 1));
    subject.delete(QueueName::Main, &got).await;
    let depth = subject.queue.depth(QueueName::Main).await.expect("counts");
    assert_eq!((depth.visible, depth.in_flight, depth.delayed), (0, 0, 1));
    assert_eq!(depth.oldest_age.is_some(), subject.oldest_age);
    assert!(depth.oldest_age.is_none_or(|age| age < LONG), "of the delayed one");
    let got = subject.receive_exactly(QueueName::Main, 1, LONG).await;
    subject.delete(QueueName::Main, &got).await;
    assert_eq!(subject.queue.depth(QueueName::Main).await, Ok(QueueDepth::default()));
}
