//! The API's [`Service`] on the pipeline and the store.

use async_trait::async_trait;
use axum::http::HeaderMap;
use bytes::Bytes;
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tracing::error;
use waybill_api::{
    service::{
        AcceptAnswer, Caller, Check, FeedbackAnswer, InboundGuard, InboundSecret, InboundSignature, ListJobs,
        Readiness, Service, ServiceError,
    },
    views::{
        AttemptView, CallView, CancelSummary, DeliveryView, DocumentView, EventRef, JobDetail, JobSummary, Page,
        RetrySummary, TimelineEntry,
    },
};
use waybill_core::{
    clock::Clock,
    event::Event,
    ids::{DeliveryId, JobId, TenantId},
};
use waybill_crypto::Secret;
use waybill_pipeline::{
    accept::{self, AcceptError, Acceptor},
    context::Context,
    feedback, order, redrive,
};
use waybill_providers::{EventSignature, registry};
use waybill_store::{JobFilter, JobView, StoreError};

/// How long a key's answer is kept; a revoked key works no longer than this.
const KEY_CACHE: Duration = Duration::from_secs(30);
const KEY_CACHE_ENTRIES: usize = 10_000;
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// The one account per provider that this build has.
const ACCOUNT: &str = "default";

/// By the key's hash: until when the answer counts (monotonic), and the answer.
type KeyCache = HashMap<[u8; 32], (Duration, Option<Caller>)>;

pub(crate) struct PipelineService {
    context: Arc<Context>,
    /// None in a process without the API role, whose ops port asks for readiness only.
    acceptor: Option<Acceptor>,
    inbound: Inbound,
    keys: Mutex<KeyCache>,
}

/// What guards `/inbound`.
#[derive(Default)]
pub(crate) struct Inbound {
    /// Of providers that don't sign, or whose signing key is not set.
    pub(crate) secret: Option<Secret>,
    /// By the provider's name.
    pub(crate) signatures: HashMap<&'static str, Arc<dyn EventSignature>>,
}

/// A provider's signature at the time of the service's clock.
struct Signed {
    signature: Arc<dyn EventSignature>,
    clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for Signed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.signature.fmt(f)
    }
}

impl InboundSignature for Signed {
    fn may_pass(&self, headers: &HeaderMap) -> bool {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        self.signature.check_headers(&header, self.clock.now().timestamp()).is_ok()
    }

    fn passes(&self, headers: &HeaderMap, body: &[u8]) -> bool {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let verified = self.signature.verify(&header, body, self.clock.now().timestamp());
        if let Err(error) = &verified {
            tracing::warn!(error = %error, "api.inbound_signature_refused");
        }
        verified.is_ok()
    }
}

impl PipelineService {
    pub(crate) fn new(context: Arc<Context>, acceptor: Option<Acceptor>, inbound: Inbound) -> Self {
        Self { context, acceptor, inbound, keys: Mutex::default() }
    }

    fn acceptor(&self) -> Result<&Acceptor, ServiceError> {
        self.acceptor.as_ref().ok_or(ServiceError::Unavailable { retry_after: RETRY_AFTER })
    }

    fn keys(&self) -> std::sync::MutexGuard<'_, KeyCache> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One page of deliveries with their attempts and timelines: three statements, whatever the page's size.
    async fn deliveries(
        &self,
        job: JobId,
        after: Option<DeliveryId>,
        limit: usize,
    ) -> Result<Page<DeliveryView>, ServiceError> {
        let store = &self.context.store;
        let mut rows = store.list_deliveries(job, after, limit as i64 + 1).await.map_err(failed)?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let ids: Vec<DeliveryId> = rows.iter().map(|row| row.id).collect();
        let mut attempts: HashMap<DeliveryId, Vec<AttemptView>> = HashMap::new();
        for attempt in store.list_attempts(&ids).await.map_err(failed)? {
            attempts.entry(attempt.delivery).or_default().push(attempt_view(attempt));
        }
        let mut timelines: HashMap<DeliveryId, Vec<TimelineEntry>> = HashMap::new();
        for entry in store.list_ledger(&ids).await.map_err(failed)? {
            let view = TimelineEntry {
                version: entry.version,
                at: entry.at.into(),
                state: entry.state,
                reason: entry.reason,
                detail: entry.detail,
            };
            timelines.entry(entry.delivery).or_default().push(view);
        }
        let next = if more { ids.last().map(ToString::to_string) } else { None };
        let view = |row: waybill_store::DeliveryView| delivery_view(&mut attempts, &mut timelines, row);
        Ok(Page { data: rows.into_iter().map(view).collect(), next })
    }
}

/// Logged here, where the cause is known; the client hears only which kind it was.
fn failed(error: StoreError) -> ServiceError {
    if error.is_unavailable() {
        tracing::warn!(error = &error as &dyn std::error::Error, "api.database_unavailable");
        ServiceError::Unavailable { retry_after: RETRY_AFTER }
    } else {
        error!(error = &error as &dyn std::error::Error, "api.failed");
        ServiceError::Internal
    }
}

