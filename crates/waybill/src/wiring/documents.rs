//! Where documents are kept and who renders them, by configuration.

use crate::config::{Config, ObjectsChoice, RendererChoice};
use anyhow::Context as _;
use std::sync::Arc;
use waybill_aws::{LambdaConfig, LambdaRenderer, S3Objects};
use waybill_core::ports::{ObjectStore, Renderer};
use waybill_local::{DiskObjects, LocalRenderer};

/// # Errors
/// When the folder can't be made.
pub(super) async fn objects(config: &Config) -> anyhow::Result<Arc<dyn ObjectStore>> {
    Ok(match &config.adapters.objects {
        ObjectsChoice::Disk { folder } => {
            Arc::new(DiskObjects::new(folder).with_context(|| format!("the data folder {}", folder.display()))?)
        }
        ObjectsChoice::S3 { bucket } => {
            let aws = waybill_aws::load(config.adapters.region.clone()).await;
            Arc::new(S3Objects::new(&aws, bucket.clone()))
        }
    })
}

pub(super) async fn renderer(config: &Config, objects: Arc<dyn ObjectStore>) -> Arc<dyn Renderer> {
    match &config.adapters.renderer {
        RendererChoice::Local => Arc::new(LocalRenderer::new(objects, config.settings.render_concurrency)),
        RendererChoice::Lambda { function, timeout } => {
            let aws = waybill_aws::load(config.adapters.region.clone()).await;
            let lambda = LambdaConfig { function: function.clone(), timeout: *timeout };
            Arc::new(LambdaRenderer::new(&aws, lambda, objects, waybill_render::template_version))
        }
    }
}
