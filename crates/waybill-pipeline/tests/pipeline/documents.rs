//! Deliveries that wait for documents.

use crate::world::World;
use std::time::Duration;
use waybill_core::{
    outcome::Outcome,
    ports::{AlertCause, QueueName},
    state::{DeliveryState, Reason},
};
use waybill_pipeline::router;

async fn with_documents() -> World {
    let w = World::new().await;
    w.need_documents().await;
    w
}

#[tokio::test]
async fn a_document_that_becomes_ready_between_a_router_s_decision_and_its_commit_leaves_nobody_waiting() {
    let w = with_documents().await;
    let (renderers, worker) = (w.renderers(), w.worker());
    let mut all = Vec::new();
    for round in 0..25 {
        let subject = format!("PO-shared-{round}");
        let first = w.accept(&w.event_about(&subject, &["a@example.test", "b@example.test"])).await;
        let second = w.accept(&w.event_about(&subject, &["c@example.test", "d@example.test"])).await;
        router::route(&w.context, &[first]).await.unwrap();
        // The render runs by now; the second job meets it at another moment in each round.
        tokio::time::sleep(Duration::from_micros(round * 400)).await;
        router::route(&w.context, &[second]).await.unwrap();
        all.extend(w.deliveries(first).await);
        all.extend(w.deliveries(second).await);
    }
    for delivery in &all {
        // Without the scheduler's help.
        w.until_state(*delivery, DeliveryState::Sent).await;
    }
    renderers.stop().await;
    worker.stop().await;
    assert_eq!((w.renderer.requests().len(), w.accepted().len()), (25, 100));
    w.check().await;
}

#[tokio::test]
async fn a_message_that_comes_before_its_document_is_put_off_and_costs_no_attempt() {
    let w = with_documents().await;
    let delivery = w.delivery().await;
    assert!(w.queue.peek(QueueName::Delivery).is_empty(), "a delivery that waits has no message");
    w.work_on(delivery).await;
    let seen = w.see(delivery).await;
    assert_eq!((seen.state, seen.attempts, w.calls()), (DeliveryState::WaitingDocument, 0, (0, 0)));
    assert!(seen.due_in.is_some_and(|due| due <= 10.0));
    let (renderers, worker) = (w.renderers(), w.worker());
    w.until_state(delivery, DeliveryState::Sent).await;
    renderers.stop().await;
    worker.stop().await;
    w.check().await;
}

#[tokio::test]
async fn a_document_too_large_for_one_provider_goes_to_the_next() {
    let w = with_documents().await;
    w.ses.script([Outcome::RejectedMessage { detail: "too large".into() }]);
    let delivery = w.delivery().await;
    let (renderers, worker) = (w.renderers(), w.worker());
    w.until_state(delivery, DeliveryState::Sent).await;
    renderers.stop().await;
    worker.stop().await;
    let sent = w.sendgrid.accepted();
    assert_eq!((w.ses.calls().len(), sent.len(), sent[0].attachments.len()), (1, 1, 1));
    w.check().await;
}

#[tokio::test]
async fn a_deadline_that_passes_fails_the_delivery_with_that_reason() {
    // The scheduler comes first, or the renderer does, or a message does.
    for who in ["scheduler", "renderer", "worker"] {
        let w = with_documents().await;
        let (job, deliveries) = w.routed(&w.event(&["ana@example.test"])).await;
        w.sql("UPDATE documents SET deadline_at = now() - interval '1 minute'", &[]).await;
        match who {
            "scheduler" => {
                w.let_due(deliveries[0]).await;
                w.round().await;
            }
            "renderer" => {
                let renderers = w.renderers();
                w.until_state(deliveries[0], DeliveryState::Failed).await;
                renderers.stop().await;
            }
            _ => {
                w.sql("UPDATE documents SET state = 'FAILED', reason = 'document_deadline', due_at = NULL", &[]).await;
                w.work_on(deliveries[0]).await;
            }
        }
        let seen = w.see(deliveries[0]).await;
        assert_eq!(
            (seen.state, seen.reason, seen.dead),
            (DeliveryState::Failed, Some(Reason::DocumentDeadline), true),
            "{who}"
        );
        assert_eq!((w.dead_entries(), w.calls()), (1, (0, 0)), "{who}");
        assert_eq!(w.alerts.of(AlertCause::DeadLetter)[0].key, "document_deadline", "{who}");
        w.until("the job has ended", async || w.job(job).await.0 == "FAILED").await;
        w.check().await;
    }
}

