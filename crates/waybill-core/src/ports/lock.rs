use async_trait::async_trait;
use std::time::Duration;

/// The lock could not be asked. The caller goes on without it: the durable claim is the authority.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("lock unavailable: {0}")]
pub struct LockError(pub String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRequest {
    /// [`crate::identity::Identity::lock_key`].
    pub key: String,
    /// The delivery's id: the value stored, so that a delivery re-enters its own lock.
    pub owner: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockAnswer {
    Acquired,
    /// Our own earlier message holds it: go on, the claim decides.
    HeldBySelf,
    /// Another delivery holds it. Says nothing about whether it was sent.
    HeldByOther(String),
}

/// A cheap first gate against two workers. `SET key owner NX EX ttl` with Redis.
#[async_trait]
pub trait Lock: Send + Sync {
    /// Tries to take each lock; one answer per request, in order, in one round trip.
    async fn acquire(&self, requests: &[LockRequest], ttl: Duration) -> Result<Vec<LockAnswer>, LockError>;

    /// Releases each lock that is still held by its owner (atomic compare-and-delete). Returns how many were.
    async fn release(&self, requests: &[LockRequest]) -> Result<usize, LockError>;
}
