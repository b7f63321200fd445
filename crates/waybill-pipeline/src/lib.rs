//! The use cases of Waybill: accept, route, deliver, documents, reconcile, retry, redrive, feedback and the sweeps that find what got stuck.
//!
//! This crate talks to the ports of `waybill-core` and to the store, and knows no adapter. Its promise is that of the delivery protocol
//! (docs/protocol.md): nothing lost, nothing sent twice where anybody can know, everything explained.
//!
//! How the parts hang together:
//! - [`accept`] commits jobs (group commit) and publishes them; [`relay`] publishes what was left behind.
//! - [`router`] decides once per job, in one transaction, and sends one message per recipient.
//! - [`deliver`] is the worker: lock, claim, provider pass, result. It holds no connection and no transaction while it waits.
//! - [`intake`] accepts what comes by queue, [`feedback`] what providers tell us.
//! - [`documents`] renders, once per document, and wakes the deliveries that wait for it.
//! - [`scheduler`] acts on rows whose `due_at` has passed. Every row that is not final has one (the schema holds that), so whatever
//!   crashes, some scheduler finds the row.
//! - [`batcher`] is how all of them turn many small requests into few statements; [`holding`] keeps what they have in hand from others.
//!
//! A process runs any set of roles over one [`context::Context`]; any number of processes may run the same role.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests run on the real clock"))]

pub mod accept;
pub mod alerts;
pub mod batcher;
mod consume;
pub mod context;
mod deletions;
pub mod deliver;
pub mod documents;
pub mod feedback;
pub mod holding;
pub mod intake;
pub mod order;
mod poison;
mod publish;
mod recent;
mod reconcile;
pub mod redrive;
pub mod relay;
pub mod router;
pub mod scheduler;
