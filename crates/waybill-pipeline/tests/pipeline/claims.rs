//! Steps 6 to 8: one sender per identity, and no call that might outlive its claim.

use crate::{acts::Role, holding::Slow, world::World};
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;
use waybill_core::{
    ids::{AttemptId, DeliveryId},
    message::{DeliveryMessage, encode},
    outcome::Outcome,
    ports::{Queue, QueueName},
    state::DeliveryState,
};
use waybill_pipeline::deliver;
use waybill_store::{AttemptResult, Claim, ClaimRequest, Recorded};
use waybill_testkit::fakes::Step;

fn accepted() -> Outcome {
    Outcome::Accepted { provider_message_id: "m".into() }
}

fn unavailable() -> Outcome {
    Outcome::Unavailable { detail: "connection refused".into() }
}

#[tokio::test]
async fn two_workers_with_one_identity_make_one_provider_acceptance() {
    let w = World::new().await;
    // Without the first gate the claims have to do it alone.
    w.lock.set_down(true);
    let mut twins: Vec<(DeliveryId, DeliveryId)> = Vec::new();
    for n in 0..12 {
        w.ses.then(Step::After(Duration::from_millis(n % 4 * 10), accepted()));
        let subject = format!("PO-twin-{n}");
        let (first, second) =
            (w.event_about(&subject, &["ana@example.test"]), w.event_about(&subject, &["ana@example.test"]));
        twins.push(((w.routed(&first).await).1[0], (w.routed(&second).await).1[0]));
    }
    let (one, two) = (w.worker(), w.worker());
    w.until_empty(QueueName::Delivery).await;
    one.stop().await;
    two.stop().await;
    assert_eq!(w.accepted().len(), 12);
    w.sql("UPDATE deliveries SET due_at = now() WHERE due_at IS NOT NULL", &[]).await;
    w.round().await;
    w.work().await;
    for (first, second) in twins {
        let mut states = [w.state(first).await, w.state(second).await];
        states.sort_by_key(|s| s.as_str());
        assert_eq!(states, [DeliveryState::Duplicate, DeliveryState::Sent]);
    }
    assert_eq!(w.accepted().len(), 12);
    w.check().await;
}

#[tokio::test]
async fn a_claim_that_is_too_short_by_the_monotonic_clock_is_given_up_without_a_call_and_burns_no_attempt() {
    let w = World::new().await;
    let delivery = w.delivery().await;
    let held = w.hold_row(delivery).await;
    let worker = w.worker();
    w.until_blocked(1).await;
    // The process stood still for longer than a call may take before the claim's end.
    w.clock.advance(Duration::from_secs(54));
    held.rollback().await.unwrap();
    w.until_state(delivery, DeliveryState::Retrying).await;
    worker.stop().await;
    let seen = w.see(delivery).await;
    assert_eq!((w.calls(), seen.attempts, seen.crashes, seen.position), ((0, 0), 0, 0, 0));
    assert!(seen.due_in.is_some_and(|due| due <= 0.0), "due at once: {seen:?}");
    w.round().await;
    w.work().await;
    assert_eq!((w.state(delivery).await, w.calls()), (DeliveryState::Sent, (1, 0)));
    w.check().await;
}

/// A first worker has called and stands still until its claim and the window are over; a second one has the claim, and waits for the
/// document.
struct SecondClaim {
    delivery: DeliveryId,
    first: ClaimRequest,
    slow: Arc<Slow>,
    second: Role,
}

impl SecondClaim {
    async fn of(w: &World) -> SecondClaim {
        w.need_documents().await;
        let (_, deliveries) = w.routed(&w.event(&["ana@example.test"])).await;
        let delivery = deliveries[0];
        let renderers = w.renderers();
        w.until("its message", async || w.queue.peek(QueueName::Delivery).len() == 1).await;
        renderers.stop().await;
        w.lose_messages(QueueName::Delivery).await;
        let first = ClaimRequest { delivery, token: uuid::Uuid::new_v4(), attempt: AttemptId(uuid::Uuid::now_v7()) };
        let granted = w.store.claim(&[first], Duration::from_secs(60)).await.unwrap().remove(0).1;
        assert!(matches!(granted, Claim::Granted { again: false, .. }), "{granted:?}");
        w.let_claim_end(delivery).await;
        w.round().await;
        assert_eq!(w.state(delivery).await, DeliveryState::Unknown);
        w.let_due(delivery).await;
        w.round().await;
        assert_eq!(w.state(delivery).await, DeliveryState::Retrying);
        let slow = Arc::new(Slow { inner: w.objects.clone(), gate: Semaphore::new(0) });
        let second = Role::over(w.context_with(w.store.clone(), slow.clone()), deliver::worker::run);
        w.let_due(delivery).await;
        w.round().await;
        w.until_state(delivery, DeliveryState::Sending).await;
        SecondClaim { delivery, first, slow, second }
    }

