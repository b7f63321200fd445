//! Events to an EventBridge bus.

use aws_config::SdkConfig;

/// One event bus ("Custom Event Bus - Classic").
pub struct EventBridgeBus {
    client: aws_sdk_eventbridge::Client,
    bus: String,
}

impl EventBridgeBus {
    pub fn new(config: &SdkConfig, bus: impl Into<String>) -> Self {
        Self { client: aws_sdk_eventbridge::Client::new(config), bus: bus.into() }
    }
}
