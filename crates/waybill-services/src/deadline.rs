//! The one place in this crate that reads a clock.

use std::time::{Duration, Instant};

/// How long one look waits for the next one. Servers are ready after 100 to 300 ms, so a short pause is worth it.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct Deadline {
    start: Instant,
    limit: Duration,
}

impl Deadline {
    #[expect(clippy::disallowed_methods, reason = "waiting for another process needs the real clock")]
    pub(crate) fn after(limit: Duration) -> Self {
        Self { start: Instant::now(), limit }
    }

    pub(crate) fn passed(&self) -> bool {
        self.start.elapsed() >= self.limit
    }

    pub(crate) fn pause() {
        std::thread::sleep(PAUSE);
    }
}
