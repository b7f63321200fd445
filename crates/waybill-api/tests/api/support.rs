//! A played service, and requests without a socket.

use async_trait::async_trait;
use axum::{Router, body::Body};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::{HeaderMap, Request};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use uuid::Uuid;
use waybill_api::{
    ApiConfig, ApiState,
    service::{
        AcceptAnswer, Caller, Check, FeedbackAnswer, InboundGuard, InboundSecret, InboundSignature, ListJobs,
        Readiness, Service, ServiceError,
    },
    views::{CancelSummary, JobDetail, JobSummary, Page, RetrySummary},
};
use waybill_core::{
    event::Event,
    ids::{DeliveryId, JobId, TenantId},
};

pub(crate) const TENANT: TenantId = TenantId(Uuid::from_u128(1));
pub(crate) const OTHER_TENANT: TenantId = TenantId(Uuid::from_u128(2));
/// Every scope of [`TENANT`].
pub(crate) const KEY: &str = "wb_test_full";
/// Only `jobs:read` of [`TENANT`].
pub(crate) const READ_KEY: &str = "wb_test_read";
/// Every scope of [`OTHER_TENANT`].
pub(crate) const OTHER_KEY: &str = "wb_test_other";
pub(crate) const EVENT: &str = r#"{"id":"1","source":"/shop","type":"order","data":{"total":1.10},"recipients":[{"email":"ana@example.test","name":"Ana"}]}"#;

enum Slot {
    InProgress,
    Committed { job: JobId, fingerprint: [u8; 32] },
}

/// Answers like the pipeline would, from memory, with faults on demand.
#[derive(Default)]
pub(crate) struct Fake {
    slots: Mutex<HashMap<(TenantId, String), Slot>>,
    /// What is durable, in order.
    pub(crate) rows: Mutex<Vec<(JobId, TenantId, Event)>>,
    pub(crate) commit_takes: Mutex<Duration>,
    pub(crate) away: AtomicBool,
    pub(crate) panics: AtomicBool,
    pub(crate) readiness_hangs: AtomicBool,
    pub(crate) authentications: AtomicUsize,
    pub(crate) readiness_questions: AtomicUsize,
    pub(crate) listed: Mutex<Option<ListJobs>>,
    pub(crate) found: Mutex<Option<JobDetail>>,
    pub(crate) feedback: Mutex<Vec<(String, String, Bytes)>>,
}

impl Fake {
    fn check(&self) -> Result<(), ServiceError> {
        assert!(!self.panics.load(SeqCst), "a secret that must not be shown");
        if self.away.load(SeqCst) {
            return Err(ServiceError::Unavailable { retry_after: Duration::from_millis(1500) });
        }
        Ok(())
    }

    pub(crate) fn rows_of(&self, tenant: TenantId) -> Vec<JobId> {
        self.rows.lock().unwrap().iter().filter(|row| row.1 == tenant).map(|row| row.0).collect()
    }

    pub(crate) fn last_event(&self) -> Event {
        self.rows.lock().unwrap().last().unwrap().2.clone()
    }

    fn is_mine(&self, tenant: TenantId, job: JobId) -> bool {
        self.found.lock().unwrap().as_ref().is_some_and(|found| tenant == TENANT && found.job.job_id == job)
    }
}

#[async_trait]
impl Service for Fake {
    async fn authenticate(&self, key_hash: [u8; 32]) -> Result<Option<Caller>, ServiceError> {
        self.authentications.fetch_add(1, SeqCst);
        let all = || waybill_api::auth::SCOPES.map(str::to_owned).to_vec();
        let callers = [
            (KEY, Caller { tenant: TENANT, scopes: all() }),
            (READ_KEY, Caller { tenant: TENANT, scopes: vec!["jobs:read".into()] }),
            (OTHER_KEY, Caller { tenant: OTHER_TENANT, scopes: all() }),
        ];
        Ok(callers.into_iter().find(|(key, _)| <[u8; 32]>::from(Sha256::digest(key)) == key_hash).map(|(_, c)| c))
    }

