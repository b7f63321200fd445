//! Documents: rendered once each, however many recipients wait.
//!
//! The rows of `documents` are the work list: a renderer claims what is due, renders without a connection, checks the result, and only
//! then wakes the deliveries that wait. So a delivery message is sent when its document is there, and waiting costs no queue requests, no
//! worker slot and no attempt.

use crate::{
    batcher::Batcher,
    context::{Context, Lifecycle},
    deliver::dead_letter_by_id,
    router::send_delivery_messages,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;
use tracing::{info, warn};
use waybill_core::{
    ids::DocumentId,
    ports::{RenderFailure, RenderRequest, RenderedDocument},
    state::Reason,
    text::storable,
};
use waybill_store::{ClaimedDocument, DocumentFailed, DocumentReady, StoreError};

/// Looks for due documents this often when no bell rings.
const IDLE: Duration = Duration::from_millis(500);
/// Deliveries woken at a time.
const WAKE: i64 = 1_000;

/// Renders until `life` stops; returns when the renders in flight are recorded.
pub async fn run(context: Arc<Context>, life: Lifecycle) {
    let slots = context.settings.render_concurrency.max(1);
    let permits = Arc::new(Semaphore::new(slots));
    let ready = {
        let context = context.clone();
        Batcher::spawn(50, 1, move |done: Vec<Ready>| wake(context.clone(), done))
    };
    while !life.stopping() {
        let rung = context.documents_bell.notified();
        let free = permits.available_permits();
        let claimed = if free == 0 { Vec::new() } else { claim(&context, free).await };
        let found = claimed.len();
        for document in claimed {
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            let (context, ready) = (context.clone(), ready.clone());
            tokio::spawn(async move {
                render(&context, document, &ready).await;
                drop(permit);
            });
        }
        if free == 0 {
            // Wait for a slot, not for the bell.
            tokio::select! {
                () = life.soft.cancelled() => {}
                permit = permits.acquire() => drop(permit),
            }
        } else if found < free {
            tokio::select! {
                () = life.soft.cancelled() => {}
                () = rung => {}
                () = tokio::time::sleep(IDLE) => {}
            }
        }
    }
    tokio::select! {
        _ = permits.acquire_many(slots as u32) => {}
        () = life.hard.cancelled() => warn!("documents.stopped_with_renders_in_flight"),
    }
}

async fn claim(context: &Context, free: usize) -> Vec<ClaimedDocument> {
    let tokens: Vec<_> = (0..free).map(|_| context.chance.token()).collect();
    match context.store.claim_documents(free as i64, context.settings.timings.document.claim_ttl, &tokens).await {
        Ok(claimed) => claimed,
        Err(error) => {
            warn!(error = &error as &dyn std::error::Error, "documents.claim_failed");
            Vec::new()
        }
    }
}

/// A checked render, waiting to be recorded with its neighbours.
struct Ready {
    id: DocumentId,
    token: uuid::Uuid,
    document: RenderedDocument,
}

async fn render(context: &Context, document: ClaimedDocument, ready: &Batcher<Ready, ()>) {
    let timings = &context.settings.timings.document;
    if document.attempts > timings.max_attempts {
        return give_up(context, &document, Reason::DocumentRenderFailed, "its renders started and never ended".into())
            .await;
    }
    if document.deadline_in.is_zero() {
        return give_up(
            context,
            &document,
            Reason::DocumentDeadline,
            "its deadline passed before it was rendered".into(),
        )
        .await;
    }
    let request = RenderRequest {
        document_type: document.document_type.clone(),
        data: document.data.clone(),
        object_key: document.object_key.clone(),
    };
    let started = context.clock.monotonic();
    let rendered = match tokio::time::timeout(timings.render_timeout, context.renderer.render(&request)).await {
        Ok(Ok(rendered)) => check(context, &document.object_key, rendered).await,
        Ok(Err(failure)) => Err(failure),
        Err(_) => Err(RenderFailure::Temporary(format!("the render took longer than {:?}", timings.render_timeout))),
    };
    metrics::histogram!("waybill_render_seconds")
        .record(context.clock.monotonic().saturating_sub(started).as_secs_f64());
    if let Err(RenderFailure::Denied(_)) = rendered {
        metrics::counter!("waybill_documents_denied_total").increment(1);
    }
    match rendered {
        Ok(rendered) => drop(ready.submit(Ready { id: document.id, token: document.token, document: rendered }).await),
        Err(failure @ (RenderFailure::Temporary(_) | RenderFailure::Denied(_)))
            if document.attempts < timings.max_attempts =>
        {
            let detail = failure.to_string();
            let delay = timings.backoff(document.attempts, context.chance.unit());
            info!(document = %document.id, attempt = document.attempts, delay_ms = delay.as_millis() as u64, "documents.render_retry");
            if let Err(error) =
                context.store.record_document_retry(document.id, document.token, delay, &storable(&detail, 500)).await
            {
                // The claim expires and the document is due again.
                warn!(document = %document.id, error = &error as &dyn std::error::Error, "documents.retry_not_recorded");
            }
        }
        Err(RenderFailure::Denied(detail)) => give_up(context, &document, Reason::DocumentAccessDenied, detail).await,
        Err(RenderFailure::Permanent(detail) | RenderFailure::Temporary(detail)) => {
            give_up(context, &document, Reason::DocumentRenderFailed, detail).await
        }
    }
}

/// What a renderer says is not believed: the object has to be there, of that size and content, and a PDF.
async fn check(context: &Context, key: &str, said: RenderedDocument) -> Result<RenderedDocument, RenderFailure> {
    use sha2::{Digest, Sha256};
    let bytes = context.objects.get(key).await.map_err(|e| RenderFailure::of_objects(&e))?;
    let bytes = bytes
        .ok_or_else(|| RenderFailure::Temporary("the renderer reported success and the object is not there".into()))?;
    if !bytes.starts_with(b"%PDF-") {
        return Err(RenderFailure::Temporary("the object is not a PDF".into()));
    }
    let found = RenderedDocument { size: bytes.len() as u64, sha256: Sha256::digest(&bytes).into() };
    if found != said {
        return Err(RenderFailure::Temporary(format!(
            "the renderer reported {} octets and the object has {} (or its SHA-256 differs)",
            said.size, found.size
        )));
    }
    Ok(found)
}

/// Marks documents READY, then, in a statement of its own, wakes the deliveries that wait. The second can't miss a delivery that a
/// router inserted meanwhile: the router's transaction holds a share lock on the document's row, so the first waits for it.
async fn wake(context: Arc<Context>, done: Vec<Ready>) -> Vec<()> {
    let rows: Vec<_> = done
        .iter()
        .map(|r| DocumentReady { id: r.id, token: r.token, size: r.document.size, sha256: r.document.sha256 })
        .collect();
    match context.store.record_document_ready(&rows).await {
        Ok(ready) => {
            metrics::counter!("waybill_documents_ready_total").increment(ready.len() as u64);
            if let Err(error) = wake_waiting(&context, &ready).await {
                // The scheduler finds READY documents that are still waited for.
                warn!(documents = ready.len(), error = &error as &dyn std::error::Error, "documents.wake_failed");
            }
        }
        Err(error) => {
            warn!(documents = rows.len(), error = &error as &dyn std::error::Error, "documents.ready_not_recorded")
        }
    }
    done.iter().map(|_| ()).collect()
}

/// Queues the deliveries that wait for READY documents. Returns how many.
///
/// # Errors
/// [`StoreError`]; what was not queued is found by the scheduler.
pub(crate) async fn wake_waiting(context: &Context, documents: &[DocumentId]) -> Result<usize, StoreError> {
    let mut woken = 0;
    loop {
        let waiting = context.store.release_waiting(documents, context.settings.timings.requeue_after, WAKE).await?;
        let deliveries: Vec<_> = waiting.iter().map(|(delivery, tenant)| (*tenant, *delivery)).collect();
        send_delivery_messages(context, &deliveries).await;
        woken += deliveries.len();
        if deliveries.len() < WAKE as usize {
            return Ok(woken);
        }
    }
}

async fn give_up(context: &Context, document: &ClaimedDocument, reason: Reason, detail: String) {
    warn!(document = %document.id, attempts = document.attempts, reason = reason.as_str(), "documents.failed");
    let detail = storable(&detail, 500);
    let failed = context
        .store
        .record_document_failed(&[DocumentFailed { id: document.id, token: document.token, reason, detail }])
        .await;
    let result = match failed {
        Ok(failed) => fail_waiting(context, &failed).await.map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = result {
        warn!(document = %document.id, error = &error as &dyn std::error::Error, "documents.failure_not_recorded");
    }
}

/// Fails the deliveries that wait for FAILED documents, with the documents' reason; they are dead letters, since it is our side's fault.
pub(crate) async fn fail_waiting(context: &Context, documents: &[DocumentId]) -> Result<usize, StoreError> {
    let failed = context.store.fail_waiting(documents).await?;
    dead_letter_by_id(context, &failed, Reason::DocumentRenderFailed).await?;
    Ok(failed.len())
}
