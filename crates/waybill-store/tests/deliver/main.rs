//! The delivery half of the store on a real PostgreSQL: claims, results, expiries, unknowns, documents, feedback.
//! After each scenario [`world::World::check`] holds the rows against the protocol's invariants.

#![allow(clippy::disallowed_methods, reason = "tests run on the real clock")]
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy exempts only the functions that are tests themselves"
)]

mod claims;
mod deliveries;
mod documents;
mod feedback;
mod hammer;
mod invariants;
mod ordering;
mod reconcile;
mod results;
mod revisions;
mod world;
