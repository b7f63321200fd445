//! Time and chance, passed in so that tests can set them.

use chrono::{DateTime, Utc};
use std::time::Duration;
use uuid::Uuid;

/// The two clocks a process needs. Comparisons between rows use neither: the database compares with its own clock.
pub trait Clock: Send + Sync {
    /// Wall clock, UTC.
    fn now(&self) -> DateTime<Utc>;
    /// Time since an arbitrary fixed point in this process; never jumps. Used to ask whether a claim still lasts.
    fn monotonic(&self) -> Duration;
}

/// Random numbers and new identifiers.
pub trait Chance: Send + Sync {
    /// Uniform in `[0, 1)`; used for jitter.
    fn unit(&self) -> f64;
    /// A new time-ordered UUID (version 7, RFC 9562). Not a secret.
    fn id(&self) -> Uuid;
    /// A new unpredictable UUID (version 4), used as a claim token.
    fn token(&self) -> Uuid;
}
