//! Alerts to an SNS topic.

use aws_config::SdkConfig;

/// The [`waybill_core::ports::AlertSink`] that publishes to one topic.
pub struct SnsAlerts {
    client: aws_sdk_sns::Client,
    topic_arn: String,
}

impl SnsAlerts {
    pub fn new(config: &SdkConfig, topic_arn: impl Into<String>) -> Self {
        Self { client: aws_sdk_sns::Client::new(config), topic_arn: topic_arn.into() }
    }
}