    /// The document is there.
    async fn go_on(self) {
        self.slow.gate.add_permits(10);
        self.second.stop().await;
    }
}

/// The claim can't be granted any more, but it has been. The clock says "go on"; the database says whose mail it is.
#[tokio::test]
async fn a_late_acceptance_between_the_second_claim_and_its_call_stops_the_call() {
    let w = World::new().await;
    let claimed = SecondClaim::of(&w).await;
    let (delivery, first) = (claimed.delivery, claimed.first);
    let loaded = w.store.load_deliveries(&[delivery]).await.unwrap().remove(0);
    let late = AttemptResult {
        delivery,
        tenant: loaded.tenant,
        identity: loaded.identity,
        token: first.token,
        attempt: first.attempt,
        calls: serde_json::json!([]),
        result: Recorded::Sent { provider: "ses".into(), provider_message_id: "m".into() },
    };
    w.store.record_late(&[late], false).await.unwrap();
    claimed.go_on().await;
    assert_eq!((w.state(delivery).await, w.calls()), (DeliveryState::Sent, (0, 0)), "it was sent once, by the first");
}

/// Found by chaos: an event is kept in one commit and has its effect in another, and the second claim came in between.
#[tokio::test]
async fn an_event_that_is_kept_and_has_had_no_effect_yet_stops_the_second_call() {
    let w = World::new().await;
    let claimed = SecondClaim::of(&w).await;
    let delivery = claimed.delivery;
    w.sql(
        "INSERT INTO provider_events (provider, event_id, delivery_id, provider_message_id, kind)
         VALUES ('ses', 'e', $1, 'm', 'delivered')",
        &[delivery.0],
    )
    .await;
    claimed.go_on().await;
    assert_eq!((w.state(delivery).await, w.calls()), (DeliveryState::Sent, (0, 0)), "it was sent once, by the first");
    w.round().await;
    assert_eq!(w.state(delivery).await, DeliveryState::Delivered);
}

/// The same with an event that speaks of no acceptance.
#[tokio::test]
async fn an_event_about_a_refusal_stops_nothing() {
    let w = World::new().await;
    let claimed = SecondClaim::of(&w).await;
    let delivery = claimed.delivery;
    w.sql(
        "INSERT INTO provider_events (provider, event_id, delivery_id, kind) VALUES ('ses', 'e', $1, 'dropped')",
        &[delivery.0],
    )
    .await;
    claimed.go_on().await;
    assert_eq!((w.state(delivery).await, w.calls()), (DeliveryState::Sent, (1, 0)));
}

#[tokio::test]
async fn a_claim_that_gets_too_short_during_a_pass_is_given_up_before_the_next_call() {
    let w = World::new().await;
    w.ses.then(Step::Hang(unavailable()));
    let delivery = w.delivery().await;
    let worker = w.worker();
    w.until("the first call", async || w.ses.calls().len() == 1).await;
    w.clock.advance(Duration::from_secs(54));
    w.ses.release();
    worker.stop().await;
    let seen = w.see(delivery).await;
    assert_eq!((seen.state, seen.attempts, seen.position), (DeliveryState::Retrying, 0, 1));
    w.round().await;
    w.work().await;
    assert_eq!((w.state(delivery).await, w.calls()), (DeliveryState::Sent, (1, 1)), "the pass went on where it was");
    w.check().await;
}

#[tokio::test]
async fn a_stop_in_the_middle_of_a_pass_ends_it_with_the_call_it_is_in_and_burns_no_attempt() {
    let w = World::new().await;
    w.ses.then(Step::Hang(unavailable()));
    let delivery = w.delivery().await;
    let worker = w.worker();
    w.until("the first call", async || w.ses.calls().len() == 1).await;
    worker.life.soft.cancel();
    w.ses.release();
    worker.stop().await;
    let seen = w.see(delivery).await;
    assert_eq!((seen.state, seen.attempts, seen.position, w.calls()), (DeliveryState::Retrying, 0, 1, (1, 0)));
    w.until_empty(QueueName::Delivery).await;
    w.round().await;
    w.work().await;
    assert_eq!((w.state(delivery).await, w.calls()), (DeliveryState::Sent, (1, 1)));
    w.check().await;
}

#[tokio::test]
async fn a_stop_waits_for_a_call_that_was_begun_and_records_it() {
    let w = World::new().await;
    w.ses.then(Step::After(Duration::from_millis(300), accepted()));
    let delivery = w.delivery().await;
    let worker = w.worker();
    w.until("the call", async || w.ses.calls().len() == 1).await;
    worker.stop().await;
    assert_eq!(w.state(delivery).await, DeliveryState::Sent);
    w.check().await;
}

