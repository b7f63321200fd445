use crate::locked;
use async_trait::async_trait;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};
use tokio::sync::Semaphore;
use waybill_core::ports::{ObjectStore, PutOutcome, RenderFailure, RenderRequest, RenderedDocument, Renderer};

/// Writes a small stand-in that starts like a PDF and holds the data, so that a test can read what went in.
pub struct FakeRenderer {
    objects: Arc<dyn ObjectStore>,
    types: Mutex<HashMap<String, i32>>,
    script: Mutex<VecDeque<RenderFailure>>,
    requests: Mutex<Vec<RenderRequest>>,
    /// `Some`: each render waits for one permit.
    gate: Mutex<Option<Arc<Semaphore>>>,
}

impl FakeRenderer {
    /// Knows `purchase_order` at version 1.
    pub fn new(objects: Arc<dyn ObjectStore>) -> Self {
        Self {
            objects,
            types: Mutex::new(HashMap::from([("purchase_order".to_owned(), 1)])),
            script: Mutex::default(),
            requests: Mutex::default(),
            gate: Mutex::default(),
        }
    }

    pub fn set_version(&self, document_type: &str, version: i32) {
        locked(&self.types).insert(document_type.into(), version);
    }

    /// The next render fails so; several fail in order.
    pub fn fail_next(&self, failure: RenderFailure) {
        locked(&self.script).push_back(failure);
    }

    /// From now on every render waits for [`FakeRenderer::release`].
    pub fn hold(&self) {
        *locked(&self.gate) = Some(Arc::new(Semaphore::new(0)));
    }

    /// Lets the waiting renders and all later ones go.
    pub fn release(&self) {
        if let Some(gate) = locked(&self.gate).take() {
            gate.close();
        }
    }

    /// Every render that was asked for, in order.
    pub fn requests(&self) -> Vec<RenderRequest> {
        locked(&self.requests).clone()
    }
}

#[async_trait]
impl Renderer for FakeRenderer {
    async fn render(&self, request: &RenderRequest) -> Result<RenderedDocument, RenderFailure> {
        locked(&self.requests).push(request.clone());
        let gate = locked(&self.gate).clone();
        if let Some(gate) = gate {
            // Closed by `release`: there is nothing to be given back.
            let _closed = gate.acquire().await;
        }
        if let Some(failure) = locked(&self.script).pop_front() {
            return Err(failure);
        }
        let Some(version) = self.template_version(&request.document_type) else {
            return Err(RenderFailure::Permanent(format!("no document type `{}`", request.document_type)));
        };
        if !serde_json::from_str::<serde_json::Value>(&request.data).is_ok_and(|data| data.is_object()) {
            return Err(RenderFailure::Permanent("data: must be an object".into()));
        }
        let pdf = format!("%PDF-1.7\n% {} {version}\n% {}\n%%EOF\n", request.document_type, request.data);
        let mut bytes = Bytes::from(pdf);
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
        locked(&self.types).get(document_type).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{contract, fakes::FakeObjects};

    fn request(key: &str) -> RenderRequest {
        RenderRequest { document_type: "purchase_order".into(), data: "{}".into(), object_key: key.into() }
    }

    #[tokio::test]
    async fn the_fake_keeps_the_contract() {
        let objects = Arc::new(FakeObjects::new());
        let renderer = FakeRenderer::new(objects.clone());
        let subject = contract::renderer::Subject {
            renderer: &renderer,
            objects: objects.as_ref(),
            document_type: "purchase_order",
            good_data: r#"{"number":"PO-1"}"#,
            other_data: r#"{"number":"PO-2"}"#,
            bad_data: "[]",
        };
        contract::renderer::run(subject).await;
    }

    #[tokio::test]
    async fn it_fails_by_script_and_waits_when_held() {
        let renderer = Arc::new(FakeRenderer::new(Arc::new(FakeObjects::new())));
        renderer.fail_next(RenderFailure::Temporary("busy".into()));
        assert_eq!(renderer.render(&request("a")).await, Err(RenderFailure::Temporary("busy".into())));
        renderer.hold();
        let waiting = tokio::spawn({
            let renderer = renderer.clone();
            async move { renderer.render(&request("a")).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        renderer.release();
        assert!(waiting.await.unwrap().is_ok());
        assert_eq!(renderer.requests().len(), 2);
    }
}
