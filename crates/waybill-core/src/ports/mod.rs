//! The outside world as traits. Every port has one contract suite in `waybill-testkit`, run on every adapter, fakes included.
//!
//! The store is not a port: Postgres is always real.

mod alerts;
mod lock;
mod objects;
mod provider;
mod queue;
pub mod queue_quotas;
mod renderer;
pub mod renderer_contract;

pub use alerts::{Alert, AlertCause, AlertSink};
pub use lock::{Lock, LockAnswer, LockError, LockRequest};
pub use objects::{MAX_OBJECT_KEY_BYTES, ObjectError, ObjectInfo, ObjectStore, PutOutcome, check_object_key};
pub use provider::{FeedbackEvent, FeedbackKind, Provider};
pub use queue::{
    EntryError, MAX_BATCH, MAX_BATCH_BYTES, OutgoingMessage, Queue, QueueDepth, QueueError, QueueName, Receipt,
    ReceivedMessage, split_batches, split_batches_within,
};
pub use renderer::{RenderFailure, RenderRequest, RenderedDocument, Renderer};
