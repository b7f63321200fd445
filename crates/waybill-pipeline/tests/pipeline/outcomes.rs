//! What the outcomes of provider calls lead to.

use crate::world::World;
use std::time::Duration;
use waybill_core::{
    outcome::Outcome,
    ports::{AlertCause, QueueName},
    state::{DeliveryState, Reason},
};

fn detail() -> String {
    "the provider's words\0".into()
}

#[tokio::test]
async fn ses_01_while_every_account_is_unusable_it_holds_burns_no_attempts_and_rings_once() {
    let w = World::new().await;
    w.ses.otherwise(Some(Outcome::Unusable { detail: detail() }));
    w.sendgrid.otherwise(Some(Outcome::Unusable { detail: detail() }));
    let (_, deliveries) = w.routed(&w.event(&["ana@example.test", "ben@example.test", "eva@example.test"])).await;
    for pass in 1..=4 {
        w.work().await;
        for delivery in &deliveries {
            let seen = w.see(*delivery).await;
            assert_eq!((seen.state, seen.attempts, seen.position), (DeliveryState::Retrying, 0, 0), "pass {pass}");
            assert!(seen.not_before_in.is_some_and(|wait| (50.0..=60.0).contains(&wait)), "{seen:?}");
            w.let_due(*delivery).await;
        }
        w.round().await;
    }
    let keys: Vec<_> = w.alerts.of(AlertCause::ProviderFailing).into_iter().map(|a| a.key).collect();
    assert_eq!(keys, ["ses", "sendgrid"], "one alert per account, however many deliveries");
    assert_eq!(w.alerts.raised().len(), 2);
    // Somebody repaired one account.
    w.sendgrid.otherwise(None);
    w.work().await;
    assert_eq!(w.accepted().len(), 3);
    w.check().await;
}

#[tokio::test]
async fn a_rejected_recipient_ends_it_without_another_provider_and_is_no_dead_letter() {
    let w = World::new().await;
    w.ses.script([Outcome::RejectedRecipient { detail: detail() }]);
    let (job, deliveries) = w.routed(&w.event(&["ana@example.test"])).await;
    w.work().await;
    let seen = w.see(deliveries[0]).await;
    assert_eq!((seen.state, seen.reason, seen.dead), (DeliveryState::Failed, Some(Reason::RecipientRejected), false));
    assert!(seen.detail.contains("the provider's words"), "{}", seen.detail);
    assert_eq!((w.calls(), w.dead_entries(), w.alerts.raised().len()), ((1, 0), 0, 0));
    w.until("the job is FAILED", async || w.job(job).await.0 == "FAILED").await;
    w.check().await;
}

#[tokio::test]
async fn a_rejected_message_goes_to_the_next_provider_and_fails_only_when_nobody_takes_it() {
    let w = World::new().await;
    let rejected = || Outcome::RejectedMessage { detail: detail() };
    w.ses.script([rejected(), rejected()]);
    w.sendgrid.script([Outcome::Accepted { provider_message_id: "m".into() }, rejected()]);
    let first = w.delivery().await;
    w.work().await;
    let second = w.delivery().await;
    w.work().await;
    let (first, second) = (w.see(first).await, w.see(second).await);
    assert_eq!((first.state, first.provider.as_deref()), (DeliveryState::Sent, Some("sendgrid")));
    assert_eq!(
        (second.state, second.reason, second.dead),
        (DeliveryState::Failed, Some(Reason::ProviderRejected), false)
    );
    w.check().await;
}

#[tokio::test]
async fn retry_after_is_obeyed_also_by_a_repeated_message_that_comes_early() {
    let w = World::new().await;
    let throttled = |seconds| Outcome::Throttled { retry_after: Some(Duration::from_secs(seconds)), detail: detail() };
    w.ses.script([throttled(300)]);
    w.sendgrid.script([throttled(120)]);
    let delivery = w.delivery().await;
    w.work().await;
    let seen = w.see(delivery).await;
    // A limit is not a failed attempt: it may be met for as long as it stands.
    assert_eq!((seen.state, seen.attempts), (DeliveryState::Retrying, 0));
    assert!(seen.not_before_in.is_some_and(|wait| (290.0..=300.0).contains(&wait)), "{seen:?}");
    w.round().await;
    assert!(w.queue.peek(QueueName::Delivery).is_empty(), "not queued before its time");
    w.work_on(delivery).await;
    assert_eq!((w.calls(), w.state(delivery).await), ((1, 1), DeliveryState::Retrying));
    assert!(w.see(delivery).await.due_in.is_some_and(|due| due > 280.0), "the row still remembers when");
    w.let_due(delivery).await;
    w.round().await;
    w.work().await;
    assert_eq!((w.calls(), w.state(delivery).await), ((2, 1), DeliveryState::Sent));
    w.check().await;
}

#[tokio::test]
async fn attempts_that_run_out_end_in_a_dead_letter_with_its_reason_an_entry_and_an_alert() {
    let w = World::new().await;
    let down = || Some(Outcome::Unavailable { detail: detail() });
    w.ses.otherwise(down());
    w.sendgrid.otherwise(down());
    let (job, deliveries) = w.routed(&w.event(&["ana@example.test"])).await;
    w.work().await;
    for _ in 0..2 {
        w.let_due(deliveries[0]).await;
        w.round().await;
        w.work().await;
    }
    let seen = w.see(deliveries[0]).await;
    assert_eq!((seen.state, seen.reason, seen.dead), (DeliveryState::Failed, Some(Reason::ProvidersExhausted), true));
    assert_eq!((seen.attempts, w.calls(), w.dead_entries()), (3, (3, 3), 1));
    let alerts = w.alerts.of(AlertCause::DeadLetter);
    assert_eq!((alerts.len(), alerts[0].key.as_str()), (1, "providers_exhausted"));
    w.until("the job is FAILED", async || w.job(job).await.0 == "FAILED").await;
    w.check().await;
}

#[tokio::test]
async fn an_expired_a_cancelled_and_an_older_delivery_make_no_call() {
    let w = World::new().await;
    let expired = w.delivery().await;
    w.sql("UPDATE deliveries SET expires_at = now() WHERE id = $1", &[expired.0]).await;
    let (job, cancelled) = w.routed(&w.event(&["ana@example.test"])).await;
    w.sql("UPDATE jobs SET cancel_requested_at = now() WHERE id = $1", &[job.0]).await;
    w.work().await;
    assert_eq!(w.state(expired).await, DeliveryState::Expired);
    assert_eq!(w.state(cancelled[0]).await, DeliveryState::Cancelled);
    // An edit of an order overtakes the first version, which waits for its retry.
    w.ses.script([Outcome::Unavailable { detail: detail() }]);
    w.sendgrid.script([Outcome::Unavailable { detail: detail() }]);
    let older = (w.routed(&w.event_about("PO-edited", &["ana@example.test"])).await).1[0];
    w.work().await;
    let mut edit = w.event_about("PO-edited", &["ana@example.test"]);
    edit.revision = Some("2".into());
    let newer = (w.routed(&edit).await).1[0];
    w.work().await;
    assert_eq!((w.state(older).await, w.state(newer).await), (DeliveryState::Retrying, DeliveryState::Sent));
    w.let_due(older).await;
    w.round().await;
    w.work().await;
    let seen = w.see(older).await;
    assert_eq!((seen.state, seen.other), (DeliveryState::Superseded, Some(newer)));
    assert_eq!(w.accepted(), [newer]);
    w.check().await;
}
