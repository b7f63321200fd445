//! The receive loop of whoever is done with a batch before asking for the next one: router, intake, feedback.

use crate::{
    context::{Context, Lifecycle},
    deletions::Deletions,
    holding::Holder,
};
use async_trait::async_trait;
use std::{sync::Arc, time::Duration};
use tracing::warn;
use waybill_core::ports::{MAX_BATCH, QueueName, Receipt, ReceivedMessage};

/// Between two tries while something is away.
const PAUSE: Duration = Duration::from_secs(1);

/// What became of a batch. A message that stands in neither list comes back when its visibility timeout is over.
#[derive(Debug, Default)]
pub(crate) struct Handled {
    pub(crate) done: Vec<Receipt>,
    /// Comes back after this.
    pub(crate) later: Vec<(Receipt, Duration)>,
    /// The database was away.
    pub(crate) away: bool,
}

#[async_trait]
pub(crate) trait Handler: Send + Sync {
    /// Handles one batch. May be dropped at any `await`, as by a crash.
    async fn handle(&self, messages: &[ReceivedMessage]) -> Handled;
}

/// Receives and handles until `life` stops; returns when what is done is deleted.
pub(crate) async fn run(context: Arc<Context>, queue: QueueName, life: Lifecycle, handler: &dyn Handler) {
    let deletions = Deletions::start(context.clone(), queue);
    receive(&context, queue, &life, handler, &deletions).await;
    tokio::select! {
        () = deletions.finish() => {}
        () = life.hard.cancelled() => {}
    }
}

async fn receive(context: &Context, queue: QueueName, life: &Lifecycle, handler: &dyn Handler, deletions: &Deletions) {
    let visibility = context.settings.timings.visibility_timeout;
    let holder = Holder::start(context.queue.clone(), queue, visibility);
    while !life.stopping() {
        // Never dropped half-way: the queue may have handed out messages already (SQS-04).
        let messages = match context.queue.receive(queue, MAX_BATCH, context.settings.queue_wait, visibility).await {
            Ok(messages) => messages,
            Err(error) => {
                warn!(queue = queue.as_str(), error = %error, "queue.receive_failed");
                life.pause(PAUSE).await;
                continue;
            }
        };
        if life.stopping() {
            put_back(context, queue, &messages).await;
            return;
        }
        if messages.is_empty() {
            continue;
        }
        let Some(handled) = holder.hold(&messages, handler.handle(&messages)).await else { continue };
        deletions.add(handled.done);
        delay(context, queue, &handled.later).await;
        if handled.away {
            until_back(context, life).await;
        }
    }
}

/// While the database is away a receive would only use up the receptions of messages that can't be handled.
async fn until_back(context: &Context, life: &Lifecycle) {
    while life.pause(PAUSE).await && context.store.ping().await.is_err() {}
}

/// Makes messages visible at once: somebody else takes them.
pub(crate) async fn put_back(context: &Context, queue: QueueName, messages: &[ReceivedMessage]) {
    let entries: Vec<_> = messages.iter().map(|m| (m.receipt.clone(), Duration::ZERO)).collect();
    delay(context, queue, &entries).await;
}

/// Makes messages visible after a while.
pub(crate) async fn delay(context: &Context, queue: QueueName, entries: &[(Receipt, Duration)]) {
    if entries.is_empty() {
        return;
    }
    // What was not put off comes back when its visibility timeout is over.
    if let Err(error) = context.queue.change_visibility_batch(queue, entries).await {
        warn!(queue = queue.as_str(), messages = entries.len(), error = %error, "queue.put_back_failed");
    }
}
