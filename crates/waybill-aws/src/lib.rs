//! The ports on AWS.
//!
//! - [`SqsQueue`]: SQS standard queues. Every entry of a batch has its own answer; what an answer does not mention has failed.
//! - [`S3Objects`]: S3, written conditionally (`If-None-Match: *`).
//! - [`LambdaRenderer`]: asks the renderer's Lambda, and looks at the object itself before it believes the answer.
//! - [`SnsAlerts`]: alerts to an SNS topic. [`EventBridgeBus`]: events to a bus, with one answer per event.
//! - [`provision`]: the queues of [`Topology`] (`infra/topology.json`) on an emulator.
//!
//! The adapters never retry what sends or renders: the pipeline's states are the only ones that retry.

mod batches;
mod config;
mod error;
mod eventbridge;
mod failure;
mod lambda;
mod provision;
mod s3;
mod sns;
mod sqs;
mod topology;

pub use config::load;
pub use error::AwsError;
pub use eventbridge::{BusError, BusEvent, EventBridgeBus};
pub use lambda::{LambdaConfig, LambdaRenderer, MAX_PAYLOAD_BYTES, Said, read_answer};
pub use provision::provision;
pub use s3::{MAX_OBJECT_BYTES, S3Objects, content_disposition};
pub use sns::SnsAlerts;
pub use sqs::{SqsConfig, SqsQueue};
pub use topology::{DeadLetterQueues, SourceQueue, Topology};
