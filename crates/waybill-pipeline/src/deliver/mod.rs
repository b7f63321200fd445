//! Deliver: the worker's side of the protocol.
//!
//! [`worker`] receives and stops; [`batch`] takes one received batch through load, checks, lock and claim; [`pass`] walks the provider
//! list for one claimed delivery; [`compose`] makes its mail; [`loading`] reads what they need; [`results`] records what came of it. The numbered steps in comments are
//! those of docs/protocol.md, "Deliver".

mod batch;
mod compose;
mod loading;
mod pass;
mod results;
pub mod worker;

pub(crate) use results::dead_letter_by_id;

use crate::{batcher::Batcher, context::Context, recent::Recent};
use bytes::Bytes;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use waybill_core::{
    ids::{DeliveryId, JobId, RouteId},
    ports::{QueueName, Receipt},
};
use waybill_store::{AttemptResult, Claim, ClaimRequest, Content, LoadedDelivery, StoreError};

/// Statements are shared between the batches that run side by side: a batch of ten that meets nine others becomes one statement of
/// a hundred rows.
pub struct Deliverer {
    context: Arc<Context>,
    load: Batcher<DeliveryId, Result<Option<LoadedDelivery>, Unavailable>>,
    contents: Batcher<ContentKey, Result<Option<Arc<Content>>, Unavailable>>,
    claim: Batcher<ClaimRequest, Result<Option<Claim>, Unavailable>>,
    record: Batcher<Arc<AttemptResult>, Result<bool, Unavailable>>,
    delete: Batcher<Receipt, ()>,
    /// Contents never change under their key (routes are versioned, an event's data is fixed).
    recent_contents: Recent<ContentKey, Arc<Content>>,
    recent_documents: Recent<String, Bytes>,
    finished_jobs: tokio::sync::mpsc::UnboundedSender<JobId>,
    database_away: Arc<AtomicBool>,
}

type ContentKey = (JobId, RouteId, i32);

/// The statement did not run, or nobody can know whether it did. Logged where it happened.
#[derive(Debug, Clone, Copy)]
struct Unavailable;

const MAX_STATEMENT: usize = 200;
const CONTENT_CACHE_BYTES: usize = 16 << 20;
const DOCUMENT_CACHE_BYTES: usize = 32 << 20;

impl Deliverer {
    pub fn start(context: Arc<Context>) -> Arc<Self> {
        let (finished_jobs, finished) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(results::refresh_jobs(context.clone(), finished));
        let database_away = Arc::new(AtomicBool::new(false));
        Arc::new(Self {
            load: {
                let (context, away) = (context.clone(), database_away.clone());
                Batcher::spawn(MAX_STATEMENT, 1, move |ids| loading::deliveries(context.clone(), away.clone(), ids))
            },
            contents: {
                let context = context.clone();
                Batcher::spawn(MAX_STATEMENT, 1, move |keys| loading::contents(context.clone(), keys))
            },
            claim: {
                let context = context.clone();
                Batcher::spawn(MAX_STATEMENT, 1, move |requests: Vec<ClaimRequest>| {
                    let context = context.clone();
                    async move {
                        match context.store.claim(&requests, context.settings.timings.claim_ttl).await {
                            Ok(claims) => in_their_order(&requests, claims).into_iter().map(Ok).collect(),
                            Err(error) => refused(&requests, "deliver.claim_failed", &error),
                        }
                    }
                })
            },
            record: {
                let context = context.clone();
                Batcher::spawn(MAX_STATEMENT, 1, move |results: Vec<Arc<AttemptResult>>| {
                    results::record(context.clone(), results)
                })
            },
            delete: {
                let context = context.clone();
                Batcher::spawn(MAX_STATEMENT, 1, move |receipts: Vec<Receipt>| {
                    let context = context.clone();
                    async move {
                        if let Err(error) = context.queue.delete_batch(QueueName::Delivery, &receipts).await {
                            // They come again and find their deliveries final.
                            tracing::warn!(messages = receipts.len(), error = %error, "deliver.delete_failed");
                        }
                        receipts.iter().map(|_| ()).collect()
                    }
                })
            },
            recent_contents: Recent::new(CONTENT_CACHE_BYTES),
            recent_documents: Recent::new(DOCUMENT_CACHE_BYTES),
            finished_jobs,
            database_away,
            context,
        })
    }

    /// Receiving more would only use up the receive counts of messages that can't be handled.
    fn database_away(&self) -> bool {
        self.database_away.load(Ordering::Relaxed)
    }
}

/// The answers in the places of their requests. The store answers in order and leaves out what does not exist. Two messages of one delivery
/// may meet in one statement: then one is granted and the other is not, and they must not be mixed up.
fn in_their_order(requests: &[ClaimRequest], claims: Vec<(DeliveryId, Claim)>) -> Vec<Option<Claim>> {
    let mut claims = claims.into_iter().peekable();
    requests.iter().map(|r| claims.next_if(|(id, _)| *id == r.delivery).map(|(_, claim)| claim)).collect()
}

fn refused<R, T>(requests: &[R], what: &'static str, error: &StoreError) -> Vec<Result<T, Unavailable>> {
    tracing::warn!(rows = requests.len(), error = error as &dyn std::error::Error, "{what}");
    requests.iter().map(|_| Err(Unavailable)).collect()
}

#[cfg(test)]
mod tests;
