//! Feedback: what providers tell us about our mails, settled into states. It comes by `POST /inbound` or by queue.

use crate::{
    consume::{self, Handled, Handler},
    context::{Context, Lifecycle},
    order,
    poison::{Refusal, refuse},
};
use async_trait::async_trait;
use std::sync::Arc;
use tracing::warn;
use waybill_core::ports::{FeedbackEvent, QueueName, ReceivedMessage};
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

/// Receives and records until `life` stops. `parse` is the adapter's: a body's events, none where it is a message that tells nothing (a
/// confirmation, a test), or what is wrong with it, without its content.
pub async fn consume<P>(context: Arc<Context>, parse: P, life: Lifecycle)
where
    P: Fn(&str) -> Result<Vec<FeedbackEvent>, String> + Send + Sync,
{
    let feedback = Feedback { context: context.clone(), parse };
    consume::run(context, QueueName::Feedback, life, &feedback).await;
}

struct Feedback<P> {
    context: Arc<Context>,
    parse: P,
}

#[async_trait]
impl<P> Handler for Feedback<P>
where
    P: Fn(&str) -> Result<Vec<FeedbackEvent>, String> + Send + Sync,
{
    async fn handle(&self, messages: &[ReceivedMessage]) -> Handled {
        let mut handled = Handled::default();
        let mut told = Vec::new();
        for message in messages {
            match (self.parse)(&message.body) {
                Ok(events) if events.is_empty() => {
                    metrics::counter!("waybill_feedback_without_event_total").increment(1);
                    handled.done.push(message.receipt.clone());
                }
                Ok(events) => told.push((message, events)),
                Err(detail) => {
                    let refusal = Refusal::new("unreadable_feedback", detail);
                    if refuse(&self.context, QueueName::Feedback, message, &refusal).await {
                        handled.done.push(message.receipt.clone());
                    }
                }
            }
        }
        let all: Vec<FeedbackEvent> = told.iter().flat_map(|(_, events)| events).cloned().collect();
        match record(&self.context, &all).await {
            Ok(_) => handled.done.extend(told.iter().map(|(message, _)| message.receipt.clone())),
            Err(error) if error.is_unavailable() => {
                warn!(messages = told.len(), error = &error as &dyn std::error::Error, "feedback.not_recorded");
                handled.away = true;
            }
            Err(_) => self.one_by_one(&told, &mut handled).await,
        }
        handled
    }
}

impl<P> Feedback<P> {
    /// A row that the database refuses hurts only its own message, which comes back until it has no receptions left.
    async fn one_by_one(&self, told: &[(&ReceivedMessage, Vec<FeedbackEvent>)], handled: &mut Handled) {
        for (message, events) in told {
            match record(&self.context, events).await {
                Ok(_) => handled.done.push(message.receipt.clone()),
                Err(error) => {
                    warn!(message = message.id, error = &error as &dyn std::error::Error, "feedback.not_recorded");
                    if error.is_unavailable() {
                        handled.away = true;
                        return;
                    }
                }
            }
        }
    }
}
