//! Feedback: what providers tell us about our mails, settled into states.

use crate::{context::Context, order};
use waybill_core::ports::FeedbackEvent;
use waybill_store::{FeedbackSummary, StoreError};

/// Events settled at a time.
const LIMIT: i64 = 500;

/// Records events (repeats change nothing), settles unknown outcomes and moves deliveries up the order of precedence.
///
/// # Errors
/// [`StoreError`]: the provider should deliver the events again.
pub async fn record(context: &Context, events: &[FeedbackEvent]) -> Result<FeedbackSummary, StoreError> {
    if events.is_empty() {
        return Ok(FeedbackSummary::default());
    }
    let summary = context.store.record_feedback(events).await?;
    metrics::counter!("waybill_feedback_events_total").increment(events.len() as u64);
    metrics::counter!("waybill_feedback_unmatched_total").increment(summary.new.saturating_sub(summary.matched) as u64);
    refresh(context, &summary).await?;
    Ok(summary)
}

/// Events that came before their attempt had its result take effect now.
pub(crate) async fn settle(context: &Context) -> Result<(), StoreError> {
    loop {
        let summary = context.store.settle_feedback(LIMIT).await?;
        refresh(context, &summary).await?;
        if summary.matched < LIMIT as usize || summary.settled.len() + summary.moved.len() == 0 {
            return Ok(());
        }
    }
}

/// The status of a job may change with what was settled, and when a mail bounced that counted as good.
async fn refresh(context: &Context, summary: &FeedbackSummary) -> Result<(), StoreError> {
    metrics::counter!("waybill_unknown_settled_total").increment(summary.settled.len() as u64);
    let changed: Vec<_> = summary.settled.iter().chain(&summary.moved).copied().collect();
    if changed.is_empty() {
        return Ok(());
    }
    let mut jobs: Vec<_> = context.store.load_deliveries(&changed).await?.iter().map(|d| d.job).collect();
    jobs.sort_unstable();
    jobs.dedup();
    order::refresh(context, &jobs).await
}
