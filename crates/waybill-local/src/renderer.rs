//! Typesetting in this process.

use async_trait::async_trait;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tokio::sync::Semaphore;
use waybill_core::ports::{ObjectStore, PutOutcome, RenderFailure, RenderRequest, RenderedDocument, Renderer};

/// Renders on blocking threads, no more than so many at a time; the others wait in line.
pub struct LocalRenderer {
    objects: Arc<dyn ObjectStore>,
    slots: Arc<Semaphore>,
}

impl LocalRenderer {
    /// `threads`: renders at a time, at least 1. Each takes one core for some tens of milliseconds.
    pub fn new(objects: Arc<dyn ObjectStore>, threads: usize) -> Self {
        Self { objects, slots: Arc::new(Semaphore::new(threads.max(1))) }
    }

    async fn typeset(&self, request: &RenderRequest) -> Result<Bytes, RenderFailure> {
        let slot = self.slots.clone().acquire_owned().await.map_err(|e| RenderFailure::Temporary(e.to_string()))?;
        let (document_type, data) = (request.document_type.clone(), request.data.clone());
        let rendered = tokio::task::spawn_blocking(move || {
            let rendered = waybill_render::render(&document_type, &data);
            // With the thread, not with the caller: who stops waiting does not stop the work.
            drop(slot);
            rendered
        });
        match rendered.await {
            Ok(Ok(pdf)) => Ok(Bytes::from(pdf.bytes)),
            Ok(Err(error)) if error.is_permanent() => Err(RenderFailure::Permanent(error.to_string())),
            Ok(Err(error)) => Err(RenderFailure::Temporary(error.to_string())),
            // A panic of the typesetter; the number of attempts is bounded by the caller.
            Err(_) => Err(RenderFailure::Temporary("the typesetter panicked".into())),
        }
    }
}

#[async_trait]
impl Renderer for LocalRenderer {
    async fn render(&self, request: &RenderRequest) -> Result<RenderedDocument, RenderFailure> {
        let mut bytes = self.typeset(request).await?;
        let put = self.objects.put_if_absent(&request.object_key, bytes.clone(), "application/pdf").await;
        match put.map_err(|e| RenderFailure::of_objects(&e))? {
            PutOutcome::Created => {}
            PutOutcome::Existed => {
                let found = self.objects.get(&request.object_key).await.map_err(|e| RenderFailure::of_objects(&e))?;
                bytes = found.ok_or_else(|| RenderFailure::Temporary("the object vanished".into()))?;
            }
        }
        Ok(RenderedDocument { size: bytes.len() as u64, sha256: Sha256::digest(&bytes).into() })
    }

    fn template_version(&self, document_type: &str) -> Option<i32> {
        waybill_render::template_version(document_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use waybill_testkit::{
        contract,
        fakes::{FakeObjects, ObjectCall, ObjectFault},
    };

    const EXAMPLE: &str = include_str!("../../../examples/purchase-order.json");

    fn data() -> Value {
        serde_json::from_str::<Value>(EXAMPLE).unwrap()["data"].take()
    }

    fn request(key: &str) -> RenderRequest {
        RenderRequest { document_type: "purchase_order".into(), data: data().to_string(), object_key: key.into() }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn it_keeps_the_contract_of_the_renderer() {
        let objects = Arc::new(FakeObjects::new());
        let mut other = data();
        other["order_number"] = "PO-9999".into();
        contract::renderer::run(contract::renderer::Subject {
            renderer: &LocalRenderer::new(objects.clone(), 2),
            objects: objects.as_ref(),
            document_type: "purchase_order",
            good_data: &data().to_string(),
            other_data: &other.to_string(),
            bad_data: "{}",
        })
        .await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_store_that_fails_is_temporary_and_a_lost_answer_ends_in_the_same_document() {
        let objects = Arc::new(FakeObjects::new());
        let renderer = LocalRenderer::new(objects.clone(), 1);
        objects.fail_next(ObjectCall::Put, ObjectFault::Denied);
        let denied = renderer.render(&request("a.pdf")).await;
        assert!(matches!(denied, Err(RenderFailure::Denied(_))), "{denied:?}");
        for fault in [ObjectFault::Unavailable, ObjectFault::AnswerLost] {
            objects.fail_next(ObjectCall::Put, fault);
            let failed = renderer.render(&request("a.pdf")).await;
            assert!(matches!(failed, Err(RenderFailure::Temporary(_))), "{fault:?}: {failed:?}");
        }
        let document = renderer.render(&request("a.pdf")).await.unwrap();
        let stored = objects.get("a.pdf").await.unwrap().unwrap();
        assert_eq!((document.size, document.sha256), (stored.len() as u64, Sha256::digest(&stored).into()));
        let refused = renderer.render(&request("../a.pdf")).await;
        assert!(matches!(refused, Err(RenderFailure::Permanent(_))), "{refused:?}");
    }
}
