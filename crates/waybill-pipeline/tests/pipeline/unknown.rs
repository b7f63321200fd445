//! Where nobody can know: unknown outcomes, late results and workers that die.

use crate::world::World;
use std::time::Duration;
use uuid::Uuid;
use waybill_core::{
    ids::DeliveryId,
    mail::OutgoingMail,
    outcome::Outcome,
    ports::{AlertCause, FeedbackEvent, FeedbackKind, QueueName},
    state::{DeliveryState, Reason},
};
use waybill_pipeline::feedback;
use waybill_store::SettleByHand;
use waybill_testkit::fakes::{FakeProvider, Step};

fn unknown() -> Outcome {
    Outcome::Unknown { detail: "timed out".into() }
}

fn accepted() -> Outcome {
    Outcome::Accepted { provider_message_id: "m".into() }
}

pub(crate) fn told(delivery: DeliveryId, kind: FeedbackKind) -> FeedbackEvent {
    FeedbackEvent {
        provider: "ses",
        event_id: Uuid::new_v4().to_string(),
        delivery: Some(delivery),
        attempt: None,
        provider_message_id: Some("m".into()),
        kind,
        at: None,
        detail: String::new(),
    }
}

#[tokio::test]
async fn under_reconcile_an_unknown_outcome_waits_for_the_window_and_then_the_next_provider_is_called() {
    let w = World::new().await;
    w.ses.script([unknown()]);
    let delivery = w.delivery().await;
    w.work().await;
    let seen = w.see(delivery).await;
    assert_eq!((seen.state, seen.position, seen.attempts, w.calls()), (DeliveryState::Unknown, 1, 0, (1, 0)));
    assert!(seen.due_in.is_some_and(|due| due <= 15.0), "{seen:?}");
    w.round().await;
    w.work_on(delivery).await;
    assert_eq!(
        (w.state(delivery).await, w.calls()),
        (DeliveryState::Unknown, (1, 0)),
        "nothing before the window ends"
    );
    w.let_due(delivery).await;
    w.round().await;
    w.work().await;
    let seen = w.see(delivery).await;
    assert_eq!((seen.state, seen.provider.as_deref(), w.calls()), (DeliveryState::Sent, Some("sendgrid"), (1, 1)));
    w.check().await;
}

#[tokio::test]
async fn under_reconcile_a_provider_event_settles_it_without_a_second_call() {
    let w = World::new().await;
    w.ses.script([unknown()]);
    let (job, deliveries) = w.routed(&w.event(&["ana@example.test"])).await;
    w.work().await;
    let summary = feedback::record(&w.context, &[told(deliveries[0], FeedbackKind::Accepted)]).await.unwrap();
    assert_eq!(summary.settled, deliveries);
    assert_eq!(w.job(job).await.0, "COMPLETED");
    w.round().await;
    w.work_on(deliveries[0]).await;
    assert_eq!((w.state(deliveries[0]).await, w.calls()), (DeliveryState::Sent, (1, 0)));
    w.check().await;
}

#[tokio::test]
async fn an_unknown_identity_is_in_progress_for_every_other_delivery_of_it() {
    let w = World::new().await;
    // The lock is lost, so that the claim has to say it.
    w.lock.set_down(true);
    w.ses.script([unknown()]);
    let first = (w.routed(&w.event_about("PO-1", &["ana@example.test"])).await).1[0];
    w.work().await;
    let second = (w.routed(&w.event_about("PO-1", &["ana@example.test"])).await).1[0];
    w.work().await;
    assert_eq!((w.state(first).await, w.state(second).await), (DeliveryState::Unknown, DeliveryState::Pending));
    assert_eq!(w.calls(), (1, 0));
    assert!(w.see(second).await.due_in.is_some_and(|due| due <= 16.0), "it waits for the reconciliation");
    feedback::record(&w.context, &[told(first, FeedbackKind::Delivered)]).await.unwrap();
    w.let_due(second).await;
    w.round().await;
    w.work().await;
    assert_eq!((w.state(first).await, w.state(second).await), (DeliveryState::Delivered, DeliveryState::Duplicate));
    assert_eq!(w.calls(), (1, 0));
}

#[tokio::test]
async fn under_failover_the_next_provider_is_called_at_once() {
    let w = World::new().await;
    w.on_unknown("failover").await;
    w.ses.script([unknown()]);
    let delivery = w.delivery().await;
    w.work().await;
    assert_eq!((w.state(delivery).await, w.calls()), (DeliveryState::Sent, (1, 1)));
    w.check().await;
}

