//! Asks nobody who did not answer a moment ago.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// Closed for a while after each failure.
pub(crate) struct Gate {
    closed_for: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    closed_until: Option<Instant>,
    failing: bool,
}

impl Gate {
    pub(crate) fn new(closed_for: Duration) -> Self {
        Self { closed_for, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state().closed_until.is_none_or(|until| Instant::now() >= until)
    }

    pub(crate) fn failed(&self, error: &str) {
        let mut state = self.state();
        state.closed_until = Some(Instant::now() + self.closed_for);
        // Once per outage, not once per call.
        if !std::mem::replace(&mut state.failing, true) {
            tracing::warn!(error, "lock.unavailable");
        }
    }

    /// The server talks: what it says may still be an error of one command.
    pub(crate) fn answered(&self) {
        let mut state = self.state();
        state.closed_until = None;
        if std::mem::replace(&mut state.failing, false) {
            tracing::info!("lock.available_again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_closes_on_failure_and_opens_with_time_or_an_answer() {
        let gate = Gate::new(Duration::from_secs(1));
        assert!(gate.is_open());
        gate.failed("x");
        assert!(!gate.is_open());
        tokio::time::advance(Duration::from_millis(999)).await;
        assert!(!gate.is_open());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(gate.is_open());
        gate.failed("x");
        gate.answered();
        assert!(gate.is_open());
    }
}