    async fn accept(&self, tenant: TenantId, event: Event, key: Option<String>) -> Result<AcceptAnswer, ServiceError> {
        self.check()?;
        let key = (tenant, key.unwrap_or_else(|| format!("{}\0{}", event.source, event.id)));
        match self.slots.lock().unwrap().get(&key) {
            Some(Slot::InProgress) => return Ok(AcceptAnswer::Busy { retry_after: Duration::from_secs(1) }),
            Some(Slot::Committed { job, fingerprint }) if *fingerprint == event.fingerprint => {
                return Ok(AcceptAnswer::Replay(*job));
            }
            Some(Slot::Committed { .. }) => return Ok(AcceptAnswer::KeyReused),
            None => {}
        }
        self.slots.lock().unwrap().insert(key.clone(), Slot::InProgress);
        let takes = *self.commit_takes.lock().unwrap();
        tokio::time::sleep(takes).await;
        let job = JobId(Uuid::now_v7());
        self.slots.lock().unwrap().insert(key, Slot::Committed { job, fingerprint: event.fingerprint });
        self.rows.lock().unwrap().push((job, tenant, event));
        Ok(AcceptAnswer::New(job))
    }

    async fn accept_many(&self, tenant: TenantId, events: Vec<Event>) -> Vec<Result<AcceptAnswer, ServiceError>> {
        let mut answers = Vec::new();
        for event in events {
            answers.push(self.accept(tenant, event, None).await);
        }
        answers
    }

    async fn find_job(
        &self,
        tenant: TenantId,
        job: JobId,
        _: Option<DeliveryId>,
        _: usize,
    ) -> Result<Option<JobDetail>, ServiceError> {
        self.check()?;
        let found = self.found.lock().unwrap().clone();
        Ok(found.filter(|_| self.is_mine(tenant, job)))
    }

    async fn list_jobs(&self, tenant: TenantId, list: ListJobs) -> Result<Page<JobSummary>, ServiceError> {
        self.check()?;
        *self.listed.lock().unwrap() = Some(list);
        let found = self.found.lock().unwrap().clone().filter(|_| tenant == TENANT);
        Ok(Page { data: found.into_iter().map(|f| f.job).collect(), next: None })
    }

    async fn retry_job(&self, tenant: TenantId, job: JobId) -> Result<Option<RetrySummary>, ServiceError> {
        self.check()?;
        let summary = RetrySummary { job_id: job, requeued: vec![DeliveryId(Uuid::nil())], already_sent: 0 };
        Ok(self.is_mine(tenant, job).then_some(summary))
    }

    async fn cancel_job(&self, tenant: TenantId, job: JobId) -> Result<Option<CancelSummary>, ServiceError> {
        self.check()?;
        let summary = CancelSummary { job_id: job, cancelled: 2, already_final: 1, in_progress: 0 };
        Ok(self.is_mine(tenant, job).then_some(summary))
    }

    async fn feedback(&self, provider: &str, account: &str, body: Bytes) -> Result<FeedbackAnswer, ServiceError> {
        self.check()?;
        if !body.starts_with(b"{") {
            return Ok(FeedbackAnswer::Unreadable { detail: "expected an object".into() });
        }
        self.feedback.lock().unwrap().push((provider.into(), account.into(), body));
        Ok(FeedbackAnswer::Recorded { events: 1 })
    }

    fn inbound_guard(&self, provider: &str, account: &str) -> Option<InboundGuard> {
        match (provider, account) {
            ("postmark", "main") => InboundSecret::new("s3cret".into()).map(InboundGuard::Secret),
            ("resend", "main") => Some(InboundGuard::Signature(Arc::new(LengthSignature))),
            _ => None,
        }
    }

    async fn ready(&self) -> Readiness {
        self.readiness_questions.fetch_add(1, SeqCst);
        if self.readiness_hangs.load(SeqCst) {
            std::future::pending::<()>().await;
        }
        let ok = !self.away.load(SeqCst);
        Readiness { checks: vec![Check { name: "postgres".into(), ok, detail: None }] }
    }
}

