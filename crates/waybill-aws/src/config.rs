//! The shared AWS configuration: region, credentials and endpoints by the default chain (`AWS_REGION`, `AWS_ENDPOINT_URL`,
//! `AWS_ENDPOINT_URL_SQS`, …; container and instance roles).

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig, timeout::TimeoutConfig};
use std::time::Duration;

/// For the connection; how long an answer may take is up to each operation.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Reads the environment once. Retries are off: each adapter says for itself what may be repeated.
pub async fn load(region: Option<String>) -> SdkConfig {
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT).build());
    if let Some(region) = region {
        loader = loader.region(Region::new(region));
    }
    loader.load().await
}

/// The time-outs of one operation.
pub(crate) fn within(operation: Duration) -> TimeoutConfig {
    TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT).operation_timeout(operation).build()
}
