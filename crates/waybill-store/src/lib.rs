//! Postgres, the authority: every fact that Waybill promises to keep is a row here, and every decision between two processes is a
//! statement here.
//!
//! What it does: stores tenants, keys, routes, jobs, documents and deliveries; moves them along the legal moves of
//! [`waybill_core::state`]; holds the claims that make two workers one sender; keeps the outbox, the ledger and the dead letters.
//!
//! What it refuses: to know what a provider, a queue or a page is; to hold a transaction or a connection while somebody waits for the
//! outside world; to compare times with any clock but the database's own.
//!
//! Invariants:
//! - A state move, its ledger row and everything else that belongs to it are one statement (a data-modifying CTE) or one transaction.
//! - Each move names the state it expects in its `WHERE`; zero rows is an answer, not an error.
//! - A row that is not final has a `due_at`. Nothing can get stuck without the scheduler seeing it.
//! - Rows are locked in the order of their ids. What still deadlocks is [`StoreError::Conflict`]: nothing happened, try again.
//! - Text from outside goes through [`waybill_core::text::storable`] before it is bound.
//!
//! Concurrency rests on READ COMMITTED: `SELECT .. FOR UPDATE` and `UPDATE` wait for a row's lock and then look at its newest
//! version, but rows that were inserted after the statement's start stay invisible to it. Where that matters a comment says how it is met.
//! And CHECK constraints are tried on an `UPDATE`'s first guess, made from the snapshot's version of the row, before the newest version is
//! looked at: a move that locked its row without asking for its state sets every column that a CHECK ties to the state (`due_at`,
//! `dead_lettered_at`; the lease), whatever it believes them to be.
//!
//! To extend: one file per table or concern, `impl Store` blocks in each, SQL checked at compile time against `migrations/` (offline
//! data in `.sqlx/`), a test on a real Postgres beside it.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests run on the real clock"))]

pub mod accept;
pub mod alerts;
pub mod api_keys;
pub mod claims;
mod convert;
pub mod dead_letters;
pub mod deliveries;
pub mod documents;
pub mod due;
mod error;
mod facts;
pub mod feedback;
pub mod idempotency;
pub mod intake_sources;
pub mod jobs;
pub mod moves;
pub mod ordering;
pub mod outbox;
pub mod reads;
pub mod reconcile;
pub mod results;
pub mod routes;
pub mod routing;
mod store;
pub mod tenants;
#[cfg(test)]
mod testing;
pub mod unknowns;
pub mod waiting;
#[cfg(test)]
mod words;

pub use accept::*;
pub use alerts::*;
pub use api_keys::*;
pub use claims::*;
pub use dead_letters::*;
pub use deliveries::*;
pub use documents::*;
pub use due::*;
pub use error::StoreError;
pub use feedback::*;
pub use intake_sources::*;
pub use jobs::*;
pub use moves::*;
pub use ordering::*;
pub use outbox::*;
pub use reads::*;
pub use reconcile::*;
pub use results::*;
pub use routing::*;
pub use store::{SchemaState, Store};
pub use tenants::*;
pub use unknowns::*;
