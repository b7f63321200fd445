//! The embedded adapters: everything Waybill needs of the outside world, from Postgres, a directory and the process itself.
//!
//! `waybill dev` and small installations (`waybill all`) run on these, with the same guarantees on one machine; what outgrows them moves
//! to SQS, S3, Lambda and Redis by configuration.
//!
//! - [`LocalQueue`]: the semantics of SQS standard queues on one table. At least once, unordered, fair between tenants.
//! - [`DiskObjects`]: finished documents in a directory. A key is written once, whole, and is on disk when the call returns.
//! - [`InProcessLock`]: the Redis lock's semantics for the tasks of one process.
//! - [`LocalRenderer`]: typesetting on a bounded number of threads, into any object store.
//!
//! What they refuse: messages that SQS would refuse (so that moving to SQS brings no surprise), keys that are no plain relative paths.
//!
//! Invariants:
//! - One SQL statement per queue request; no transaction and no connection is held between two of them, waiting included.
//! - A message is handed out with a receipt of its own; a receipt of an earlier reception deletes nothing.
//! - Nobody ever reads half an object.
//!
//! Several processes may share a [`LocalQueue`]'s table and a [`DiskObjects`]'s directory. An [`InProcessLock`] is for one process only;
//! two processes need Redis, or do without: the claim in Postgres is the authority either way.
//!
//! To extend: every adapter runs its port's contract suite of `waybill-testkit`; a new rule goes there first.

mod lock;
mod objects;
mod queue;
mod renderer;

pub use lock::InProcessLock;
pub use objects::DiskObjects;
pub use queue::{LocalQueue, LocalQueueConfig, QueuedMessage};
pub use renderer::LocalRenderer;
