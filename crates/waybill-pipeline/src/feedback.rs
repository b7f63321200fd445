//! Feedback: what providers tell us about our mails, settled into states.

use crate::context::Context;
use waybill_core::ports::FeedbackEvent;
use waybill_store::{FeedbackSummary, StoreError};

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
    metrics::counter!("waybill_feedback_unmatched_total").increment((summary.new - summary.matched.min(summary.new)) as u64);
    if !summary.settled.is_empty() {
        metrics::counter!("waybill_unknown_settled_total").increment(summary.settled.len() as u64);
        let mut jobs: Vec<_> = context.store.load_deliveries(&summary.settled).await?.iter().map(|d| d.job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        context.store.refresh_job_states(&jobs).await?;
    }
    Ok(summary)
}
