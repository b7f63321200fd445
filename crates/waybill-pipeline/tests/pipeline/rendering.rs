//! One render per document, checked, and what its failures do.

use crate::world::World;
use async_trait::async_trait;
use sha2::{Digest, Sha256};
use std::{sync::Arc, time::Duration};
use waybill_core::{
    ids::DeliveryId,
    ports::{AlertCause, ObjectStore, RenderFailure, RenderRequest, RenderedDocument, Renderer},
    state::{DeliveryState, Reason},
};
use waybill_testkit::fakes::{FakeObjects, FakeRenderer, ObjectCall, ObjectFault};

const FIVE: [&str; 5] = ["a@example.test", "b@example.test", "c@example.test", "d@example.test", "e@example.test"];

async fn with_documents() -> World {
    let w = World::new().await;
    w.need_documents().await;
    w
}

async fn document_state(w: &World) -> String {
    sqlx::query_scalar("SELECT state FROM documents").fetch_one(&w.db.pool).await.unwrap()
}

/// FAILED with this reason, as a dead letter.
async fn failed(w: &World, deliveries: &[DeliveryId], reason: Reason) {
    for delivery in deliveries {
        w.until_state(*delivery, DeliveryState::Failed).await;
        let seen = w.see(*delivery).await;
        assert_eq!((seen.reason, seen.dead), (Some(reason), true), "{seen:?}");
    }
    w.until("the entries", async || w.dead_entries() == deliveries.len()).await;
    w.until("the alert", async || w.alerts.of(AlertCause::DeadLetter).len() == 1).await;
    let alert = &w.alerts.of(AlertCause::DeadLetter)[0];
    assert_eq!((alert.key.as_str(), alert.count), (reason.as_str(), deliveries.len() as u64));
    assert_eq!(w.calls(), (0, 0), "no mail without the PDF");
}

#[tokio::test]
async fn pdf_02_two_renderers_and_five_recipients_make_one_render() {
    let w = with_documents().await;
    w.renderer.hold();
    let (one, two, worker) = (w.renderers(), w.renderers(), w.worker());
    let (_, deliveries) = w.routed(&w.event(&FIVE)).await;
    w.until("it renders", async || w.renderer.requests().len() == 1).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!((document_state(&w).await.as_str(), w.calls()), ("RENDERING", (0, 0)), "no mail without the PDF");
    w.renderer.release();
    for delivery in &deliveries {
        w.until_state(*delivery, DeliveryState::Sent).await;
    }
    for role in [one, two, worker] {
        role.stop().await;
    }
    assert_eq!((w.renderer.requests().len(), w.objects.keys().len()), (1, 1));
    assert!(w.ses.accepted().iter().all(|m| m.attachments.len() == 1 && m.attachments[0].bytes.starts_with(b"%PDF-")));
    w.check().await;
}

#[tokio::test]
async fn pdf_02_a_render_that_outlives_its_claim_is_repeated_and_harmless() {
    let w = with_documents().await;
    w.renderer.hold();
    let (_, deliveries) = w.routed(&w.event(&FIVE)).await;
    let frozen = w.renderers();
    w.until("it renders", async || w.renderer.requests().len() == 1).await;
    w.sql("UPDATE documents SET claim_expires_at = now(), due_at = now()", &[]).await;
    let second = w.renderers();
    w.until("it renders again", async || w.renderer.requests().len() == 2).await;
    w.renderer.release();
    frozen.stop().await;
    second.stop().await;
    let worker = w.worker();
    for delivery in &deliveries {
        w.until_state(*delivery, DeliveryState::Sent).await;
    }
    worker.stop().await;
    assert_eq!((w.objects.keys().len(), w.accepted().len()), (1, 5));
    let keys: Vec<_> = w.renderer.requests().into_iter().map(|r| r.object_key).collect();
    assert_eq!(keys[0], keys[1], "one key");
    w.check().await;
}

#[tokio::test]
async fn temporary_failures_are_tried_again_with_backoff() {
    let w = with_documents().await;
    w.renderer.fail_next(RenderFailure::Temporary("busy\0".into()));
    w.objects.fail_next(ObjectCall::Put, ObjectFault::AnswerLost);
    let (renderers, worker) = (w.renderers(), w.worker());
    let (_, deliveries) = w.routed(&w.event(&FIVE)).await;
    for delivery in &deliveries {
        w.until_state(*delivery, DeliveryState::Sent).await;
    }
    renderers.stop().await;
    worker.stop().await;
    assert_eq!(w.number("SELECT attempts::bigint FROM documents").await, 3);
    assert_eq!(w.number("SELECT sum(attempts)::bigint FROM deliveries").await, 5, "no attempts of the deliveries");
    w.check().await;
}

#[tokio::test]
async fn temporary_failures_without_end_fail_the_document_and_its_deliveries_become_dead_letters() {
    let w = with_documents().await;
    for _ in 0..5 {
        w.renderer.fail_next(RenderFailure::Temporary("busy".into()));
    }
    let (job, deliveries) = w.routed(&w.event(&FIVE)).await;
    let renderers = w.renderers();
    failed(&w, &deliveries, Reason::DocumentRenderFailed).await;
    renderers.stop().await;
    assert_eq!((w.renderer.requests().len(), document_state(&w).await.as_str()), (5, "FAILED"));
    assert_eq!(w.job(job).await.0, "FAILED");
    w.check().await;
}

