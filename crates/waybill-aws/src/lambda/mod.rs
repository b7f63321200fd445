//! Documents rendered by a Lambda.
//!
//! One synchronous invocation per call and no retry of ours or the SDK's: the document's row is the only one that retries. An answer
//! with status 200 proves nothing, not even that the function ran to its end, and what it says is only compared with the object that
//! stands at the key. A render that outlives the caller's patience is harmless: it writes conditionally, and the next call finds its
//! document.

mod answer;
mod errors;

pub use answer::{Said, read_answer};
use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_lambda::{
    config::{Builder, StalledStreamProtectionConfig, retry::RetryConfig, timeout::TimeoutConfig},
    primitives::Blob,
    types::InvocationType,
};
use sha2::{Digest, Sha256};
use std::{sync::Arc, time::Duration};
use waybill_core::ports::{
    ObjectStore, RenderFailure, RenderRequest, RenderedDocument, Renderer, renderer_contract::RenderOrder,
};

/// A synchronous invocation has to be smaller (AWS Lambda developer guide, "Lambda quotas": 6 MB).
pub const MAX_PAYLOAD_BYTES: usize = 6 * 1024 * 1024;

const CONNECT: Duration = Duration::from_secs(3);

#[derive(Debug, Clone)]
pub struct LambdaConfig {
    /// Name or ARN, with or without a version or alias.
    pub function: String,
    /// How long an answer is waited for: longer than the function's own timeout, or its answer is lost, and shorter than the pipeline's
    /// render timeout, which includes reading the object.
    pub timeout: Duration,
}

/// The [`waybill_core::ports::Renderer`] that invokes a function.
pub struct LambdaRenderer {
    client: aws_sdk_lambda::Client,
    config: LambdaConfig,
    objects: Arc<dyn ObjectStore>,
    /// Version of a document type's template, as this build knows it.
    template_version: fn(&str) -> Option<i32>,
}

impl LambdaRenderer {
    pub fn new(
        aws: &SdkConfig,
        config: LambdaConfig,
        objects: Arc<dyn ObjectStore>,
        template_version: fn(&str) -> Option<i32>,
    ) -> Self {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT.min(config.timeout))
            // Later than the deadline of the whole, which says in our words what happened; of two at one moment either may be first.
            .read_timeout(config.timeout + Duration::from_secs(1))
            .operation_timeout(config.timeout)
            .build();
        let lambda = Builder::from(aws)
            .retry_config(RetryConfig::disabled())
            .timeout_config(timeouts)
            // A function that thinks for long is not a stalled connection.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .build();
        Self { client: aws_sdk_lambda::Client::from_conf(lambda), config, objects, template_version }
    }

    fn payload(&self, request: &RenderRequest) -> Result<Vec<u8>, RenderFailure> {
        let document_type = &request.document_type;
        let template_version = self
            .template_version(document_type)
            .ok_or_else(|| RenderFailure::Permanent(format!("there is no document type `{document_type}`")))?;
        let payload = serde_json::to_vec(&RenderOrder::new(request, template_version))
            .map_err(|e| RenderFailure::Permanent(format!("the order can't be written: {e}")))?;
        if payload.len() >= MAX_PAYLOAD_BYTES {
            return Err(RenderFailure::Permanent(format!(
                "the document's data is too large for the renderer: its order has {} octets and has to be below {MAX_PAYLOAD_BYTES}",
                payload.len()
            )));
        }
        Ok(payload)
    }

    async fn invoke(&self, payload: Vec<u8>) -> Result<Said, RenderFailure> {
        let call = self.client.invoke().function_name(&self.config.function);
        let call = call.invocation_type(InvocationType::RequestResponse).payload(Blob::new(payload));
        let answer = call.send().await.map_err(|error| errors::not_invoked(&self.config, &error))?;
        let payload = answer.payload().map_or(&[][..], AsRef::as_ref);
        read_answer(answer.status_code(), answer.function_error(), payload)
    }

    /// What stands at the key, if it can be a document.
    async fn look(&self, key: &str) -> Result<RenderedDocument, RenderFailure> {
        let found = self.objects.get(key).await.map_err(|e| RenderFailure::of_objects(&e))?;
        let bytes = found.ok_or_else(|| {
            RenderFailure::Temporary("the renderer reported success and the object is not there".into())
        })?;
        if !bytes.starts_with(b"%PDF-") {
            return Err(RenderFailure::Temporary(format!("the object ({} octets) is not a PDF", bytes.len())));
        }
        Ok(RenderedDocument { size: bytes.len() as u64, sha256: Sha256::digest(&bytes).into() })
    }

    async fn ask(&self, request: &RenderRequest) -> Result<RenderedDocument, RenderFailure> {
        let payload = self.payload(request)?;
        let said = self.invoke(payload).await?;
        let known = self.template_version(&request.document_type);
        if known != Some(said.template_version) {
            return Err(RenderFailure::Temporary(format!(
                "the renderer has version {} of the template and this build has {}",
                said.template_version,
                known.unwrap_or_default()
            )));
        }
        let found = self.look(&request.object_key).await?;
        if found != said.document {
            // Whole, a PDF, and not the one that was meant: somebody finished first, and a mail with it may be under way.
            tracing::warn!(said_octets = said.document.size, octets = found.size, "renderer.another_document_there");
        }
        Ok(found)
    }
}

#[async_trait]
impl Renderer for LambdaRenderer {
    async fn render(&self, request: &RenderRequest) -> Result<RenderedDocument, RenderFailure> {
        let rendered = self.ask(request).await;
        let result = match &rendered {
            Ok(_) => "rendered",
            Err(RenderFailure::Permanent(_)) => "permanent",
            Err(RenderFailure::Temporary(_)) => "temporary",
            Err(RenderFailure::Denied(_)) => "denied",
        };
        metrics::counter!("waybill_renderer_calls_total", "result" => result).increment(1);
        rendered
    }

    fn template_version(&self, document_type: &str) -> Option<i32> {
        (self.template_version)(document_type)
    }
}
