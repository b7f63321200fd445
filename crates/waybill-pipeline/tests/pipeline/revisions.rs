//! Order between revisions of one thing: never an older one after a newer one, whatever happens between the look and the claim.

use crate::world::World;
use std::time::Duration;
use waybill_core::{
    event::Event,
    ids::{AttemptId, DeliveryId},
    outcome::Outcome,
    ports::QueueName,
    state::DeliveryState,
};
use waybill_store::{AttemptResult, ClaimRequest, Recorded};
use waybill_testkit::fakes::Step;

fn accepted() -> Outcome {
    Outcome::Accepted { provider_message_id: "m".into() }
}

impl World {
    fn edit(&self, revision: Option<&str>, content: &str) -> Event {
        let mut event = self.event_about("PO-edited", &["ana@example.test"]);
        event.revision = revision.map(str::to_owned);
        event.data = waybill_core::json::Json::String(content.into());
        event
    }

    async fn routed_edit(&self, revision: Option<&str>, content: &str) -> DeliveryId {
        (self.routed(&self.edit(revision, content)).await).1[0]
    }

    /// Another worker claims it and sends it.
    pub(crate) async fn sent_elsewhere(&self, delivery: DeliveryId) {
        let request = ClaimRequest { delivery, token: uuid::Uuid::new_v4(), attempt: AttemptId(uuid::Uuid::now_v7()) };
        self.store.claim(&[request], Duration::from_secs(60)).await.unwrap();
        let loaded = self.store.load_deliveries(&[delivery]).await.unwrap().remove(0);
        let result = AttemptResult {
            delivery,
            tenant: loaded.tenant,
            identity: loaded.identity,
            token: request.token,
            attempt: request.attempt,
            calls: serde_json::json!([]),
            result: Recorded::Sent { provider: "ses".into(), provider_message_id: "m".into() },
        };
        assert_eq!(self.store.record_results(&[result]).await.unwrap(), [delivery]);
    }
}

#[tokio::test]
async fn a_newer_revision_that_goes_out_between_the_look_and_the_claim_stops_the_older_one() {
    let w = World::new().await;
    let (older, newer) = (w.routed_edit(Some("1"), "a").await, w.routed_edit(Some("2"), "b").await);
    w.lose_messages(QueueName::Delivery).await;
    let held = w.hold_row(older).await;
    w.send(QueueName::Delivery, &waybill_core::message::encode(&waybill_core::message::DeliveryMessage::new(older)))
        .await;
    let worker = w.worker();
    // It was loaded, and found nothing newer; its claim waits for the row.
    w.until_blocked(1).await;
    w.sent_elsewhere(newer).await;
    held.rollback().await.unwrap();
    w.until_state(older, DeliveryState::Superseded).await;
    worker.stop().await;
    assert_eq!((w.see(older).await.other, w.calls()), (Some(newer), (0, 0)));
    w.check().await;
}

#[tokio::test]
async fn a_newer_revision_waits_in_its_row_while_an_older_one_is_at_a_provider() {
    let w = World::new().await;
    w.ses.then(Step::Hang(accepted()));
    let older = w.routed_edit(Some("1"), "a").await;
    let worker = w.worker();
    w.until("the first call", async || w.ses.calls().len() == 1).await;
    let newer = w.routed_edit(Some("2"), "b").await;
    w.until("its message is handled", async || w.queue.peek(QueueName::Delivery).len() == 1).await;
    let seen = w.see(newer).await;
    assert_eq!((seen.state, w.calls()), (DeliveryState::Pending, (1, 0)));
    assert!(seen.due_in.is_some_and(|due| due <= 2.0), "{seen:?}");
    w.ses.release();
    w.until_state(older, DeliveryState::Sent).await;
    w.let_due(newer).await;
    w.round().await;
    w.until_state(newer, DeliveryState::Sent).await;
    worker.stop().await;
    assert_eq!(w.accepted(), [older, newer]);
    w.check().await;
}

