//! The Redis lock's semantics for the tasks of one process.

use async_trait::async_trait;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;
use waybill_core::ports::{Lock, LockAnswer, LockError, LockRequest};

/// Locks are swept when there are twice as many as were alive after the last sweep, and at least this many.
const SWEEP_AT_LEAST: usize = 1024;

/// Locks in memory: they end with their time or with the process. Never fails.
#[derive(Default)]
pub struct InProcessLock {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    locks: HashMap<String, (String, Instant)>,
    sweep_at: usize,
}

impl Held {
    fn holder(&self, key: &str, now: Instant) -> Option<&str> {
        self.locks.get(key).filter(|(_, until)| *until > now).map(|(owner, _)| owner.as_str())
    }

    /// Expired locks are only forgotten, never in anybody's way; so it is enough to do it now and then.
    fn sweep(&mut self, now: Instant) {
        if self.locks.len() >= self.sweep_at.max(SWEEP_AT_LEAST) {
            self.locks.retain(|_, (_, until)| *until > now);
            self.sweep_at = self.locks.len() * 2;
        }
    }
}

impl InProcessLock {
    pub fn new() -> Self {
        Self::default()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Lock for InProcessLock {
    async fn acquire(&self, requests: &[LockRequest], ttl: Duration) -> Result<Vec<LockAnswer>, LockError> {
        let now = Instant::now();
        let mut held = self.held();
        held.sweep(now);
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            answers.push(match held.holder(&request.key, now) {
                Some(owner) if owner == request.owner => LockAnswer::HeldBySelf,
                Some(owner) => LockAnswer::HeldByOther(owner.to_owned()),
                None => {
                    held.locks.insert(request.key.clone(), (request.owner.clone(), now + ttl));
                    LockAnswer::Acquired
                }
            });
        }
        Ok(answers)
    }

    async fn release(&self, requests: &[LockRequest]) -> Result<usize, LockError> {
        let now = Instant::now();
        let mut held = self.held();
        let mut released = 0;
        for request in requests {
            if held.holder(&request.key, now) == Some(request.owner.as_str()) {
                held.locks.remove(&request.key);
                released += 1;
            }
        }
        Ok(released)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rl_01_it_keeps_the_contract_of_the_lock() {
        waybill_testkit::contract::lock::run(&InProcessLock::new()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn expired_locks_do_not_pile_up() {
        let lock = InProcessLock::new();
        for n in 0..10 * SWEEP_AT_LEAST {
            let request = [LockRequest { key: n.to_string(), owner: "a".into() }];
            assert_eq!(lock.acquire(&request, Duration::from_secs(1)).await, Ok(vec![LockAnswer::Acquired]));
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        assert!(lock.held().locks.len() <= SWEEP_AT_LEAST);
    }
}
