use super::*;
use crate::contract;

const NO_WAIT: Duration = Duration::ZERO;
const MINUTE: Duration = Duration::from_secs(60);

fn messages(count: usize) -> Vec<OutgoingMessage> {
    (0..count).map(|n| OutgoingMessage { body: format!("m{n}"), ..Default::default() }).collect()
}

fn bodies(queue: &FakeQueue) -> Vec<String> {
    queue.peek(QueueName::Main).into_iter().map(|m| m.body).collect()
}

#[tokio::test(start_paused = true)]
async fn the_fake_keeps_the_contract() {
    let queue = FakeQueue::new(3);
    contract::queue::run(contract::queue::Subject {
        queue: &queue,
        max_receive_count: 3,
        tick: Duration::from_secs(1),
        reports_stale_receipts: true,
        forgives_second_delete: true,
        refuses_not_in_flight: true,
        oldest_age: true,
        fair: true,
    })
    .await;
}

#[tokio::test]
async fn sqs_01_failed_unaccounted_and_lost_entries_are_failures_of_those_entries_only() {
    let queue = FakeQueue::new(3);
    let permanent = EntryError::Permanent("InvalidMessageContents".into());
    queue.script_sends([
        SendFault::Failed(vec![(3, EntryError::Temporary("InternalError".into())), (7, permanent.clone())]),
        SendFault::Unaccounted { positions: vec![4], stored: false },
        SendFault::AnswerLost,
        SendFault::Refused,
    ]);
    let results = queue.send_batch(QueueName::Main, &messages(45)).await.unwrap();
    let failed: Vec<usize> = (0..45).filter(|i| results[*i].is_err()).collect();
    let expected: Vec<usize> = [3, 7, 14].into_iter().chain(20..40).collect();
    assert_eq!(failed, expected);
    assert_eq!(results[7], Err(permanent));
    assert_eq!(queue.requests(), 5);
    let stored = bodies(&queue);
    for (index, there) in
        [(3, false), (7, false), (14, false), (13, true), (20, true), (29, true), (30, false), (44, true)]
    {
        assert_eq!(stored.contains(&format!("m{index}")), there, "m{index}");
    }
}

#[tokio::test(start_paused = true)]
async fn sqs_04_a_dropped_long_poll_hands_the_message_to_nobody() {
    let queue = FakeQueue::new(2);
    let poll = queue.receive(QueueName::Main, 10, Duration::from_secs(20), MINUTE);
    assert!(tokio::time::timeout(Duration::from_secs(5), poll).await.is_err(), "the client gives up");
    queue.send_batch(QueueName::Main, &messages(1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let shown = queue.peek(QueueName::Main);
    assert_eq!((shown[0].receive_count, shown[0].hidden), (1, true), "the server gave it away all the same");
    assert!(queue.receive(QueueName::Main, 10, NO_WAIT, MINUTE).await.unwrap().is_empty());
    tokio::time::sleep(MINUTE).await;
    let again = queue.receive(QueueName::Main, 10, NO_WAIT, MINUTE).await.unwrap();
    assert_eq!(again[0].receive_count, 2);
}

#[tokio::test]
async fn a_duplicate_is_the_same_message_twice_within_its_visibility() {
    let queue = FakeQueue::new(5);
    queue.send_batch(QueueName::Main, &messages(1)).await.unwrap();
    queue.duplicate_next(1);
    let first = queue.receive(QueueName::Main, 10, NO_WAIT, MINUTE).await.unwrap();
    let second = queue.receive(QueueName::Main, 10, NO_WAIT, MINUTE).await.unwrap();
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_eq!(first[0].id, second[0].id);
    assert!(queue.receive(QueueName::Main, 10, NO_WAIT, MINUTE).await.unwrap().is_empty());
}

#[tokio::test]
async fn while_down_nothing_is_taken_or_given() {
    let queue = FakeQueue::new(3);
    queue.send_batch(QueueName::Main, &messages(1)).await.unwrap();
    queue.set_down(true);
    assert!(matches!(queue.send_batch(QueueName::Main, &messages(1)).await.unwrap()[0], Err(EntryError::Temporary(_))));
    assert!(queue.receive(QueueName::Main, 10, NO_WAIT, MINUTE).await.is_err());
    assert!(queue.depth(QueueName::Main).await.is_err());
    queue.set_down(false);
    queue.fail_next_receives(1);
    assert!(queue.receive(QueueName::Main, 10, NO_WAIT, MINUTE).await.is_err());
    let got = queue.receive(QueueName::Main, 10, NO_WAIT, MINUTE).await.unwrap();
    assert_eq!((got.len(), got[0].receive_count), (1, 1));
    queue.fail_next_deletes(1);
    let receipts = [got[0].receipt.clone()];
    assert!(matches!(queue.delete_batch(QueueName::Main, &receipts).await.unwrap()[0], Err(EntryError::Temporary(_))));
    assert_eq!(queue.delete_batch(QueueName::Main, &receipts).await.unwrap(), [Ok(())]);
}
