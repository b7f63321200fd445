//! The shared AWS configuration: region, credentials and endpoints by the default chain (`AWS_REGION`, `AWS_ENDPOINT_URL`,
//! `AWS_ENDPOINT_URL_SQS`, …; container and instance roles).

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig};

/// Reads the environment once. Retries are off: each adapter says for itself what may be repeated.
pub async fn load(region: Option<String>) -> SdkConfig {
    let mut loader = aws_config::defaults(BehaviorVersion::latest()).retry_config(RetryConfig::disabled());
    if let Some(region) = region {
        loader = loader.region(Region::new(region));
    }
    loader.load().await
}