#[tokio::test]
async fn under_hold_nothing_is_sent_again_until_a_person_decides_and_people_are_reminded() {
    let w = World::new().await;
    w.on_unknown("hold").await;
    w.ses.script([unknown()]);
    let delivery = w.delivery().await;
    w.work().await;
    let seen = w.see(delivery).await;
    assert!(
        seen.state == DeliveryState::Unknown && seen.held && seen.due_in.is_some_and(|due| due > 80_000.0),
        "{seen:?}"
    );
    w.let_due(delivery).await;
    w.round().await;
    w.work_on(delivery).await;
    let seen = w.see(delivery).await;
    assert!(seen.state == DeliveryState::Unknown && seen.held, "{seen:?}");
    assert!(seen.due_in.is_some_and(|due| due > 80_000.0), "looked at again tomorrow: {seen:?}");
    let alerts = w.alerts.of(AlertCause::RowsStuck);
    assert_eq!(alerts.len(), 1, "somebody has to decide: {alerts:?}");
    assert!(w.store.settle_by_hand(delivery, &SettleByHand::Resend).await.unwrap());
    w.round().await;
    w.work().await;
    assert_eq!((w.state(delivery).await, w.calls()), (DeliveryState::Sent, (1, 1)));
    w.check().await;
}

/// A delivery whose worker is frozen in its call, and whose claim was taken away.
async fn frozen(w: &World, outcome: Outcome) -> (DeliveryId, crate::acts::Role) {
    w.ses.then(Step::Hang(outcome));
    let delivery = w.delivery().await;
    let worker = w.worker();
    w.until("the call", async || w.ses.calls().len() == 1).await;
    // It takes nothing new; what it has begun goes on.
    worker.life.soft.cancel();
    w.until("nobody polls", async || w.queue.requests() == w.settled_requests().await).await;
    w.let_claim_end(delivery).await;
    w.round().await;
    (delivery, worker)
}

#[tokio::test]
async fn a_late_acceptance_makes_it_sent_and_no_second_mail_goes_out() {
    for (policy, state) in [("reconcile", DeliveryState::Unknown), ("failover", DeliveryState::Retrying)] {
        let w = World::new().await;
        w.on_unknown(policy).await;
        let (delivery, worker) = frozen(&w, accepted()).await;
        w.lose_messages(QueueName::Delivery).await;
        assert_eq!((w.state(delivery).await, w.see(delivery).await.crashes), (state, 1));
        w.clock.advance(Duration::from_secs(61));
        w.ses.release();
        worker.stop().await;
        assert_eq!(w.state(delivery).await, DeliveryState::Sent, "{policy}");
        let late = w.number("SELECT count(*) FROM late_results WHERE outcome = 'sent' AND frozen").await;
        assert_eq!(late, 1, "{policy}: counted apart, for its worker overslept its claim");
        w.work_on(delivery).await;
        w.round().await;
        assert_eq!(w.calls(), (1, 0), "{policy}");
        w.check().await;
    }
}

#[tokio::test]
async fn a_late_refusal_changes_nothing() {
    let w = World::new().await;
    let (delivery, worker) = frozen(&w, Outcome::RejectedRecipient { detail: String::new() }).await;
    w.ses.release();
    worker.stop().await;
    assert_eq!(w.state(delivery).await, DeliveryState::Unknown);
    assert_eq!(w.number("SELECT count(*) FROM late_results WHERE outcome = 'failed' AND NOT frozen").await, 1);
    w.let_due(delivery).await;
    w.round().await;
    w.work().await;
    assert_eq!(w.state(delivery).await, DeliveryState::Sent, "the reconciliation goes on");
    w.check().await;
}

#[tokio::test]
async fn worker_crashed_after_three_crashes_under_failover() {
    let w = World::new().await;
    w.on_unknown("failover").await;
    let (job, deliveries) = w.routed(&w.event(&["ana@example.test", "ben@example.test"])).await;
    let (poison, neighbour) = (deliveries[0], deliveries[1]);
    for crash in 1..=3 {
        assert_eq!(w.see(poison).await.crashes, crash - 1);
        w.crash(poison).await;
        w.round().await;
    }
    let seen = w.see(poison).await;
    assert_eq!((seen.state, seen.reason, seen.dead), (DeliveryState::Failed, Some(Reason::WorkerCrashed), true));
    assert_eq!((w.dead_entries(), w.alerts.of(AlertCause::DeadLetter)[0].key.as_str()), (1, "worker_crashed"));
    w.work().await;
    assert_eq!((w.state(neighbour).await, w.accepted()), (DeliveryState::Sent, vec![neighbour]), "the rest goes on");
    w.until("its job has ended", async || w.job(job).await.0 == "PARTLY_FAILED").await;
    w.check().await;
}

