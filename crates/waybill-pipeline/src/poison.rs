//! Messages that can never be handled: to the dead-letter queue with their reason, while their neighbours go on.

use crate::context::Context;
use tracing::warn;
use waybill_core::{
    ports::{AlertCause, OutgoingMessage, QueueName, ReceivedMessage},
    text::{sendable, storable},
    trace::Traceparent,
};

/// Characters of a reason, and of a detail, on a dead-lettered message.
const MAX_REASON: usize = 200;
const MAX_DETAIL: usize = 1_000;

/// Why a message can never be handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// A stable word: for the log, for programs, and what alerts are grouped by.
    pub(crate) reason: &'static str,
    /// Says what to do. May name a field of the sender's, so it goes beside the body and nowhere else.
    pub(crate) detail: String,
}

impl Refusal {
    pub(crate) fn new(reason: &'static str, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

/// A message that can't be read goes to the dead-letter queue. Returns whether it is there.
pub(crate) async fn dead_letter_message(
    context: &Context,
    queue: QueueName,
    message: &ReceivedMessage,
    reason: &str,
) -> bool {
    bury(context, queue, message, "poison_message", reason, "").await
}

/// As [`dead_letter_message`], with one alert for each word.
pub(crate) async fn refuse(context: &Context, queue: QueueName, message: &ReceivedMessage, refusal: &Refusal) -> bool {
    bury(context, queue, message, refusal.reason, refusal.reason, &refusal.detail).await
}

async fn bury(
    context: &Context,
    queue: QueueName,
    message: &ReceivedMessage,
    cause: &str,
    reason: &str,
    detail: &str,
) -> bool {
    let Some(dead) = queue.dead_letter() else { return false };
    warn!(queue = queue.as_str(), message = message.id, reason, "queue.message_dead_lettered");
    metrics::counter!("waybill_queue_poison_total", "queue" => queue.as_str()).increment(1);
    let text = |text: &str, limit| sendable(&storable(text, limit)).into_owned();
    let mut attributes =
        vec![("reason".to_owned(), text(reason, MAX_REASON)), ("message_id".to_owned(), message.id.clone())];
    if !detail.is_empty() {
        attributes.push(("detail".to_owned(), text(detail, MAX_DETAIL)));
    }
    attributes.extend(Traceparent::of(message).map(|trace| trace.attribute()));
    // A queue that takes any text may have handed out what this one refuses for good; then the message would come back and back.
    let body = sendable(&message.body).into_owned();
    let entry = OutgoingMessage { body, attributes, ..OutgoingMessage::default() };
    let sent = context.queue.send_batch(dead, &[entry]).await;
    let sent = matches!(sent.as_deref(), Ok([Ok(())]));
    if sent {
        let alert = format!("a message on {} can't be handled: {reason}", queue.as_str());
        context.alerts.raise(AlertCause::DeadLetter, cause, 1, alert, "waybill queues".into()).await;
    }
    sent
}
