//! Deliver: the worker's side of the protocol.
//!
//! [`worker`] receives and stops; [`batch`] takes one received batch through load, checks, lock and claim; [`pass`] walks the provider
//! list for one claimed delivery; [`compose`] makes its mail; [`results`] records what came of it. [`loading`] and [`statements`] are what
//! batches share. The numbered steps in comments are those of docs/protocol.md, "Deliver".

mod batch;
mod compose;
mod loading;
mod pass;
mod results;
mod statements;
pub mod worker;

pub(crate) use results::dead_letter_by_id;

use crate::{
    batcher::Batcher,
    context::Context,
    deletions::Deletions,
    holding::{Held, Holder},
    recent::Recent,
};
use bytes::Bytes;
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;
use waybill_core::{
    ids::{AttemptId, DeliveryId, JobId, RouteId},
    ports::QueueName,
};
use waybill_store::{AttemptResult, Claim, ClaimRequest, Content, LoadedDelivery};

/// Statements are shared between the batches that run side by side: a batch of ten that meets nine others becomes one statement of
/// a hundred rows.
pub struct Deliverer {
    context: Arc<Context>,
    load: Batcher<DeliveryId, Result<Option<LoadedDelivery>, Unavailable>>,
    contents: Batcher<ContentKey, Result<Option<Arc<Content>>, Unavailable>>,
    claim: Batcher<ClaimRequest, Result<Option<Claim>, Unavailable>>,
    record: Batcher<Arc<AttemptResult>, Result<bool, Unavailable>>,
    deletions: Deletions,
    holder: Holder,
    /// Contents never change under their key (routes are versioned, an event's data is fixed).
    recent_contents: Recent<ContentKey, Arc<Content>>,
    recent_documents: Recent<String, Bytes>,
    finished_jobs: tokio::sync::mpsc::UnboundedSender<JobId>,
    /// Those that others of their ordering key wait for.
    finished_ordered_jobs: tokio::sync::mpsc::UnboundedSender<JobId>,
    database_away: Arc<AtomicBool>,
}

type ContentKey = (JobId, RouteId, i32);

/// The messages of a delivery on its way, with the permit that they hold until it is done.
struct Ticket {
    messages: Vec<Held>,
    _permit: Option<OwnedSemaphorePermit>,
}

/// A claim that this process holds.
#[derive(Debug, Clone)]
struct Granted {
    token: Uuid,
    attempt: AttemptId,
    /// Whole passes before this one.
    attempts: u32,
    position: usize,
    /// The identity was claimed before.
    again: bool,
    /// On the monotonic clock: after this somebody else may hold the claim.
    until: Duration,
}

/// The statement did not run, or nobody can know whether it did. Logged where it happened.
#[derive(Debug, Clone, Copy)]
struct Unavailable;

const MAX_STATEMENT: usize = 200;
/// Nobody waits for the stored status of a job without an ordering key.
const REFRESH_PAUSE: Duration = Duration::from_millis(500);
const CONTENT_CACHE_BYTES: usize = 16 << 20;
const DOCUMENT_CACHE_BYTES: usize = 32 << 20;

impl Deliverer {
    pub fn start(context: Arc<Context>) -> Arc<Self> {
        let (finished_jobs, finished) = tokio::sync::mpsc::unbounded_channel();
        let (finished_ordered_jobs, finished_ordered) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(results::refresh_jobs(context.clone(), finished, REFRESH_PAUSE));
        tokio::spawn(results::refresh_jobs(context.clone(), finished_ordered, Duration::ZERO));
        let database_away = Arc::new(AtomicBool::new(false));
        let away = database_away.clone();
        Arc::new(Self {
            load: batcher(&context, move |context, ids| loading::deliveries(context, away.clone(), ids)),
            contents: batcher(&context, loading::contents),
            claim: batcher(&context, statements::claim),
            record: batcher(&context, results::record),
            deletions: Deletions::start(context.clone(), QueueName::Delivery),
            holder: Holder::start(
                context.queue.clone(),
                QueueName::Delivery,
                context.settings.timings.visibility_timeout,
            ),
            recent_contents: Recent::new(CONTENT_CACHE_BYTES),
            recent_documents: Recent::new(DOCUMENT_CACHE_BYTES),
            finished_jobs,
            finished_ordered_jobs,
            database_away,
            context,
        })
    }

    /// One of its deliveries has ended.
    fn job_may_have_ended(&self, delivery: &LoadedDelivery) {
        let channel = if delivery.ordered { &self.finished_ordered_jobs } else { &self.finished_jobs };
        let _ = channel.send(delivery.job);
    }

    /// Receiving more would only use up the receive counts of messages that can't be handled.
    fn database_away(&self) -> bool {
        self.database_away.load(Ordering::Relaxed)
    }
}

fn batcher<Request, Answer, F, Fut>(context: &Arc<Context>, run: F) -> Batcher<Request, Answer>
where
    Request: Send + 'static,
    Answer: Send + 'static,
    F: Fn(Arc<Context>, Vec<Request>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Vec<Answer>> + Send + 'static,
{
    let context = context.clone();
    Batcher::spawn(MAX_STATEMENT, 1, move |requests| run(context.clone(), requests))
}

#[cfg(test)]
mod tests;