/// "Signs" a body with its length.
#[derive(Debug)]
struct LengthSignature;

impl InboundSignature for LengthSignature {
    fn may_pass(&self, headers: &hyper::HeaderMap) -> bool {
        headers.contains_key("x-length")
    }

    fn passes(&self, headers: &hyper::HeaderMap, body: &[u8]) -> bool {
        headers["x-length"] == body.len().to_string()
    }
}

/// An API over a fresh [`Fake`].
pub(crate) struct Api {
    pub(crate) fake: Arc<Fake>,
    pub(crate) router: Router,
    pub(crate) state: ApiState,
    pub(crate) soft: CancellationToken,
}

pub(crate) fn api() -> Api {
    api_with(ApiConfig::default())
}

pub(crate) fn api_with(config: ApiConfig) -> Api {
    let (fake, soft) = (Arc::new(Fake::default()), CancellationToken::new());
    let state = ApiState::new(fake.clone(), config, soft.clone());
    Api { fake, router: waybill_api::router(state.clone()), state, soft }
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
    /// Checks that this is a problem of the code, whole and honest, and gives its members.
    pub(crate) fn problem(&self, code: &str) -> Value {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let json = self.json();
        assert_eq!(json["code"], code, "{self:?}");
        assert_eq!(json["type"], format!("/problems/{code}"));
        assert_eq!(json["status"], self.status);
        assert_eq!(json["request_id"], self.header("x-request-id"));
        assert!(json["title"].is_string() && json["detail"].as_str().is_some_and(|d| d.len() > 10), "{json}");
        json
    }
}

impl Api {
    pub(crate) async fn call(&self, request: Request<Body>) -> Answer {
        call(&self.router, request).await
    }

    /// `POST /events` of one event with [`KEY`].
    pub(crate) async fn post(&self, body: impl Into<Body>) -> Answer {
        self.call(post("/events").body(body.into()).unwrap()).await
    }

    pub(crate) async fn get(&self, uri: &str) -> Answer {
        self.call(Request::get(uri).header("authorization", format!("Bearer {KEY}")).body(Body::empty()).unwrap()).await
    }
}

pub(crate) async fn call(router: &Router, request: Request<Body>) -> Answer {
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    assert_eq!(parts.headers.get("cache-control").map(|v| v.as_bytes()), Some(&b"no-store"[..]));
    assert!(parts.headers.contains_key("x-request-id"));
    if let Some(length) = parts.headers.get("content-length") {
        assert_eq!(length.to_str().unwrap(), text.len().to_string(), "{text}");
    }
    Answer { status: parts.status.as_u16(), headers: parts.headers, text }
}

pub(crate) fn post(uri: &str) -> hyper::http::request::Builder {
    Request::post(uri).header("authorization", format!("Bearer {KEY}")).header("content-type", "application/json")
}

/// A body that gives `chunk` at every interval for ever and counts how often it was asked.
pub(crate) struct Trickle {
    pub(crate) polls: Arc<AtomicUsize>,
    pub(crate) interval: tokio::time::Interval,
    pub(crate) chunk: &'static [u8],
}

impl hyper::body::Body for Trickle {
    type Data = Bytes;
    type Error = std::convert::Infallible;
    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Bytes>, Self::Error>>> {
        self.polls.fetch_add(1, SeqCst);
        self.interval.poll_tick(cx).map(|_| Some(Ok(hyper::body::Frame::data(Bytes::from_static(self.chunk)))))
    }
}

pub(crate) fn trickle(every: Duration, chunk: &'static [u8]) -> (Body, Arc<AtomicUsize>) {
    let polls = Arc::new(AtomicUsize::new(0));
    let body = Trickle { polls: polls.clone(), interval: tokio::time::interval(every), chunk };
    (Body::new(body), polls)
}
