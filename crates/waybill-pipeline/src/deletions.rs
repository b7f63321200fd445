//! Deletes handled messages, together: a request is paid for one message as for ten, and nobody waits for a deletion.

use crate::{batcher::Batcher, context::Context};
use std::{sync::Arc, time::Duration};
use tokio_util::task::TaskTracker;
use tracing::warn;
use waybill_core::ports::{QueueName, Receipt};

/// Deleted at a time: whole requests.
const MAX: usize = 200;
/// Between two deletions that are not full. Far below any visibility timeout, and long enough for tens of messages.
const EVERY: Duration = Duration::from_millis(200);

pub(crate) struct Deletions {
    batcher: Batcher<Receipt, ()>,
    on_their_way: TaskTracker,
}

impl Deletions {
    pub(crate) fn start(context: Arc<Context>, queue: QueueName) -> Self {
        let batcher = Batcher::spawn_paced(MAX, EVERY, move |receipts: Vec<Receipt>| {
            let context = context.clone();
            async move {
                if let Err(error) = context.queue.delete_batch(queue, &receipts).await {
                    // They come again and are found to be done.
                    warn!(queue = queue.as_str(), messages = receipts.len(), error = %error, "queue.delete_failed");
                }
                vec![(); receipts.len()]
            }
        });
        Self { batcher, on_their_way: TaskTracker::new() }
    }

    /// Deletes in the background.
    pub(crate) fn add(&self, receipts: Vec<Receipt>) {
        if receipts.is_empty() {
            return;
        }
        let batcher = self.batcher.clone();
        self.on_their_way.spawn(async move { batcher.submit_all(receipts).await });
    }

    /// Waits until everything that was added is deleted, or refused.
    pub(crate) async fn finish(&self) {
        self.on_their_way.close();
        self.on_their_way.wait().await;
    }
}