#[tokio::test]
async fn an_object_that_is_missing_when_it_is_to_be_sent_is_rendered_again_and_no_provider_is_called_before() {
    let w = with_documents().await;
    let (_, deliveries) = w.routed(&w.event(&["ana@example.test"])).await;
    let renderers = w.renderers();
    w.until("its message", async || w.queue.peek(QueueName::Delivery).len() == 1).await;
    renderers.stop().await;
    w.objects.remove(&w.objects.keys().remove(0));
    w.work().await;
    let seen = w.see(deliveries[0]).await;
    assert_eq!((seen.state, seen.attempts, w.calls()), (DeliveryState::Retrying, 1, (0, 0)));
    assert!(seen.detail.contains("object is not there"), "{}", seen.detail);
    assert_eq!(w.alerts.of(AlertCause::ProviderFailing).len(), 0, "no provider's fault");
    // Until it is there again, no attempt is used.
    w.let_due(deliveries[0]).await;
    w.round().await;
    w.work().await;
    let seen = w.see(deliveries[0]).await;
    assert_eq!((seen.state, seen.attempts, w.calls()), (DeliveryState::Retrying, 1, (0, 0)));
    let renderers = w.renderers();
    w.until("the object", async || w.objects.keys().len() == 1).await;
    renderers.stop().await;
    w.let_due(deliveries[0]).await;
    w.round().await;
    w.work().await;
    assert_eq!(w.state(deliveries[0]).await, DeliveryState::Sent);
    w.check().await;
}

#[tokio::test]
async fn a_job_that_needs_a_document_which_failed_before_ends_at_once_with_an_entry_and_an_alert() {
    let w = with_documents().await;
    let first = w.event_about("PO-1", &["ana@example.test"]);
    w.routed(&first).await;
    w.sql("UPDATE documents SET state = 'FAILED', reason = 'document_render_failed', due_at = NULL", &[]).await;
    let (job, deliveries) =
        w.routed(&w.event_about("PO-1", &["ben@example.test", "no-longer-ascii-é@example.test"])).await;
    let mut reasons = Vec::new();
    for delivery in &deliveries {
        let seen = w.see(*delivery).await;
        assert_eq!(seen.state, DeliveryState::Failed);
        reasons.push((seen.reason, seen.dead));
    }
    let expected = [(Some(Reason::DocumentRenderFailed), true), (Some(Reason::UnsupportedAddress), false)];
    assert_eq!(reasons, expected);
    assert_eq!(w.dead_entries(), 1, "the operator's copy of the dead letter");
    assert_eq!(w.alerts.of(AlertCause::DeadLetter).len(), 1);
    assert_eq!(w.job(job).await.0, "FAILED");
    w.check().await;
}

#[tokio::test]
async fn deliveries_of_a_failed_document_whose_process_died_before_it_told_them_end_in_one_round() {
    let w = with_documents().await;
    let delivery = w.delivery().await;
    w.sql("UPDATE documents SET state = 'FAILED', reason = 'document_render_failed', due_at = NULL", &[]).await;
    w.round().await;
    let seen = w.see(delivery).await;
    assert_eq!((seen.state, seen.reason, seen.dead), (DeliveryState::Failed, Some(Reason::DocumentRenderFailed), true));
    assert_eq!((w.dead_entries(), w.alerts.of(AlertCause::DeadLetter).len()), (1, 1));
    w.check().await;
}