#[tokio::test]
async fn sqs_04_a_message_received_while_stopping_is_put_back_at_once() {
    let w = World::with(|setup| {
        setup.settings.queue_wait = Duration::from_secs(3);
        setup.settings.worker_pollers = 1;
    })
    .await;
    let delivery = w.delivery().await;
    let before = w.queue.receive(QueueName::Delivery, 10, Duration::ZERO, Duration::from_secs(60)).await.unwrap();
    let worker = w.worker();
    tokio::time::sleep(Duration::from_millis(100)).await;
    worker.life.soft.cancel();
    let back = (before[0].receipt.clone(), Duration::ZERO);
    w.queue.change_visibility_batch(QueueName::Delivery, &[back]).await.unwrap();
    worker.stop().await;
    let shown = w.queue.peek(QueueName::Delivery);
    assert_eq!((shown.len(), shown[0].hidden, shown[0].receive_count), (1, false, 2));
    assert_eq!((w.state(delivery).await, w.calls()), (DeliveryState::Pending, (0, 0)));
}

#[tokio::test]
async fn a_message_that_comes_twice_at_once_is_claimed_once_and_sent() {
    let w = World::new().await;
    let (blocker, delivery) = (w.delivery().await, w.delivery().await);
    w.lose_messages(QueueName::Delivery).await;
    // The claim statement of another delivery takes long, so that both messages of ours meet in the next one.
    let held = w.hold_row(blocker).await;
    w.send(QueueName::Delivery, &encode(&DeliveryMessage::new(blocker))).await;
    let worker = w.worker();
    w.until_blocked(1).await;
    for _ in 0..2 {
        w.send(QueueName::Delivery, &encode(&DeliveryMessage::new(delivery))).await;
        w.until("it was received", async || w.queue.peek(QueueName::Delivery).iter().all(|m| m.hidden)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    held.rollback().await.unwrap();
    w.until_state(delivery, DeliveryState::Sent).await;
    w.until_empty(QueueName::Delivery).await;
    worker.stop().await;
    assert_eq!(w.accepted().len(), 2);
    assert_eq!(w.number("SELECT count(*) FROM attempts").await, 2);
    w.check().await;
}

#[tokio::test]
async fn a_late_result_and_that_of_the_new_claim_in_one_statement_are_told_apart() {
    let w = World::new().await;
    w.on_unknown("failover").await;
    for outcome in [accepted(), accepted(), unavailable()] {
        w.ses.then(Step::Hang(outcome));
    }
    w.sendgrid.script([unavailable()]);
    let blocker = w.delivery().await;
    let worker = w.worker();
    w.until("its call", async || w.ses.calls().len() == 1).await;
    let delivery = w.delivery().await;
    w.until("the first call of ours", async || w.ses.calls().len() == 2).await;
    w.let_claim_end(delivery).await;
    w.round().await;
    w.until("the second one, under a new claim", async || w.ses.calls().len() == 3).await;
    // The result of another delivery takes long, so that both of ours meet in the next statement.
    let held = w.hold_row(blocker).await;
    w.ses.release();
    w.until_blocked(1).await;
    w.ses.release();
    w.ses.release();
    w.until("the new claim's pass is over", async || w.sendgrid.calls().len() == 1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    held.rollback().await.unwrap();
    w.until_state(delivery, DeliveryState::Sent).await;
    worker.stop().await;
    assert_eq!(w.number("SELECT count(*) FROM late_results WHERE outcome = 'sent'").await, 1);
    w.check().await;
}

#[tokio::test]
async fn pg_05_no_connection_is_held_while_providers_are_called() {
    let w = World::new().await;
    let recipients: Vec<String> = (0..20).map(|n| format!("r{n}@example.test")).collect();
    let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
    for _ in 0..20 {
        w.ses.then(Step::Hang(accepted()));
    }
    w.routed(&w.event(&recipients)).await;
    let worker = w.worker();
    w.until("twenty calls at once, over eight connections", async || w.ses.calls().len() == 20).await;
    w.until("all of them are back in the pool", async || w.store.pool().num_idle() == w.store.pool().size() as usize)
        .await;
    for _ in 0..20 {
        w.ses.release();
    }
    w.until_empty(QueueName::Delivery).await;
    worker.stop().await;
    assert_eq!(w.accepted().len(), 20);
    w.check().await;
}

#[tokio::test]
async fn a_message_that_could_not_be_deleted_comes_back_and_finds_its_delivery_sent() {
    let w = World::with(|setup| setup.settings.timings.visibility_timeout = Duration::from_millis(300)).await;
    let delivery = w.delivery().await;
    w.queue.fail_next_deletes(1);
    w.work().await;
    assert_eq!((w.state(delivery).await, w.calls()), (DeliveryState::Sent, (1, 0)));
    w.check().await;
}
