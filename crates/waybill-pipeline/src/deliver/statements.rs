//! What the batchers run: one statement for the requests of all batches that are under way, each answered in its own place.

use super::Unavailable;
use crate::context::Context;
use std::sync::Arc;
use tracing::warn;
use waybill_core::{
    ids::DeliveryId,
    ports::{QueueName, Receipt},
};
use waybill_store::{Claim, ClaimRequest, StoreError};

pub(super) async fn claim(
    context: Arc<Context>,
    requests: Vec<ClaimRequest>,
) -> Vec<Result<Option<Claim>, Unavailable>> {
    match context.store.claim(&requests, context.settings.timings.claim_ttl).await {
        Ok(claims) => in_their_order(&requests, claims).into_iter().map(Ok).collect(),
        Err(error) => refused(&requests, "deliver.claim_failed", &error),
    }
}

/// The answers in the places of their requests. The store answers in order and leaves out what does not exist. Two messages of one delivery
/// may meet in one statement: then one is granted and the other is not, and they must not be mixed up.
pub(super) fn in_their_order(requests: &[ClaimRequest], claims: Vec<(DeliveryId, Claim)>) -> Vec<Option<Claim>> {
    let mut claims = claims.into_iter().peekable();
    requests.iter().map(|r| claims.next_if(|(id, _)| *id == r.delivery).map(|(_, claim)| claim)).collect()
}

pub(super) async fn delete(context: Arc<Context>, receipts: Vec<Receipt>) -> Vec<()> {
    if let Err(error) = context.queue.delete_batch(QueueName::Delivery, &receipts).await {
        // They come again and find their deliveries final.
        warn!(messages = receipts.len(), error = %error, "deliver.delete_failed");
    }
    receipts.iter().map(|_| ()).collect()
}

pub(super) fn refused<R, T>(requests: &[R], what: &'static str, error: &StoreError) -> Vec<Result<T, Unavailable>> {
    warn!(rows = requests.len(), error = error as &dyn std::error::Error, "{what}");
    requests.iter().map(|_| Err(Unavailable)).collect()
}
