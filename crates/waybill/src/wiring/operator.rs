//! What an operator's command works with: the database and the queue, and nothing that sends, locks or renders.

use super::{WiredQueue, alerter, check_schema, connect_store, queue};
use crate::{
    config::Config,
    system::{SystemChance, SystemClock},
};
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;
use waybill_core::ports::{
    ObjectError, ObjectInfo, ObjectStore, PutOutcome, RenderFailure, RenderRequest, RenderedDocument, Renderer,
};
use waybill_local::InProcessLock;
use waybill_pipeline::context::Context;
use waybill_store::Store;

/// The database and the queue of the service.
pub(crate) struct Operator {
    pub(crate) store: Store,
    pub(crate) queue: WiredQueue,
    config: Config,
}

impl Operator {
    /// # Errors
    /// What can't be reached or is configured wrongly.
    pub(crate) async fn connect(config: Config) -> anyhow::Result<Self> {
        let store = connect_store(&config).await?;
        check_schema(&store).await?;
        let queue = queue(&config, &store, None).await?;
        Ok(Self { store, queue, config })
    }

    /// For the use cases that only move rows and messages.
    ///
    /// # Errors
    /// When an alert sink can't be made.
    pub(crate) async fn context(&self) -> anyhow::Result<Context> {
        let nothing = Arc::new(Nothing);
        Ok(Context {
            alerts: alerter(&self.config, &self.store).await?,
            store: self.store.clone(),
            queue: self.queue.port.clone(),
            lock: Arc::new(InProcessLock::new()),
            objects: nothing.clone(),
            renderer: nothing,
            providers: Vec::new(),
            clock: Arc::new(SystemClock::new()),
            chance: Arc::new(SystemChance),
            settings: self.config.settings.clone(),
            documents_bell: tokio::sync::Notify::new(),
        })
    }
}

/// Objects and renderer of a process that has none.
struct Nothing;

const WHY: &str = "an operator's command has no documents";

#[async_trait]
impl ObjectStore for Nothing {
    async fn put_if_absent(&self, _: &str, _: Bytes, _: &str) -> Result<PutOutcome, ObjectError> {
        Err(ObjectError::Unavailable(WHY.into()))
    }

    async fn get(&self, _: &str) -> Result<Option<Bytes>, ObjectError> {
        Err(ObjectError::Unavailable(WHY.into()))
    }

    async fn head(&self, _: &str) -> Result<Option<ObjectInfo>, ObjectError> {
        Err(ObjectError::Unavailable(WHY.into()))
    }
}

#[async_trait]
impl Renderer for Nothing {
    async fn render(&self, _: &RenderRequest) -> Result<RenderedDocument, RenderFailure> {
        Err(RenderFailure::Temporary(WHY.into()))
    }

    fn template_version(&self, document_type: &str) -> Option<i32> {
        waybill_render::template_version(document_type)
    }
}
