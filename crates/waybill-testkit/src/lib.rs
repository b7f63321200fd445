//! What the tests of all crates share: a database per test, fakes with fault scripts, builders, and one contract suite per port.
//!
//! Only ever a dev-dependency. The servers come from outside: `cargo xtask test` starts a PostgreSQL and a Redis and sets
//! `DATABASE_URL` and `REDIS_URL`; a test that needs one of them and finds no address fails and says how to run it.

pub mod contract;
pub mod db;
