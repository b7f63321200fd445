//! The pure heart of Waybill: what things are called, when two of them are the same, which moves are legal and what happens next.
//!
//! Nothing in this crate does I/O, reads a clock or draws a random number: time and chance come in through [`clock`], the outside
//! world through the traits in [`ports`]. That keeps every rule of the delivery protocol testable as a table.
//!
//! Where to look:
//! - [`ids`]: typed identifiers (TypeID: `job_…`, `dlv_…`).
//! - [`json`]: the strict reader for what comes from outside; [`event`]: an event, checked field by field.
//! - [`address`]: recipients, their comparison key and what we refuse to send to.
//! - [`identity`]: when two deliveries are "the same thing".
//! - [`state`]: states, legal moves, final reasons. One enum and one function; SQL carries the same words.
//! - [`outcome`] and [`walk`]: what a provider call can end in, and what the pass over the provider list does next.
//! - [`policy`]: attempts, backoff, timings and the check that refuses a wrong set at start-up.
//! - [`route`] and [`mail`]: the rule that turns an event into deliveries, and the mail that one delivery becomes.
//! - [`message`]: what travels on the queues (ids only) and how an unknown version is told from garbage.
//! - [`trace`]: the trace context that an event came with.
//! - [`ports`]: queue, lock, object store, renderer, provider, alert sink.
//!
//! To extend: a new channel starts in [`address::Channel`]; exhaustive matches (no `_` arms) then list every place that has to follow.

pub mod address;
pub mod clock;
pub mod event;
pub mod identity;
pub mod ids;
pub mod json;
pub mod mail;
pub mod message;
pub mod outcome;
pub mod policy;
pub mod ports;
pub mod route;
pub mod state;
pub mod text;
pub mod trace;
pub mod walk;
