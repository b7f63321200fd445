//! Ordering keys: when a job ends, the next one of its key is woken.
//!
//! The claim refuses whoever is not first in line (`claim_gate` in the migrations); nothing here is needed for the order itself. This is
//! what makes the line move at once, and what keeps a job from blocking it for longer than [`order_block`].
//!
//! [`order_block`]: waybill_core::policy::Timings::order_block

use crate::{context::Context, deliver::dead_letter_by_id, router::send_delivery_messages};
use tracing::warn;
use waybill_core::{
    ids::JobId,
    state::{JobState, Reason},
};
use waybill_store::StoreError;

const LIMIT: i64 = 500;

/// Gives jobs the status that follows from their deliveries, and lets the next ones go where that was their end.
///
/// # Errors
/// [`StoreError`]; the sweep finds what was left undone.
pub(crate) async fn refresh(context: &Context, jobs: &[JobId]) -> Result<(), StoreError> {
    let changed = context.store.refresh_jobs(jobs).await?;
    let ended: Vec<JobId> =
        changed.iter().filter(|j| j.ordered && j.state != JobState::Routed).map(|j| j.job).collect();
    advance(context, &ended).await
}

/// Takes those of the jobs that are over out of their groups, and wakes the first one behind each. Jobs without an ordering key, and
/// those that are not over, change nothing.
///
/// # Errors
/// [`StoreError`]; the sweep finds what was left undone.
pub async fn advance(context: &Context, jobs: &[JobId]) -> Result<(), StoreError> {
    if jobs.is_empty() {
        return Ok(());
    }
    let closed = context.store.close_ordered(jobs).await?;
    wake(context, &closed).await
}

/// Queues the deliveries of the heads of these jobs' groups.
async fn wake(context: &Context, jobs: &[JobId]) -> Result<(), StoreError> {
    if jobs.is_empty() {
        return Ok(());
    }
    let woken = context.store.wake_heads(jobs, context.settings.timings.outbox_grace).await?;
    send_delivery_messages(context, &woken).await;
    Ok(())
}

/// Looks at open groups: ends whose process died before it could say so, and heads that have blocked for long enough.
pub(crate) async fn sweep(context: &Context) -> Result<(), StoreError> {
    loop {
        let seen = context.store.list_ordered(LIMIT, context.settings.timings.order_block).await?;
        let late: Vec<JobId> = seen.iter().filter(|j| j.late).map(|j| j.job).collect();
        if !late.is_empty() {
            let dead = context.store.time_out_ordered(&late).await?;
            warn!(jobs = late.len(), dead_letters = dead.len(), "order.timed_out");
            dead_letter_by_id(context, &dead, Reason::OrderingTimeout).await?;
        }
        let all: Vec<JobId> = seen.iter().map(|j| j.job).collect();
        advance(context, &all).await?;
        let heads: Vec<JobId> = seen.iter().filter(|j| j.new_head).map(|j| j.job).collect();
        wake(context, &heads).await?;
        if seen.len() < LIMIT as usize {
            return Ok(());
        }
    }
}
