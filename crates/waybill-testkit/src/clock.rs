//! Time and chance that a test sets.

use crate::locked;
use chrono::{DateTime, TimeDelta, Utc};
use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use uuid::{Builder, Uuid};
use waybill_core::clock::{Chance, Clock};

/// Stands still until [`ManualClock::advance`].
pub struct ManualClock {
    times: Mutex<(DateTime<Utc>, Duration)>,
}

impl ManualClock {
    pub fn at(now: DateTime<Utc>) -> Self {
        Self { times: Mutex::new((now, Duration::from_secs(1000))) }
    }

    /// Both clocks go forward.
    pub fn advance(&self, by: Duration) {
        let mut times = locked(&self.times);
        times.0 += TimeDelta::from_std(by).expect("a test's time step fits");
        times.1 += by;
    }

    /// The wall clock is set, as an NTP step would: the monotonic clock goes on undisturbed.
    pub fn set_wall(&self, now: DateTime<Utc>) {
        locked(&self.times).0 = now;
    }
}

impl Default for ManualClock {
    /// 2026-01-01T00:00:00Z.
    fn default() -> Self {
        Self::at(DateTime::from_timestamp(1_767_225_600, 0).expect("a valid time"))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        locked(&self.times).0
    }

    fn monotonic(&self) -> Duration {
        locked(&self.times).1
    }
}

/// Reproducible numbers and ids: the same seed gives the same sequence (SplitMix64).
pub struct SeededChance {
    state: AtomicU64,
    ids: AtomicU64,
}

impl SeededChance {
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed), ids: AtomicU64::new(0) }
    }

    fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bytes(&self) -> [u8; 16] {
        let mut out = [0; 16];
        out[..8].copy_from_slice(&self.next().to_be_bytes());
        out[8..].copy_from_slice(&self.next().to_be_bytes());
        out
    }
}

impl Chance for SeededChance {
    fn unit(&self) -> f64 {
        // 53 bits are what an f64 in [0, 1) can hold.
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn id(&self) -> Uuid {
        // One millisecond per id keeps them in the order of their making.
        let millis = 1_767_225_600_000 + self.ids.fetch_add(1, Ordering::Relaxed);
        let bytes = self.bytes();
        let mut tail = [0; 10];
        tail.copy_from_slice(&bytes[..10]);
        Builder::from_unix_timestamp_millis(millis, &tail).into_uuid()
    }

    fn token(&self) -> Uuid {
        Builder::from_random_bytes(self.bytes()).into_uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_moves_only_when_told_and_a_wall_step_leaves_the_monotonic_alone() {
        let clock = ManualClock::default();
        let (wall, mono) = (clock.now(), clock.monotonic());
        clock.advance(Duration::from_millis(1500));
        assert_eq!((clock.now() - wall).num_milliseconds(), 1500);
        assert_eq!(clock.monotonic() - mono, Duration::from_millis(1500));
        clock.set_wall(wall);
        assert_eq!(clock.now(), wall);
        assert_eq!(clock.monotonic() - mono, Duration::from_millis(1500));
    }

    #[test]
    fn one_seed_one_sequence() {
        let (a, b, c) = (SeededChance::new(1), SeededChance::new(1), SeededChance::new(2));
        assert_eq!((a.id(), a.token(), a.unit().to_bits()), (b.id(), b.token(), b.unit().to_bits()));
        assert_ne!(a.token(), c.token());
        let units: Vec<f64> = (0..1000).map(|_| a.unit()).collect();
        assert!(units.iter().all(|u| (0.0..1.0).contains(u)));
        let mean = units.iter().sum::<f64>() / 1000.0;
        assert!((0.4..0.6).contains(&mean), "{mean}");
    }

    #[test]
    fn ids_have_their_versions_and_their_order() {
        let chance = SeededChance::new(7);
        let (first, second) = (chance.id(), chance.id());
        assert_eq!((first.get_version_num(), chance.token().get_version_num()), (7, 4));
        assert!(first < second);
    }
}