#[tokio::test]
async fn worker_crashed_after_three_crashes_under_reconcile() {
    let w = World::new().await;
    let delivery = w.delivery().await;
    for crash in 1..=3 {
        w.crash(delivery).await;
        w.round().await;
        assert_eq!((w.state(delivery).await, w.see(delivery).await.crashes), (DeliveryState::Unknown, crash));
        w.let_due(delivery).await;
        w.round().await;
    }
    let seen = w.see(delivery).await;
    assert_eq!((seen.state, seen.reason, seen.dead), (DeliveryState::Failed, Some(Reason::WorkerCrashed), true));
    assert_eq!((w.dead_entries(), w.alerts.of(AlertCause::DeadLetter).len()), (1, 1));
    w.work().await;
    assert_eq!(w.calls(), (0, 0));
    w.check().await;
}

#[tokio::test]
async fn a_crash_under_hold_waits_for_a_person() {
    let w = World::new().await;
    w.on_unknown("hold").await;
    let delivery = w.delivery().await;
    for crash in 1..=3 {
        w.crash(delivery).await;
        w.round().await;
        w.let_due(delivery).await;
        w.round().await;
        let seen = w.see(delivery).await;
        assert_eq!((seen.state, seen.held, seen.crashes), (DeliveryState::Unknown, true, crash));
        if crash < 3 {
            assert!(w.store.settle_by_hand(delivery, &SettleByHand::Resend).await.unwrap());
        }
    }
    let by_hand = SettleByHand::Sent { provider: "ses".into(), provider_message_id: None };
    assert!(w.store.settle_by_hand(delivery, &by_hand).await.unwrap());
    w.work().await;
    assert_eq!((w.state(delivery).await, w.calls()), (DeliveryState::Sent, (0, 0)));
}

/// A world whose first provider knows idempotency keys.
async fn with_keys() -> World {
    World::with(|setup| setup.ses = FakeProvider::new("resend").with_events().with_keys(Duration::from_secs(86_400)))
        .await
}

#[tokio::test]
async fn a_provider_with_a_key_is_asked_again_after_the_window_and_the_next_one_is_not_called() {
    let w = with_keys().await;
    w.ses.script([unknown()]);
    let delivery = w.delivery().await;
    w.work().await;
    let seen = w.see(delivery).await;
    assert_eq!((seen.state, seen.position, seen.attempts), (DeliveryState::Unknown, 1, 0));
    w.let_due(delivery).await;
    w.round().await;
    w.work().await;
    let seen = w.see(delivery).await;
    assert_eq!((seen.state, seen.provider.as_deref(), w.calls()), (DeliveryState::Sent, Some("resend"), (2, 0)));
    w.check().await;
}

#[tokio::test]
async fn the_repeated_call_is_the_same_mail_but_for_its_attempt() {
    let w = with_keys().await;
    w.need_documents().await;
    w.ses.script([unknown()]);
    let delivery = w.delivery().await;
    let (renderers, worker) = (w.renderers(), w.worker());
    w.until_state(delivery, DeliveryState::Unknown).await;
    w.let_due(delivery).await;
    w.round().await;
    w.until_state(delivery, DeliveryState::Sent).await;
    renderers.stop().await;
    worker.stop().await;
    let calls = w.ses.calls();
    assert_eq!(calls.len(), 2);
    assert_ne!(calls[0].attempt, calls[1].attempt);
    let again = OutgoingMail { attempt: calls[0].attempt, ..calls[1].clone() };
    assert_eq!(format!("{again:?}"), format!("{:?}", calls[0]));
    assert!(!again.attachments.is_empty());
}

#[tokio::test]
async fn under_failover_a_provider_with_a_key_is_asked_again_at_once() {
    let w = with_keys().await;
    w.on_unknown("failover").await;
    w.ses.script([unknown()]);
    let delivery = w.delivery().await;
    w.work().await;
    assert_eq!((w.state(delivery).await, w.calls()), (DeliveryState::Sent, (2, 0)));
    w.check().await;
}

#[tokio::test]
async fn a_provider_with_a_key_that_stays_silent_is_followed_by_the_next_one() {
    let w = with_keys().await;
    w.ses.script([unknown(), unknown()]);
    let delivery = w.delivery().await;
    w.work().await;
    for position in [1, 2] {
        let seen = w.see(delivery).await;
        assert_eq!((seen.state, seen.position), (DeliveryState::Unknown, position));
        w.let_due(delivery).await;
        w.round().await;
        w.work().await;
    }
    assert_eq!((w.state(delivery).await, w.calls()), (DeliveryState::Sent, (2, 1)));
    w.check().await;
}
