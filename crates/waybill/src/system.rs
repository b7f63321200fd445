//! The real clock and the real dice. The only place that asks the system for either.

use chrono::{DateTime, Utc};
use std::time::Duration;
use uuid::Uuid;
use waybill_core::clock::{Chance, Clock};

/// `monotonic` goes on while the machine sleeps: a process that wakes up has to see that its claims are over. `Instant` stands still
/// then (clock_gettime(2): CLOCK_MONOTONIC does not count suspended time, CLOCK_BOOTTIME does).
pub(crate) struct SystemClock {
    #[cfg(not(target_os = "linux"))]
    started: std::time::Instant,
}

impl SystemClock {
    #[cfg_attr(
        not(target_os = "linux"),
        expect(clippy::disallowed_methods, reason = "this is the adapter of the Clock port")
    )]
    pub(crate) fn new() -> Self {
        Self {
            #[cfg(not(target_os = "linux"))]
            started: std::time::Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the adapter of the Clock port")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    #[cfg(target_os = "linux")]
    fn monotonic(&self) -> Duration {
        let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(since_boot.tv_sec.unsigned_abs(), u32::try_from(since_boot.tv_nsec).unwrap_or_default())
    }

    #[cfg(not(target_os = "linux"))]
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
    fn the_monotonic_clock_goes_on() {
        let clock = SystemClock::new();
        let before = clock.monotonic();
        std::thread::sleep(Duration::from_millis(20));
        let passed = clock.monotonic() - before;
        assert!(passed >= Duration::from_millis(20) && passed < Duration::from_secs(10), "{passed:?}");
        #[cfg(target_os = "linux")]
        {
            let uptime: f64 =
                std::fs::read_to_string("/proc/uptime").unwrap().split(' ').next().unwrap().parse().unwrap();
            assert!((clock.monotonic().as_secs_f64() - uptime).abs() < 10.0, "not the time since boot");
        }
    }

    #[test]
    fn units_fill_their_interval() {
        let units: Vec<f64> = (0..2_000).map(|_| SystemChance.unit()).collect();
        assert!(units.iter().all(|u| (0.0..1.0).contains(u)));
        assert!(units.iter().any(|u| *u < 0.05) && units.iter().any(|u| *u > 0.95));
    }
}
