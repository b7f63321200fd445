//! What is hidden, for how long, and who may say so.

use super::{LONG, NO_WAIT, Subject, message};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use waybill_core::ports::{EntryError, OutgoingMessage, QueueName, Receipt};

pub async fn what_is_not_deleted_comes_back(subject: Subject<'_>) {
    subject.send(&[message("again")]).await;
    let first = subject.receive_exactly(QueueName::Main, 1, subject.tick * 2).await;
    assert!(subject.receive(10, NO_WAIT, LONG).await.is_empty(), "invisible while in flight");
    sleep(subject.tick * 2).await;
    let second = subject.receive_exactly(QueueName::Main, 1, LONG).await;
    assert_eq!(second[0].id, first[0].id, "one id over all receptions");
    assert_eq!((first[0].receive_count, second[0].receive_count), (1, 2));
    assert_eq!(second[0].sent_at, first[0].sent_at);
    assert_ne!(second[0].receipt, first[0].receipt);
    subject.delete(QueueName::Main, &second).await;
}

/// The first worker was too slow: the message is somebody else's now.
pub async fn a_stale_receipt_deletes_nothing(subject: Subject<'_>) {
    subject.send(&[message("slow")]).await;
    let first = subject.receive_exactly(QueueName::Main, 1, subject.tick).await;
    sleep(subject.tick).await;
    let second = subject.receive_exactly(QueueName::Main, 1, LONG).await;
    let stale = [first[0].receipt.clone()];
    let deleted = subject.queue.delete_batch(QueueName::Main, &stale).await.expect("answers");
    if subject.reports_stale_receipts {
        assert_eq!(deleted, [Err(EntryError::StaleReceipt)]);
        let shown = [(first[0].receipt.clone(), Duration::ZERO)];
        let changed = subject.queue.change_visibility_batch(QueueName::Main, &shown).await.expect("answers");
        assert_eq!(changed, [Err(EntryError::StaleReceipt)]);
        assert!(subject.receive(10, NO_WAIT, LONG).await.is_empty(), "and changes nothing");
    }
    let back = [(second[0].receipt.clone(), Duration::ZERO)];
    let changed = subject.queue.change_visibility_batch(QueueName::Main, &back).await;
    assert_eq!(changed, Ok(vec![Ok(())]), "still there, and still the second one's");
    let third = subject.receive_exactly(QueueName::Main, 1, LONG).await;
    let receipts = [Receipt("nonsense".into()), third[0].receipt.clone()];
    let deleted = subject.queue.delete_batch(QueueName::Main, &receipts).await.expect("answers");
    assert!(deleted[0].is_err());
    assert_eq!(deleted[1], Ok(()), "the entry beside a wrong one is deleted");
    subject.assert_empty().await;
}

pub async fn visibility_is_changed_both_ways(subject: Subject<'_>) {
    subject.send(&[message("x")]).await;
    let first = subject.receive_exactly(QueueName::Main, 1, subject.tick * 2).await;
    let change = async |receipt: &Receipt, to| {
        let entries = [(receipt.clone(), to)];
        subject.queue.change_visibility_batch(QueueName::Main, &entries).await.expect("answers").remove(0)
    };
    assert_eq!(change(&first[0].receipt, subject.tick * 5).await, Ok(()));
    sleep(subject.tick * 3).await;
    assert!(subject.receive(10, NO_WAIT, LONG).await.is_empty(), "its time was extended");
    assert_eq!(change(&first[0].receipt, Duration::ZERO).await, Ok(()));
    let second = subject.receive_exactly(QueueName::Main, 1, subject.tick).await;
    assert_eq!(second[0].receive_count, 2, "back at once");
    sleep(subject.tick * 2).await;
    if subject.refuses_not_in_flight {
        assert_eq!(change(&second[0].receipt, LONG).await, Err(EntryError::StaleReceipt), "no longer in flight");
    }
    assert!(matches!(change(&second[0].receipt, Duration::from_secs(43_201)).await, Err(EntryError::Permanent(_))));
    let third = subject.receive_exactly(QueueName::Main, 1, LONG).await;
    subject.delete(QueueName::Main, &third).await;
    subject.assert_empty().await;
}

pub async fn a_delay_holds_a_message_back(subject: Subject<'_>) {
    let begin = Instant::now();
    let delay = subject.tick * 2;
    subject.send(&[OutgoingMessage { delay, ..message("later") }, message("now")]).await;
    let now = subject.receive_exactly(QueueName::Main, 1, LONG).await;
    assert_eq!(now[0].body, "now");
    let later = subject.receive_exactly(QueueName::Main, 1, LONG).await;
    assert!(begin.elapsed() >= delay.mul_f32(0.9), "came after {:?}", begin.elapsed());
    assert_eq!((later[0].body.as_str(), later[0].receive_count), ("later", 1));
    subject.delete(QueueName::Main, &now).await;
    subject.delete(QueueName::Main, &later).await;
}