#[tokio::test]
async fn an_older_revision_waits_while_a_newer_one_is_at_a_provider_and_is_superseded_by_it() {
    let w = World::new().await;
    w.ses.then(Step::Hang(accepted()));
    let older = w.routed_edit(Some("1"), "a").await;
    w.lose_messages(QueueName::Delivery).await;
    let newer = w.routed_edit(Some("2"), "b").await;
    let worker = w.worker();
    w.until("the first call", async || w.ses.calls().len() == 1).await;
    w.let_due(older).await;
    w.round().await;
    w.until("its message is handled", async || w.queue.peek(QueueName::Delivery).len() == 1).await;
    assert_eq!((w.state(older).await, w.calls()), (DeliveryState::Pending, (1, 0)));
    w.ses.release();
    w.until_state(newer, DeliveryState::Sent).await;
    w.let_due(older).await;
    w.round().await;
    w.until_state(older, DeliveryState::Superseded).await;
    worker.stop().await;
    assert_eq!(w.accepted(), [newer]);
    w.check().await;
}

/// Without revisions: the recipient ends with what was accepted last, also when that is what it began with.
#[tokio::test]
async fn an_order_that_is_edited_back_is_sent_again() {
    let w = World::new().await;
    let first = w.routed_edit(None, "a").await;
    w.work().await;
    let edit = w.routed_edit(None, "b").await;
    w.work().await;
    let (back, twin) = (w.routed_edit(None, "a").await, w.routed_edit(None, "a").await);
    w.work().await;
    // The lock of the first one is still held and keeps nobody waiting; of the two that came back one is sent.
    w.sql("UPDATE deliveries SET due_at = now() WHERE due_at IS NOT NULL", &[]).await;
    w.round().await;
    w.work().await;
    let mut states = [w.state(back).await, w.state(twin).await];
    states.sort_by_key(|s| s.as_str());
    assert_eq!(states, [DeliveryState::Duplicate, DeliveryState::Sent]);
    let accepted = w.accepted();
    assert_eq!((accepted.len(), &accepted[..2]), (3, &[first, edit][..]));
    w.check_rows().await;
}

/// Found by `cargo xtask chaos --profile providers --seed 1`: the lock of the first one, which was sent, held up the retry of what came back
/// until the lock ran out (5 min).
#[tokio::test]
async fn an_order_that_is_edited_back_is_retried_although_the_first_one_still_holds_the_lock() {
    let w = World::new().await;
    w.routed_edit(None, "a").await;
    w.work().await;
    w.routed_edit(None, "b").await;
    w.work().await;
    w.ses.then(Step::Answer(Outcome::Unavailable { detail: "away".into() }));
    w.sendgrid.then(Step::Answer(Outcome::Unavailable { detail: "away".into() }));
    let back = w.routed_edit(None, "a").await;
    w.work().await;
    assert_eq!(w.state(back).await, DeliveryState::Retrying);
    w.sql("UPDATE deliveries SET due_at = now(), not_before = now() WHERE due_at IS NOT NULL", &[]).await;
    w.round().await;
    w.work().await;
    assert_eq!((w.state(back).await, w.accepted().len()), (DeliveryState::Sent, 3));
    w.check_rows().await;
}

#[tokio::test]
async fn an_edit_that_was_taken_back_before_it_went_out_is_not_sent() {
    let w = World::new().await;
    let first = w.routed_edit(None, "a").await;
    w.work().await;
    let edit = w.routed_edit(None, "b").await;
    w.lose_messages(QueueName::Delivery).await;
    let back = w.routed_edit(None, "a").await;
    w.work().await;
    assert_eq!((w.state(back).await, w.see(back).await.other), (DeliveryState::Duplicate, Some(first)));
    w.work_on(edit).await;
    assert_eq!((w.state(edit).await, w.see(edit).await.other), (DeliveryState::Superseded, Some(first)));
    assert_eq!(w.accepted(), [first]);
    w.check().await;
}