#[tokio::test]
async fn pdf_03_access_that_is_denied_may_still_be_mended_and_is_called_so_when_it_is_not() {
    let w = with_documents().await;
    w.objects.fail_next(ObjectCall::Get, ObjectFault::Denied);
    let (renderers, worker) = (w.renderers(), w.worker());
    let (_, deliveries) = w.routed(&w.event(&FIVE)).await;
    for delivery in &deliveries {
        w.until_state(*delivery, DeliveryState::Sent).await;
    }
    renderers.stop().await;
    worker.stop().await;
    assert_eq!(w.number("SELECT attempts::bigint FROM documents").await, 2);

    let w = with_documents().await;
    for _ in 0..5 {
        w.objects.fail_next(ObjectCall::Put, ObjectFault::Denied);
    }
    let (_, deliveries) = w.routed(&w.event(&FIVE)).await;
    let renderers = w.renderers();
    failed(&w, &deliveries, Reason::DocumentAccessDenied).await;
    renderers.stop().await;
    assert_eq!(w.renderer.requests().len(), 5);
    assert!(w.see(deliveries[0]).await.detail.contains("denied"));
    w.check().await;
}

#[tokio::test]
async fn a_permanent_failure_is_final_at_once() {
    let w = with_documents().await;
    w.renderer.fail_next(RenderFailure::Permanent("data: `number` is missing\0".into()));
    let (_, deliveries) = w.routed(&w.event(&FIVE)).await;
    let renderers = w.renderers();
    failed(&w, &deliveries, Reason::DocumentRenderFailed).await;
    renderers.stop().await;
    assert_eq!(w.renderer.requests().len(), 1);
    assert!(w.see(deliveries[0]).await.detail.contains("`number` is missing"));
    w.check().await;
}

#[tokio::test]
async fn a_render_that_hangs_is_cut_off_and_tried_again() {
    let w = World::with(|setup| setup.settings.timings.document.render_timeout = Duration::from_millis(100)).await;
    w.need_documents().await;
    w.renderer.hold();
    let delivery = w.delivery().await;
    let (renderers, worker) = (w.renderers(), w.worker());
    w.until("it renders again", async || w.renderer.requests().len() == 2).await;
    w.renderer.release();
    w.until_state(delivery, DeliveryState::Sent).await;
    renderers.stop().await;
    worker.stop().await;
    w.check().await;
}

#[tokio::test]
async fn renders_that_kill_their_process_run_out_of_attempts_too() {
    let w = with_documents().await;
    let (_, deliveries) = w.routed(&w.event(&FIVE)).await;
    for _ in 0..5 {
        let claimed = w.store.claim_documents(1, Duration::ZERO, &[uuid::Uuid::new_v4()]).await.unwrap();
        assert_eq!(claimed.len(), 1, "its last claim is over");
    }
    let renderers = w.renderers();
    failed(&w, &deliveries, Reason::DocumentRenderFailed).await;
    renderers.stop().await;
    assert_eq!(w.renderer.requests().len(), 0, "not a sixth time");
    w.check().await;
}

/// Says that it rendered; what it wrote is another matter.
struct Liar {
    objects: Arc<FakeObjects>,
    writes: Option<&'static [u8]>,
    size: u64,
}

#[async_trait]
impl Renderer for Liar {
    async fn render(&self, request: &RenderRequest) -> Result<RenderedDocument, RenderFailure> {
        if let Some(bytes) = self.writes {
            self.objects.put_if_absent(&request.object_key, bytes.into(), "application/pdf").await.unwrap();
        }
        Ok(RenderedDocument { size: self.size, sha256: Sha256::digest(b"%PDF-1.7 what was meant").into() })
    }

    fn template_version(&self, document_type: &str) -> Option<i32> {
        FakeRenderer::new(self.objects.clone()).template_version(document_type)
    }
}

#[tokio::test]
async fn pdf_01_a_renderer_that_lies_is_not_believed_and_no_mail_goes_out() {
    let cases: [(Option<&'static [u8]>, u64, &str); 4] = [
        (None, 23, "not there"),
        (Some(b"<html>504 Gateway Timeout</html>"), 32, "not a PDF"),
        (Some(b"%PDF-1.7 what was mean"), 23, "octets"),
        (Some(b"%PDF-1.7 something else"), 23, "SHA-256"),
    ];
    for (writes, size, detail) in cases {
        let w = World::with(|setup| {
            setup.settings.timings.document.max_attempts = 2;
            setup.renderer = Some(Arc::new(Liar { objects: setup.objects.clone(), writes, size }));
        })
        .await;
        w.need_documents().await;
        let (_, deliveries) = w.routed(&w.event(&FIVE)).await;
        let renderers = w.renderers();
        failed(&w, &deliveries, Reason::DocumentRenderFailed).await;
        renderers.stop().await;
        let seen = w.see(deliveries[0]).await;
        assert!(seen.detail.contains(detail), "{}", seen.detail);
        w.check().await;
    }
}
