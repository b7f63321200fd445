//! Accept: an event becomes a durable job before its caller hears 202.
//!
//! Posts that arrive while a commit is running share the next one (group commit). A slice that the database refuses is tried one by one,
//! so that a bad or blocked post gets its own answer and its neighbours commit. Publishing to the main queue comes after the commit
//! ([`publish`]).

use crate::{batcher::Batcher, context::Context, publish};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tokio::sync::mpsc;
use tracing::{debug, info, warn};
use waybill_core::{
    event::Event,
    ids::{JobId, TenantId},
    json::Json,
};
use waybill_store::{AcceptOptions, Accepted, NewJob, StoreError};

/// The answer to one post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcceptAnswer {
    New(JobId),
    /// Posted before with the same content.
    Replay(JobId),
    /// The key (or the event's source and id) was used for other content.
    KeyReused(JobId),
    /// Another post with this key is being committed right now.
    Busy,
}

/// Nothing was stored, or nobody can know; the caller should post again with the same id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    #[error("the database is unavailable")]
    Unavailable,
    #[error("the event could not be stored")]
    Internal,
}

type Answer = Result<AcceptAnswer, AcceptError>;

/// The accepting side of a process. Cheap to clone.
#[derive(Clone)]
pub struct Acceptor {
    batcher: Batcher<NewJob, Answer>,
    publish: mpsc::Sender<publish::Job>,
    context: Arc<Context>,
}

/// Posts in one commit.
const MAX_COMMIT: usize = 200;

impl Acceptor {
    pub fn start(context: Arc<Context>) -> Self {
        let publish = publish::start(context.clone());
        let shared = (context.clone(), publish.clone());
        let batcher = Batcher::spawn(MAX_COMMIT, 2, move |jobs| commit(shared.0.clone(), shared.1.clone(), jobs));
        Self { batcher, publish, context }
    }

    /// Stores one event of a tenant. `key` is the `Idempotency-Key`, if the caller sent one; the event's source and id count as well.
    ///
    /// # Errors
    /// [`AcceptError`]; the caller is asked to post again.
    pub async fn accept(&self, tenant: TenantId, event: &Event, key: Option<&str>) -> Answer {
        let job = new_job(JobId(self.context.chance.id()), tenant, event, key);
        self.batcher.submit(job).await.unwrap_or(Err(AcceptError::Internal))
    }

    /// Stores several events in one commit; each has its own answer.
    pub async fn accept_all(&self, tenant: TenantId, events: &[Event]) -> Vec<Answer> {
        let jobs = events.iter().map(|event| new_job(JobId(self.context.chance.id()), tenant, event, None)).collect();
        let answers = self.batcher.submit_all(jobs).await;
        answers.into_iter().map(|answer| answer.unwrap_or(Err(AcceptError::Internal))).collect()
    }

    /// Stores events of any tenants in one commit, which they share with nobody else; each has its own answer. For a caller that has a
    /// batch already and handles it alone.
    pub async fn accept_batch(&self, events: &[(TenantId, Event)]) -> Vec<Answer> {
        if events.is_empty() {
            return Vec::new();
        }
        let job = |(tenant, event): &(TenantId, Event)| new_job(JobId(self.context.chance.id()), *tenant, event, None);
        commit(self.context.clone(), self.publish.clone(), events.iter().map(job).collect()).await
    }
}

fn new_job(id: JobId, tenant: TenantId, event: &Event, key: Option<&str>) -> NewJob {
    let mut keys = vec![key_hash("event", &[&event.source, &event.id])];
    keys.extend(key.map(|key| key_hash("key", &[key])));
    let revision = event.effective_revision();
    let recipients = Json::Array(
        event
            .recipients
            .iter()
            .map(|r| {
                Json::Object(vec![
                    ("email".into(), Json::String(r.email.as_given().into())),
                    ("name".into(), Json::String(r.name.clone())),
                ])
            })
            .collect(),
    );
    NewJob {
        id,
        tenant,
        event_id: event.id.clone(),
        source: event.source.clone(),
        event_type: event.event_type.clone(),
        subject: event.subject.clone(),
        event_time: event.time,
        revision_number: event
            .revision
            .as_ref()
            .and_then(|r| r.bytes().all(|b| b.is_ascii_digit()).then(|| r.parse().ok()).flatten()),
        ordering_key: event.ordering_key.clone(),
        revision_by_content: event.revision.is_none(),
        revision,
        recipients: recipients.to_text(),
        data: event.data.to_text(),
        expires_at: event.expires_at,
        trace: event.trace.clone(),
        keys,
        fingerprint: event.fingerprint,
    }
}

/// Length-prefixed, so that no source and id can spell another pair or a caller's key.
fn key_hash(kind: &str, parts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in std::iter::once(&kind).chain(parts) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().into()
}

async fn commit(context: Arc<Context>, publish: mpsc::Sender<publish::Job>, jobs: Vec<NewJob>) -> Vec<Answer> {
    let settings = &context.settings;
    let options = AcceptOptions {
        outbox_grace: settings.timings.outbox_grace,
        requeue_after: settings.timings.requeue_after,
        idempotency_ttl: settings.idempotency_ttl,
        lock_timeout: settings.idempotency_wait,
    };
    let answers = match context.store.accept(&jobs, &options).await {
        Ok(accepted) => jobs.iter().zip(accepted).map(|(job, accepted)| Ok(answer(job, accepted))).collect(),
        Err(error) if error.is_unavailable() => jobs.iter().map(|_| Err(AcceptError::Unavailable)).collect(),
        Err(error) => {
            debug!(jobs = jobs.len(), error = &error as &dyn std::error::Error, "accept.slice_refused");
            one_by_one(&context, &jobs, &options).await
        }
    };
    for (job, answer) in jobs.iter().zip(&answers) {
        let new = matches!(answer, Ok(AcceptAnswer::New(_)));
        if let (Some(trace), Ok(AcceptAnswer::New(job) | AcceptAnswer::Replay(job))) = (&job.trace, answer) {
            info!(job = %job, new, trace_id = trace.trace_id(), "accept.accepted");
        }
        if new && publish.try_send(publish::Job::of(job)).is_err() {
            debug!(job = %job.id, "accept.publish_left_to_relay");
        }
    }
    answers
}

fn answer(job: &NewJob, accepted: Accepted) -> AcceptAnswer {
    match accepted {
        Accepted::New => AcceptAnswer::New(job.id),
        Accepted::Replay { job } => AcceptAnswer::Replay(job),
        Accepted::KeyReused { job } => AcceptAnswer::KeyReused(job),
        Accepted::Busy => AcceptAnswer::Busy,
    }
}

async fn one_by_one(context: &Context, jobs: &[NewJob], options: &AcceptOptions) -> Vec<Answer> {
    let alone = jobs.iter().map(|job| async move {
        match context.store.accept(std::slice::from_ref(job), options).await {
            Ok(accepted) => accepted.into_iter().next().map(|a| answer(job, a)).ok_or(AcceptError::Internal),
            Err(error @ StoreError::Conflict { .. }) => {
                debug!(job = %job.id, error = &error as &dyn std::error::Error, "accept.busy");
                Ok(AcceptAnswer::Busy)
            }
            Err(error) if error.is_unavailable() => Err(AcceptError::Unavailable),
            Err(error) => {
                warn!(job = %job.id, error = &error as &dyn std::error::Error, "accept.failed");
                Err(AcceptError::Internal)
            }
        }
    });
    futures::future::join_all(alone).await
}
