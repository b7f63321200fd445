//! The use cases on a real PostgreSQL, with the other ports as fakes that fail by script.
//! After each scenario [`world::World::check`] holds the rows against the protocol's invariants and against what the providers saw.

#![allow(clippy::disallowed_methods, reason = "tests run on the real clock")]
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy exempts only the functions that are tests themselves"
)]

mod accept;
mod acts;
mod books;
mod claims;
mod counters;
mod documents;
mod feedback;
mod feedback_queue;
mod holding;
mod intake;
mod locks;
mod ordering;
mod outcomes;
mod recording;
mod redrive;
mod rendering;
mod revisions;
mod router;
mod scheduler;
mod trace;
mod unknown;
mod world;
