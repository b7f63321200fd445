//! Documents rendered by a Lambda.

use aws_config::SdkConfig;
use std::{sync::Arc, time::Duration};
use waybill_core::ports::ObjectStore;

#[derive(Debug, Clone)]
pub struct LambdaConfig {
    /// Name or ARN, with or without a version or alias.
    pub function: String,
    /// How long an answer is waited for: longer than the function's own timeout, or its answer is lost.
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
        Self { client: aws_sdk_lambda::Client::new(aws), config, objects, template_version }
    }
}