fn accepted(answer: Result<accept::AcceptAnswer, AcceptError>) -> Result<AcceptAnswer, ServiceError> {
    match answer {
        Ok(accept::AcceptAnswer::New(job)) => Ok(AcceptAnswer::New(job)),
        Ok(accept::AcceptAnswer::Replay(job)) => Ok(AcceptAnswer::Replay(job)),
        Ok(accept::AcceptAnswer::KeyReused(_)) => Ok(AcceptAnswer::KeyReused),
        Ok(accept::AcceptAnswer::Busy) => Ok(AcceptAnswer::Busy { retry_after: Duration::from_secs(1) }),
        Err(AcceptError::Unavailable) => Err(ServiceError::Unavailable { retry_after: RETRY_AFTER }),
        Err(AcceptError::Internal) => Err(ServiceError::Internal),
    }
}

fn summary(job: JobView) -> JobSummary {
    JobSummary {
        job_id: job.id,
        status: job.status,
        reason: job.reason,
        detail: job.detail,
        waits_for: job.waits_for,
        explanation: String::new(),
        event: EventRef {
            id: job.event_id,
            source: job.source,
            event_type: job.event_type,
            subject: job.subject,
            revision: job.revision,
            ordering_key: job.ordering_key,
            time: job.event_time.map(Into::into),
        },
        delivery_counts: job
            .deliveries
            .into_iter()
            .map(|(state, n)| (state.as_str().to_owned(), n.unsigned_abs()))
            .collect::<BTreeMap<_, _>>(),
        created_at: job.created_at.into(),
        routed_at: job.routed_at.map(Into::into),
        expires_at: job.expires_at.map(Into::into),
        cancel_requested_at: job.cancel_requested_at.map(Into::into),
    }
}

fn attempt_view(attempt: waybill_store::AttemptView) -> AttemptView {
    let text = |call: &serde_json::Value, key: &str| call[key].as_str().filter(|t| !t.is_empty()).map(str::to_owned);
    let calls = attempt.calls.as_array().map(Vec::as_slice).unwrap_or_default().iter();
    AttemptView {
        attempt_id: attempt.id,
        number: attempt.number,
        started_at: attempt.started_at.into(),
        ended_at: attempt.ended_at.map(Into::into),
        outcome: attempt.outcome,
        calls: calls
            .map(|call| CallView {
                provider: text(call, "provider").unwrap_or_default(),
                outcome: text(call, "outcome").unwrap_or_default(),
                detail: text(call, "detail"),
                provider_message_id: text(call, "provider_message_id"),
                duration_ms: call["ms"].as_u64(),
            })
            .collect(),
    }
}

fn delivery_view(
    attempts: &mut HashMap<DeliveryId, Vec<AttemptView>>,
    timelines: &mut HashMap<DeliveryId, Vec<TimelineEntry>>,
    row: waybill_store::DeliveryView,
) -> DeliveryView {
    DeliveryView {
        delivery_id: row.id,
        channel: row.channel,
        recipient: row.recipient,
        recipient_name: row.recipient_name,
        state: row.state,
        reason: row.reason,
        detail: row.detail,
        explanation: String::new(),
        attempt_count: row.attempts,
        next_attempt_at: row.next_attempt_at.map(Into::into),
        reconcile_until: row.reconcile_until.map(Into::into),
        held: row.held,
        dead_lettered: row.dead_lettered_at.is_some(),
        provider: row.provider,
        provider_message_id: row.provider_message_id,
        document: row.document.map(|d| DocumentView {
            document_id: d.id,
            document_type: d.document_type,
            state: d.state,
            reason: d.reason,
            detail: d.detail,
            attempt_count: d.attempts,
            size_bytes: d.size_bytes,
        }),
        other_delivery_id: row.other,
        sent_at: row.sent_at.map(Into::into),
        updated_at: row.updated_at.into(),
        attempts: attempts.remove(&row.id).unwrap_or_default(),
        timeline: timelines.remove(&row.id).unwrap_or_default(),
    }
}

#[async_trait]
impl Service for PipelineService {
    async fn authenticate(&self, key_hash: [u8; 32]) -> Result<Option<Caller>, ServiceError> {
        let now = self.context.clock.monotonic();
        if let Some((until, caller)) = self.keys().get(&key_hash)
            && *until > now
        {
            return Ok(caller.clone());
        }
        let found = self.context.store.find_api_key(&key_hash).await.map_err(failed)?;
        let caller = found.map(|key| Caller { tenant: key.tenant, scopes: key.scopes });
        let mut keys = self.keys();
        if keys.len() >= KEY_CACHE_ENTRIES {
            keys.retain(|_, (until, _)| *until > now);
        }
        // Guesses don't push real keys out.
        if keys.len() < KEY_CACHE_ENTRIES {
            keys.insert(key_hash, (now + KEY_CACHE, caller.clone()));
        }
        Ok(caller)
    }

