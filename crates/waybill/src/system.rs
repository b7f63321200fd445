//! The real clock and the real dice. The only place that asks the system for either.

use chrono::{DateTime, Utc};
use std::time::{Duration, Instant};
use uuid::Uuid;
use waybill_core::clock::{Chance, Clock};

pub(crate) struct SystemClock {
    started: Instant,
}

impl SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the adapter of the Clock port")]
    pub(crate) fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the adapter of the Clock port")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

pub(crate) struct SystemChance;

impl Chance for SystemChance {
    fn unit(&self) -> f64 {
        // 53 random bits: every f64 in [0, 1) of that spacing.
        let bits = (self.token().as_u128() >> 75) as u64;
        bits as f64 / (1u64 << 53) as f64
    }

    #[expect(clippy::disallowed_methods, reason = "this is the adapter of the Chance port")]
    fn id(&self) -> Uuid {
        Uuid::now_v7()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the adapter of the Chance port")]
    fn token(&self) -> Uuid {
        Uuid::new_v4()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_fill_their_interval() {
        let units: Vec<f64> = (0..2_000).map(|_| SystemChance.unit()).collect();
        assert!(units.iter().all(|u| (0.0..1.0).contains(u)));
        assert!(units.iter().any(|u| *u < 0.05) && units.iter().any(|u| *u > 0.95));
    }
}
