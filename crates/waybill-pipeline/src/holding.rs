//! Messages in hand stay invisible to others for as long as they are.
//!
//! A receive hides a message for the visibility timeout. What takes longer (ten thousand recipients, a database that crawls) would be
//! handed to somebody else in the middle of it. Every step absorbs repeats, so nobody gets a mail twice by that; but it is twice the work
//! just when everything is slow, and one reception nearer to the dead-letter queue. So what is held for more than half of the timeout is
//! hidden anew for the whole of it, again and again, whole requests of ten. What is quicker costs nothing.
//!
//! Not for ever: whoever hangs for [`LONGEST`] is let go, and everybody else sees what they would see after a crash.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};
use tracing::{error, warn};
use waybill_core::ports::{EntryError, Queue, QueueName, Receipt, ReceivedMessage};

/// A handler that takes longer than this hangs.
pub const LONGEST: Duration = Duration::from_secs(30 * 60);
/// Looks per visibility timeout. A request that fails is tried three times more before the timeout is over.
const LOOKS: u32 = 8;
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);

/// What a process has in hand of one queue.
pub struct Holder {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Arc<dyn Queue>,
    name: QueueName,
    visibility: Duration,
    held: Mutex<HashMap<Receipt, Times>>,
}

#[derive(Clone, Copy)]
struct Times {
    since: Instant,
    /// When the visibility timeout began that is running now.
    hidden: Instant,
}

/// One message in hand. To drop it is to say that nobody needs the message any longer: it is deleted, put back, or given up.
#[must_use]
pub struct Held {
    shared: Arc<Shared>,
    receipt: Receipt,
}

impl Held {
    pub fn receipt(&self) -> &Receipt {
        &self.receipt
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.held().remove(&self.receipt);
    }
}

impl Holder {
    /// `visibility` is what messages are received with.
    pub fn start(queue: Arc<dyn Queue>, name: QueueName, visibility: Duration) -> Self {
        let shared = Arc::new(Shared { queue, name, visibility, held: Mutex::default() });
        let watched = Arc::downgrade(&shared);
        let pause = (visibility / LOOKS).max(SHORTEST_PAUSE);
        tokio::spawn(async move {
            loop {
                sleep(pause).await;
                // It ends with the last one who holds anything.
                let Some(shared) = watched.upgrade() else { return };
                shared.look().await;
            }
        });
        Self { shared }
    }

    /// Holds a message that was received just now.
    pub fn take(&self, receipt: Receipt) -> Held {
        let now = Instant::now();
        self.shared.held().insert(receipt.clone(), Times { since: now, hidden: now });
        Held { shared: self.shared.clone(), receipt }
    }

    /// Holds a batch while it is handled. `None`: the handler hung and was dropped; its messages come back.
    pub async fn hold<T>(&self, messages: &[ReceivedMessage], handling: impl Future<Output = T>) -> Option<T> {
        let _held: Vec<Held> = messages.iter().map(|message| self.take(message.receipt.clone())).collect();
        in_time(self.shared.name, handling).await
    }
}

/// Runs a handler for [`LONGEST`] at most. `None`: it hung and was dropped, wherever it was, as a crash would have done.
pub async fn in_time<T>(queue: QueueName, handling: impl Future<Output = T>) -> Option<T> {
    let done = timeout(LONGEST, handling).await.ok();
    if done.is_none() {
        error!(queue = queue.as_str(), after_s = LONGEST.as_secs(), "queue.handler_hung");
        metrics::counter!("waybill_queue_handlers_hung_total", "queue" => queue.as_str()).increment(1);
    }
    done
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, HashMap<Receipt, Times>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look(&self) {
        let now = Instant::now();
        let due = self.due(now);
        if due.is_empty() {
            return;
        }
        let entries: Vec<_> = due.iter().map(|receipt| (receipt.clone(), self.visibility)).collect();
        match self.queue.change_visibility_batch(self.name, &entries).await {
            Ok(results) => {
                metrics::counter!("waybill_queue_extended_total", "queue" => self.name.as_str())
                    .increment(results.iter().filter(|result| result.is_ok()).count() as u64);
                for (receipt, result) in due.iter().zip(results) {
                    self.note(receipt, result, now);
                }
            }
            Err(error) => {
                warn!(queue = self.name.as_str(), messages = due.len(), error = %error, "queue.extend_failed")
            }
        }
    }

    /// What has to be hidden anew. Lets go of what was held for too long.
    fn due(&self, now: Instant) -> Vec<Receipt> {
        let mut held = self.held();
        let before = held.len();
        held.retain(|_, times| now - times.since < LONGEST);
        if held.len() < before {
            let messages = before - held.len();
            warn!(queue = self.name.as_str(), messages, after_s = LONGEST.as_secs(), "queue.messages_let_go");
        }
        held.iter().filter(|(_, t)| now - t.hidden >= self.visibility / 2).map(|(receipt, _)| receipt.clone()).collect()
    }

    /// `asked`: no later than the new timeout's begin.
    fn note(&self, receipt: &Receipt, result: Result<(), EntryError>, asked: Instant) {
        match result {
            Ok(()) => {
                if let Some(times) = self.held().get_mut(receipt) {
                    times.hidden = asked;
                }
            }
            // Before its time is over it is asked for again.
            Err(EntryError::Temporary(_)) => {}
            // It was deleted meanwhile, or somebody else has it.
            Err(EntryError::StaleReceipt) => drop(self.held().remove(receipt)),
            Err(error @ EntryError::Permanent(_)) => {
                warn!(queue = self.name.as_str(), error = %error, "queue.extend_refused");
                self.held().remove(receipt);
            }
        }
    }
}
