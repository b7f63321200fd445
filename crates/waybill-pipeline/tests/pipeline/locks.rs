//! Step 4: the lock is a cheap first gate. It never acknowledges what nothing remembers, and it is not the authority.

use crate::{counters::Counters, world::World};
use std::time::Duration;
use waybill_core::{
    ids::DeliveryId,
    outcome::Outcome,
    ports::{Lock, LockRequest, QueueName},
    state::DeliveryState,
};
use waybill_testkit::fakes::Step;

fn accepted() -> Outcome {
    Outcome::Accepted { provider_message_id: "m".into() }
}

async fn lock_as(w: &World, delivery: DeliveryId, owner: &str) {
    let loaded = w.store.load_deliveries(&[delivery]).await.unwrap();
    let request = LockRequest { key: loaded[0].identity.lock_key(), owner: owner.into() };
    w.lock.acquire(&[request], Duration::from_secs(300)).await.unwrap();
}

#[tokio::test]
async fn rl_02_a_lock_that_another_delivery_holds_puts_off_in_the_row_and_its_sent_makes_a_duplicate() {
    let w = World::new().await;
    w.ses.then(Step::Hang(accepted()));
    let (first, second) = w.twins().await;
    let worker = w.worker();
    w.until("one is put off", async || w.queue.peek(QueueName::Delivery).len() == 1 && w.ses.calls().len() == 1).await;
    let (winner, other) =
        if w.state(first).await == DeliveryState::Sending { (first, second) } else { (second, first) };
    let waiting = w.see(other).await;
    assert_eq!(waiting.state, DeliveryState::Pending);
    assert!(waiting.due_in.is_some_and(|due| due < 10.0), "the row remembers when: {waiting:?}");
    w.ses.release();
    worker.stop().await;
    assert_eq!(w.state(winner).await, DeliveryState::Sent);
    w.let_due(other).await;
    w.round().await;
    w.work().await;
    let seen = w.see(other).await;
    assert_eq!((seen.state, seen.other), (DeliveryState::Duplicate, Some(winner)));
    assert_eq!(w.calls(), (1, 0));
    w.check().await;
}

#[tokio::test]
async fn rl_02_a_held_lock_does_not_acknowledge_a_message_whose_row_can_t_be_put_off() {
    let w = World::with(|setup| setup.lock_timeout = Duration::from_millis(100)).await;
    let delivery = w.delivery().await;
    lock_as(&w, delivery, "somebody else, who died").await;
    let held = w.hold_row(delivery).await;
    let worker = w.worker();
    w.until("it was received", async || w.queue.peek(QueueName::Delivery)[0].hidden).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    worker.stop().await;
    assert_eq!(w.queue.peek(QueueName::Delivery).len(), 1, "the row does not remember, so the message has to");
    held.rollback().await.unwrap();
    w.work_on_hidden(delivery).await;
    assert!(w.see(delivery).await.due_in.is_some_and(|due| due < 10.0));
    // The dead holder's lock is over.
    w.lock.lose_all();
    w.let_due(delivery).await;
    w.round().await;
    w.until_sent_by_worker(delivery).await;
    w.check().await;
}

#[tokio::test]
async fn a_delivery_re_enters_its_own_lock() {
    let w = World::new().await;
    let delivery = w.delivery().await;
    lock_as(&w, delivery, &delivery.to_string()).await;
    w.work().await;
    assert_eq!(w.state(delivery).await, DeliveryState::Sent);
    w.check().await;
}

#[tokio::test]
async fn a_lock_that_is_down_is_skipped_and_counted() {
    let counters = Counters::default();
    let _here = metrics::set_default_local_recorder(&counters);
    let w = World::new().await;
    w.lock.set_down(true);
    let (first, second) = w.twins().await;
    w.work().await;
    assert_eq!(counters.get("waybill_lock_skipped_total"), 2);
    assert_eq!(w.accepted().len(), 1, "the claim is the authority");
    for delivery in [first, second] {
        if w.state(delivery).await != DeliveryState::Sent {
            w.let_due(delivery).await;
            w.round().await;
            w.work().await;
            assert_eq!(w.state(delivery).await, DeliveryState::Duplicate);
        }
    }
    w.check().await;
}

#[tokio::test]
async fn a_lock_that_lost_everything_does_not_let_a_second_sender_through() {
    let w = World::new().await;
    w.ses.then(Step::Hang(accepted()));
    let (first, _) = w.routed(&w.event_about("PO-1", &["ana@example.test"])).await;
    let first = w.deliveries(first).await[0];
    let worker = w.worker();
    w.until("it is being sent", async || w.ses.calls().len() == 1).await;
    w.lock.lose_all();
    let (second, _) = w.routed(&w.event_about("PO-1", &["ana@example.test"])).await;
    let second = w.deliveries(second).await[0];
    w.until("it is put off", async || w.queue.peek(QueueName::Delivery).len() == 1).await;
    assert_eq!((w.calls(), w.state(second).await), ((1, 0), DeliveryState::Pending));
    assert!(w.see(second).await.due_in.is_some_and(|due| due < 61.0), "at the end of the other's claim");
    w.ses.release();
    worker.stop().await;
    assert_eq!(w.state(first).await, DeliveryState::Sent);
    w.check().await;
}

#[tokio::test]
async fn rl_02_a_failed_attempt_leaves_no_lock_behind_and_a_sent_one_does() {
    let w = World::new().await;
    w.ses.script([Outcome::RejectedRecipient { detail: String::new() }, accepted()]);
    let failed = w.delivery().await;
    w.work().await;
    let sent = w.delivery().await;
    w.work().await;
    let loaded = w.store.load_deliveries(&[failed, sent]).await.unwrap();
    let holder = |id: DeliveryId| {
        let row = loaded.iter().find(|d| d.id == id).unwrap();
        w.lock.holder(&row.identity.lock_key())
    };
    assert_eq!((holder(failed), holder(sent)), (None, Some(sent.to_string())));
}
