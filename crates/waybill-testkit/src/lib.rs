//! What the tests of all crates share: a database per test, fakes with fault scripts, builders, and one contract suite per port.
//!
//! Only ever a dev-dependency. The servers come from outside: `cargo xtask test` starts a PostgreSQL and a Redis and sets
//! `DATABASE_URL` and `REDIS_URL`; a test that needs one of them and finds no address fails and says how to run it.
//!
//! - [`db`]: [`db::TestDb`], a migrated database of one test's own.
//! - [`clock`]: [`clock::ManualClock`] and [`clock::SeededChance`], so that a test decides what time it is and what luck brings.
//! - [`fakes`]: the ports in memory. A fake does what its original can do to us: redeliver, delay, fail half a batch, lose an
//!   answer, hang. Timers run on tokio's clock, so tests with paused time need not wait.
//! - [`contract`]: what every adapter of a port has to hold, as functions over `&dyn Port`. The fakes run the same suites: a fake
//!   that is kinder than the contract makes tests lie.
//!
//! To extend: a new rule of a port goes into its suite first, then into the adapters; a new kind of fault is one more variant of a
//! fake's fault enum, so that scripts stay readable in the test that uses them.

#![allow(clippy::disallowed_methods, reason = "tests run on the real clock")]

pub mod clock;
pub mod contract;
pub mod db;
pub mod fakes;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A test that panicked under a lock has already failed; the others shall fail for reasons of their own.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
