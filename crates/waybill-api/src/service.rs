//! What the routes ask for. The pipeline implements it; tests play it.

use crate::views::{CancelSummary, JobDetail, JobSummary, Page, RetrySummary};
use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use hyper::HeaderMap;
use serde::Serialize;
use std::{sync::Arc, time::Duration};
use utoipa::ToSchema;
use waybill_core::{
    address::EmailAddress,
    event::Event,
    ids::{DeliveryId, JobId, TenantId},
    state::JobState,
};

/// Who sent the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub tenant: TenantId,
    /// Words of [`crate::auth::SCOPES`].
    pub scopes: Vec<String>,
}

/// What became of one posted event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptAnswer {
    /// Durable now: job, outbox row and idempotency record are committed.
    New(JobId),
    /// The same event under the same key is durable since an earlier request.
    Replay(JobId),
    /// The key belongs to an event with other content.
    KeyReused,
    /// Another request with this key has not committed yet.
    Busy { retry_after: Duration },
}

/// Why the service could not answer. The implementation logs the cause; a client never sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// Nothing was done, and trying again is right: pool exhausted, database away.
    #[error("temporarily unavailable")]
    Unavailable { retry_after: Duration },
    #[error("internal error")]
    Internal,
}

/// Filters of a list of jobs, newest first. `None` means: any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListJobs {
    pub status: Option<JobState>,
    pub event_type: Option<String>,
    pub subject: Option<String>,
    /// Compare by [`EmailAddress::key`].
    pub recipient: Option<EmailAddress>,
    /// Created at or after.
    pub since: Option<DateTime<Utc>>,
    /// Created before.
    pub until: Option<DateTime<Utc>>,
    /// The last job of the page before.
    pub after: Option<JobId>,
    /// 1 to 200.
    pub limit: usize,
}

/// What became of a provider's call to `/inbound`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedbackAnswer {
    /// Every event of the body is recorded, or was before.
    Recorded { events: usize },
    /// The body is not one of this provider's. `detail` is shown to the caller and must not repeat the body.
    Unreadable { detail: String },
}

/// The shared secret of one provider account's calls to us: the password of HTTP Basic. The user name is not compared.
#[derive(Clone)]
pub struct InboundSecret(String);

impl InboundSecret {
    /// `None` for an empty text, which would let everybody in.
    pub fn new(secret: String) -> Option<Self> {
        (!secret.is_empty()).then_some(Self(secret))
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for InboundSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InboundSecret(..)")
    }
}

/// What a call to `/inbound` of one provider account has to show.
#[derive(Debug, Clone)]
pub enum InboundGuard {
    /// HTTP Basic with this password.
    Secret(InboundSecret),
    /// The provider's own signature.
    Signature(Arc<dyn InboundSignature>),
}

/// A provider's signature over its calls, with the key of one account.
pub trait InboundSignature: std::fmt::Debug + Send + Sync {
    /// Whether the headers alone may be those of a signed call. Asked before a byte of the body is read.
    fn may_pass(&self, headers: &HeaderMap) -> bool;

    /// `body` as it was received.
    fn passes(&self, headers: &HeaderMap, body: &[u8]) -> bool;
}

/// One dependency, as readiness sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Check {
    #[schema(example = "postgres")]
    pub name: String,
    pub ok: bool,
    /// For people; never an address, a host's credentials or a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The dependencies without which a request would fail.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readiness {
    pub checks: Vec<Check>,
}

impl Readiness {
    pub fn is_ready(&self) -> bool {
        self.checks.iter().all(|check| check.ok)
    }
}

/// The use cases behind the routes.
///
/// Every method may be dropped at any `await` (the client hung up, the server was stopped): what it leaves must be all or nothing.
/// Every method that takes a tenant answers for that tenant only.
#[async_trait]
pub trait Service: Send + Sync + 'static {
    /// Finds the caller by the SHA-256 of the whole key. An answer may be cached for at most 60 s, so that revocation works within it.
    async fn authenticate(&self, key_hash: [u8; 32]) -> Result<Option<Caller>, ServiceError>;

    /// Makes one event durable. `idempotency_key` is unquoted; it is scoped by the tenant.
    async fn accept(
        &self,
        tenant: TenantId,
        event: Event,
        idempotency_key: Option<String>,
    ) -> Result<AcceptAnswer, ServiceError>;

    /// Makes many events durable: one answer per event, in their order. One bad or repeated event doesn't fail its neighbours.
    async fn accept_many(&self, tenant: TenantId, events: Vec<Event>) -> Vec<Result<AcceptAnswer, ServiceError>>;

    /// One job with one page of its deliveries. `limit` is 1 to 200.
    async fn find_job(
        &self,
        tenant: TenantId,
        job: JobId,
        deliveries_after: Option<DeliveryId>,
        limit: usize,
    ) -> Result<Option<JobDetail>, ServiceError>;

    async fn list_jobs(&self, tenant: TenantId, list: ListJobs) -> Result<Page<JobSummary>, ServiceError>;

    /// Puts the job's dead-lettered deliveries back to PENDING.
    async fn retry_job(&self, tenant: TenantId, job: JobId) -> Result<Option<RetrySummary>, ServiceError>;

    /// Stops what was not handed to a provider yet.
    async fn cancel_job(&self, tenant: TenantId, job: JobId) -> Result<Option<CancelSummary>, ServiceError>;

    /// Records a provider's events. The caller was checked against [`Service::inbound_guard`].
    async fn feedback(&self, provider: &str, account: &str, body: Bytes) -> Result<FeedbackAnswer, ServiceError>;

    /// `None`: this account takes no calls.
    fn inbound_guard(&self, provider: &str, account: &str) -> Option<InboundGuard>;

    /// Asks the dependencies. Callers put their own deadline around it.
    async fn ready(&self) -> Readiness;
}
