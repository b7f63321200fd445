//! Redrive: dead letters put back, selectively.

use crate::{context::Context, router::send_delivery_messages};
use std::{collections::HashSet, time::Duration};
use waybill_core::{
    ids::{DeliveryId, JobId, TenantId},
    message::{DeliveryMessage, Parsed, parse},
    ports::{MAX_BATCH, QueueName},
};
use waybill_store::{DeadLetter, DeadLetterFilter, Redriven, StoreError};

/// What a redrive did, or would do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct RedriveSummary {
    /// Dead letters that match the filter.
    pub matched: u64,
    /// Put back onto the delivery queue.
    pub queued: u64,
    /// Skipped: the same thing has been sent since.
    pub already_sent: u64,
    /// Skipped: not dead any more when their turn came.
    pub not_dead: u64,
    /// Entries of the dead-letter queue whose delivery lives again, taken off it.
    pub entries_removed: u64,
}

/// Puts the dead letters that match `filter` back, at most `per_second` of them a second. `progress` hears the summary after each step.
///
/// # Errors
/// [`StoreError`]; what was put back until then stays put back, and running it again goes on.
pub async fn run(
    context: &Context,
    filter: &DeadLetterFilter,
    per_second: u32,
    mut progress: impl FnMut(&RedriveSummary),
) -> Result<RedriveSummary, StoreError> {
    let mut summary = RedriveSummary::default();
    let mut after = None;
    let step = per_second.clamp(1, 500) as i64;
    loop {
        let started = context.clock.monotonic();
        let page = context.store.list_dead_letters(filter, after, step).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.delivery);
        put_back(context, &page, &mut summary).await?;
        progress(&summary);
        let rest = Duration::from_secs(1).saturating_sub(context.clock.monotonic().saturating_sub(started));
        if page.len() as i64 == step {
            tokio::time::sleep(rest).await;
        }
    }
    summary.entries_removed = clean_queue(context).await?;
    progress(&summary);
    Ok(summary)
}

async fn put_back(context: &Context, page: &[DeadLetter], summary: &mut RedriveSummary) -> Result<(), StoreError> {
    let ids: Vec<DeliveryId> = page.iter().map(|d| d.delivery).collect();
    let tenants: std::collections::HashMap<DeliveryId, TenantId> =
        page.iter().map(|d| (d.delivery, d.tenant)).collect();
    summary.matched += page.len() as u64;
    let mut queue = Vec::new();
    for (delivery, redriven) in context.store.redrive(&ids, context.settings.timings.requeue_after).await? {
        match redriven {
            Redriven::Queued => {
                summary.queued += 1;
                queue.extend(tenants.get(&delivery).map(|tenant| (*tenant, delivery)));
            }
            Redriven::AlreadySent { .. } => summary.already_sent += 1,
            Redriven::NotDead => summary.not_dead += 1,
        }
    }
    send_delivery_messages(context, &queue).await;
    context.documents_bell.notify_waiters();
    Ok(())
}

/// What the retry of one job did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetriedJob {
    pub queued: Vec<DeliveryId>,
    /// Left alone: the same thing has been sent since.
    pub already_sent: u64,
}

/// One job's dead letters back to PENDING. `None`: the tenant has no such job.
///
/// # Errors
/// [`StoreError`].
pub async fn retry_job(context: &Context, tenant: TenantId, job: JobId) -> Result<Option<RetriedJob>, StoreError> {
    let Some(redriven) = context.store.retry_job(tenant, job, context.settings.timings.requeue_after).await? else {
        return Ok(None);
    };
    let mut retried = RetriedJob::default();
    for (delivery, what) in redriven {
        match what {
            Redriven::Queued => retried.queued.push(delivery),
            Redriven::AlreadySent { .. } => retried.already_sent += 1,
            Redriven::NotDead => {}
        }
    }
    let entries: Vec<_> = retried.queued.iter().map(|delivery| (tenant, *delivery)).collect();
    send_delivery_messages(context, &entries).await;
    context.documents_bell.notify_waiters();
    Ok(Some(retried))
}

/// Takes entries off the dead-letter queue whose delivery is no dead letter any more. What stays (poison, other filters) is put back.
async fn clean_queue(context: &Context) -> Result<u64, StoreError> {
    let mut removed = 0;
    let mut seen: HashSet<String> = HashSet::new();
    let mut keep = Vec::new();
    while let Ok(messages) =
        context.queue.receive(QueueName::DeliveryDead, MAX_BATCH, Duration::ZERO, Duration::from_secs(60)).await
    {
        let fresh: Vec<_> = messages.into_iter().filter(|m| seen.insert(m.id.clone())).collect();
        if fresh.is_empty() {
            break;
        }
        let parsed: Vec<(usize, DeliveryId)> = fresh
            .iter()
            .enumerate()
            .filter_map(|(i, m)| match parse::<DeliveryMessage>(&m.body) {
                Parsed::Message(message) => Some((i, message.delivery)),
                Parsed::Newer(_) | Parsed::Malformed(_) => None,
            })
            .collect();
        let loaded = context.store.load_deliveries(&parsed.iter().map(|p| p.1).collect::<Vec<_>>()).await?;
        let dead: HashSet<DeliveryId> = loaded.iter().filter(|d| d.dead_lettered).map(|d| d.id).collect();
        let gone: HashSet<usize> = parsed.iter().filter(|(_, id)| !dead.contains(id)).map(|(i, _)| *i).collect();
        let receipts: Vec<_> = gone.iter().map(|i| fresh[*i].receipt.clone()).collect();
        if !receipts.is_empty() && context.queue.delete_batch(QueueName::DeliveryDead, &receipts).await.is_ok() {
            removed += receipts.len() as u64;
        }
        keep.extend(
            fresh
                .iter()
                .enumerate()
                .filter(|(i, _)| !gone.contains(i))
                .map(|(_, m)| (m.receipt.clone(), Duration::ZERO)),
        );
    }
    if !keep.is_empty() {
        // Left invisible they come back by themselves after a minute.
        let _ = context.queue.change_visibility_batch(QueueName::DeliveryDead, &keep).await;
    }
    Ok(removed)
}
