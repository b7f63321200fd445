//! The contract of [`Queue`]: what SQS standard queues do, as far as Waybill counts on it.

mod batches;
mod delivery;
mod groups;
mod visibility;

use std::time::Duration;
use waybill_core::ports::{OutgoingMessage, Queue, QueueName, Receipt, ReceivedMessage};

pub use batches::*;
pub use delivery::*;
pub use groups::*;
pub use visibility::*;

/// A queue and what it can do. All queues are empty and nobody else uses them.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub queue: &'a dyn Queue,
    /// At least 2: receptions after which a message goes to the dead-letter queue.
    pub max_receive_count: u32,
    /// The smallest step of its timers (SQS: 1 s).
    pub tick: Duration,
    /// Whether a delete with an old receipt is told. SQS may answer success and delete nothing.
    pub reports_stale_receipts: bool,
    /// Whether deleting what is gone is a success, as at SQS. An emulator may call the receipt invalid.
    pub forgives_second_delete: bool,
    /// Whether a change of the visibility of a message that is visible again is refused, as at SQS. Emulators may do it.
    pub refuses_not_in_flight: bool,
    /// Whether it knows the age of its oldest message. SQS has it in CloudWatch only.
    pub oldest_age: bool,
    /// Whether it serves groups in turn. Emulators do not.
    pub fair: bool,
}

/// All rules, one after the other.
pub async fn run(subject: Subject<'_>) {
    a_message_goes_once_around(subject).await;
    any_text_travels_unchanged(subject).await;
    many_are_sent_and_received(subject).await;
    a_long_poll_waits_and_wakes(subject).await;
    two_receivers_share_no_message(subject).await;
    what_is_not_deleted_comes_back(subject).await;
    a_stale_receipt_deletes_nothing(subject).await;
    visibility_is_changed_both_ways(subject).await;
    a_delay_holds_a_message_back(subject).await;
    after_so_many_receptions_a_message_is_dead(subject).await;
    depth_counts_what_is_where(subject).await;
    sqs_02_an_entry_that_is_too_large_fails_alone(subject).await;
    sqs_03_forbidden_characters_fail_alone(subject).await;
    other_quotas_fail_alone(subject).await;
    sqs_09_groups_say_nothing_about_order_or_repeats(subject).await;
    sqs_09_no_group_costs_a_message(subject).await;
    if subject.fair {
        sqs_09_a_backlog_holds_nobody_else_back(subject).await;
    }
}

const NO_WAIT: Duration = Duration::ZERO;
/// Longer than any check takes.
const LONG: Duration = Duration::from_secs(600);

fn message(body: &str) -> OutgoingMessage {
    OutgoingMessage { body: body.into(), ..Default::default() }
}

impl Subject<'_> {
    async fn send(&self, messages: &[OutgoingMessage]) {
        let results = self.queue.send_batch(QueueName::Main, messages).await.expect("sends");
        assert_eq!(results, vec![Ok(()); messages.len()]);
    }

    async fn receive(&self, max: usize, wait: Duration, visibility: Duration) -> Vec<ReceivedMessage> {
        self.receive_from(QueueName::Main, max, wait, visibility).await
    }

    async fn receive_from(
        &self,
        queue: QueueName,
        max: usize,
        wait: Duration,
        visibility: Duration,
    ) -> Vec<ReceivedMessage> {
        self.queue.receive(queue, max, wait, visibility).await.expect("receives")
    }

    /// Receives until there are so many, or for about ten ticks: SQS may answer with fewer than it has.
    async fn receive_exactly(&self, queue: QueueName, count: usize, visibility: Duration) -> Vec<ReceivedMessage> {
        let mut out = Vec::new();
        for _ in 0..count + 10 {
            if out.len() >= count {
                break;
            }
            let max = (count - out.len()).min(10);
            out.extend(self.receive_from(queue, max, self.tick, visibility).await);
        }
        assert_eq!(out.len(), count, "from {}", queue.as_str());
        out
    }

    async fn delete(&self, queue: QueueName, messages: &[ReceivedMessage]) {
        let receipts: Vec<Receipt> = messages.iter().map(|m| m.receipt.clone()).collect();
        let results = self.queue.delete_batch(queue, &receipts).await.expect("deletes");
        assert_eq!(results, vec![Ok(()); receipts.len()]);
    }

    async fn assert_empty(&self) {
        for queue in QueueName::ALL {
            let left = self.receive_from(queue, 10, NO_WAIT, LONG).await;
            assert!(left.is_empty(), "{} holds {left:?}", queue.as_str());
        }
    }
}

fn sorted_bodies(messages: &[ReceivedMessage]) -> Vec<&str> {
    let mut bodies: Vec<&str> = messages.iter().map(|m| m.body.as_str()).collect();
    bodies.sort_unstable();
    bodies
}