    async fn accept(
        &self,
        tenant: TenantId,
        event: Event,
        idempotency_key: Option<String>,
    ) -> Result<AcceptAnswer, ServiceError> {
        accepted(self.acceptor()?.accept(tenant, &event, idempotency_key.as_deref()).await)
    }

    async fn accept_many(&self, tenant: TenantId, events: Vec<Event>) -> Vec<Result<AcceptAnswer, ServiceError>> {
        match self.acceptor() {
            Ok(acceptor) => acceptor.accept_all(tenant, &events).await.into_iter().map(accepted).collect(),
            Err(error) => events.iter().map(|_| Err(error)).collect(),
        }
    }

    async fn find_job(
        &self,
        tenant: TenantId,
        job: JobId,
        deliveries_after: Option<DeliveryId>,
        limit: usize,
    ) -> Result<Option<JobDetail>, ServiceError> {
        let Some(found) = self.context.store.find_job(Some(tenant), job).await.map_err(failed)? else {
            return Ok(None);
        };
        let deliveries = self.deliveries(job, deliveries_after, limit).await?;
        Ok(Some(JobDetail { job: summary(found), deliveries }))
    }

    async fn list_jobs(&self, tenant: TenantId, list: ListJobs) -> Result<Page<JobSummary>, ServiceError> {
        let filter = JobFilter {
            status: list.status,
            event_type: list.event_type,
            subject: list.subject,
            recipient_key: list.recipient.map(|r| r.key()),
            since: list.since,
            until: list.until,
        };
        let mut jobs = self
            .context
            .store
            .list_jobs(Some(tenant), &filter, list.after, list.limit as i64 + 1)
            .await
            .map_err(failed)?;
        let more = jobs.len() > list.limit;
        jobs.truncate(list.limit);
        let next = if more { jobs.last().map(|job| job.id.to_string()) } else { None };
        Ok(Page { data: jobs.into_iter().map(summary).collect(), next })
    }

    async fn retry_job(&self, tenant: TenantId, job: JobId) -> Result<Option<RetrySummary>, ServiceError> {
        let retried = redrive::retry_job(&self.context, tenant, job).await.map_err(failed)?;
        Ok(retried.map(|retried| RetrySummary {
            job_id: job,
            requeued: retried.queued,
            already_sent: retried.already_sent,
        }))
    }

    async fn cancel_job(&self, tenant: TenantId, job: JobId) -> Result<Option<CancelSummary>, ServiceError> {
        let cancelled = self.context.store.cancel_job(tenant, job).await.map_err(failed)?;
        if cancelled.is_some()
            && let Err(error) = order::advance(&self.context, &[job]).await
        {
            // It is cancelled; the scheduler wakes the ones behind it.
            error!(error = &error as &dyn std::error::Error, "api.advance_failed");
        }
        Ok(cancelled.map(|c| CancelSummary {
            job_id: job,
            cancelled: c.cancelled.unsigned_abs(),
            already_final: c.already_final.unsigned_abs(),
            in_progress: c.in_progress.unsigned_abs(),
        }))
    }

    async fn feedback(&self, provider: &str, _account: &str, body: Bytes) -> Result<FeedbackAnswer, ServiceError> {
        let Some(kind) = registry::find(provider) else {
            return Ok(FeedbackAnswer::Unreadable { detail: "no such provider".into() });
        };
        let Some(parse) = kind.parse_events else {
            return Ok(FeedbackAnswer::Unreadable { detail: "this provider has no events".into() });
        };
        match parse(&body) {
            Ok(events) => {
                feedback::record(&self.context, &events).await.map_err(failed)?;
                Ok(FeedbackAnswer::Recorded { events: events.len() })
            }
            Err(error) => Ok(FeedbackAnswer::Unreadable { detail: error.to_string() }),
        }
    }

    fn inbound_guard(&self, provider: &str, account: &str) -> Option<InboundGuard> {
        let known = registry::find(provider).filter(|kind| kind.parse_events.is_some() && account == ACCOUNT)?;
        if let Some(signature) = self.inbound.signatures.get(known.name) {
            let signed = Signed { signature: signature.clone(), clock: self.context.clock.clone() };
            return Some(InboundGuard::Signature(Arc::new(signed)));
        }
        InboundSecret::new(self.inbound.secret.as_ref()?.expose().to_owned()).map(InboundGuard::Secret)
    }

    async fn ready(&self) -> Readiness {
        let database = self.context.store.ping().await;
        let detail = database.as_ref().err().map(|_| "no answer from the database".to_owned());
        Readiness { checks: vec![Check { name: "postgres".into(), ok: database.is_ok(), detail }] }
    }
}
