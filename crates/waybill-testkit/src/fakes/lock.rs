use crate::locked;
use async_trait::async_trait;
use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;
use waybill_core::ports::{Lock, LockAnswer, LockError, LockRequest};

/// A lock that can be down, and that can lose what it holds, as a Redis does when it fails over.
#[derive(Default)]
pub struct FakeLock {
    held: Mutex<HashMap<String, (String, Instant)>>,
    down: AtomicBool,
    round_trips: AtomicU64,
}

impl FakeLock {
    pub fn new() -> Self {
        Self::default()
    }

    /// While down every call fails; what is held stays.
    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// Forgets every lock, as `FLUSHALL` or a failover to an empty replica.
    pub fn lose_all(&self) {
        locked(&self.held).clear();
    }

    /// Who holds a key now.
    pub fn holder(&self, key: &str) -> Option<String> {
        locked(&self.held).get(key).filter(|(_, until)| *until > Instant::now()).map(|(owner, _)| owner.clone())
    }

    /// Calls that reached the lock, failed ones included.
    pub fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::SeqCst)
    }

    fn ask(&self) -> Result<(), LockError> {
        self.round_trips.fetch_add(1, Ordering::SeqCst);
        if self.down.load(Ordering::SeqCst) { Err(LockError("connection refused".into())) } else { Ok(()) }
    }
}

#[async_trait]
impl Lock for FakeLock {
    async fn acquire(&self, requests: &[LockRequest], ttl: Duration) -> Result<Vec<LockAnswer>, LockError> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        self.ask()?;
        let now = Instant::now();
        let mut held = locked(&self.held);
        held.retain(|_, (_, until)| *until > now);
        let answer = |request: &LockRequest, held: &mut HashMap<String, (String, Instant)>| match held.get(&request.key)
        {
            Some((owner, _)) if *owner == request.owner => LockAnswer::HeldBySelf,
            Some((owner, _)) => LockAnswer::HeldByOther(owner.clone()),
            None => {
                held.insert(request.key.clone(), (request.owner.clone(), now + ttl));
                LockAnswer::Acquired
            }
        };
        Ok(requests.iter().map(|request| answer(request, &mut held)).collect())
    }

    async fn release(&self, requests: &[LockRequest]) -> Result<usize, LockError> {
        if requests.is_empty() {
            return Ok(0);
        }
        self.ask()?;
        let now = Instant::now();
        let mut held = locked(&self.held);
        held.retain(|_, (_, until)| *until > now);
        let before = held.len();
        for request in requests {
            if held.get(&request.key).is_some_and(|(owner, _)| *owner == request.owner) {
                held.remove(&request.key);
            }
        }
        Ok(before - held.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;

    #[tokio::test(start_paused = true)]
    async fn the_fake_keeps_the_contract() {
        contract::lock::run(&FakeLock::new()).await;
    }

    #[tokio::test]
    async fn it_can_be_down_and_it_can_forget() {
        let lock = FakeLock::new();
        let request = [LockRequest { key: "k".into(), owner: "a".into() }];
        lock.acquire(&request, Duration::from_secs(60)).await.unwrap();
        lock.set_down(true);
        assert!(lock.acquire(&request, Duration::from_secs(60)).await.is_err());
        assert!(lock.release(&request).await.is_err());
        lock.set_down(false);
        assert_eq!(lock.holder("k").as_deref(), Some("a"));
        lock.lose_all();
        assert_eq!(lock.holder("k"), None);
        assert_eq!(lock.round_trips(), 3);
    }
}
