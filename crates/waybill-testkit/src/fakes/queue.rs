use super::{
    queue_rules,
    queue_state::{Shown, State},
};
use crate::locked;
use async_trait::async_trait;
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};
use waybill_core::ports::{
    EntryError, MAX_BATCH, OutgoingMessage, Queue, QueueDepth, QueueError, QueueName, Receipt, ReceivedMessage,
    split_batches,
};

/// What happens to one SendMessageBatch request (at most ten entries). Positions count within the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendFault {
    /// It goes well: lets a script reach a later request.
    None,
    /// 200, with these entries in the list of failures; the rest is stored.
    Failed(Vec<(usize, EntryError)>),
    /// 200 that mentions these entries in neither list. `stored`: SQS has them all the same.
    Unaccounted { positions: Vec<usize>, stored: bool },
    /// The connection fails before anything is stored.
    Refused,
    /// Everything is stored, then the answer is lost.
    AnswerLost,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    send_faults: Mutex<VecDeque<SendFault>>,
    failing_receives: AtomicU64,
    failing_deletes: AtomicU64,
    down: AtomicBool,
    requests: AtomicU64,
    max_receive_count: u32,
    arrived: Notify,
}

/// SQS standard queues in memory, with their habits: redelivery after the visibility timeout, receive counts, delays, fair groups,
/// dead letters, half-failed batches, and a long poll that goes on at the server when its caller is gone.
#[derive(Clone)]
pub struct FakeQueue {
    inner: Arc<Inner>,
}

impl FakeQueue {
    /// A message received `max_receive_count` times goes to the dead-letter queue instead of being handed out once more.
    pub fn new(max_receive_count: u32) -> Self {
        Self { inner: Arc::new(Inner { max_receive_count, ..Inner::default() }) }
    }

    /// Adds to the script of the next send requests, one fault per request.
    pub fn script_sends(&self, faults: impl IntoIterator<Item = SendFault>) {
        locked(&self.inner.send_faults).extend(faults);
    }

    /// The next `count` messages handed out are handed out once more, at once: a duplicate delivery.
    pub fn duplicate_next(&self, count: usize) {
        locked(&self.inner.state).duplicates += count;
    }

    pub fn fail_next_receives(&self, count: u64) {
        self.inner.failing_receives.store(count, Ordering::SeqCst);
    }

    /// The next `count` delete requests take nothing; each entry is a temporary failure.
    pub fn fail_next_deletes(&self, count: u64) {
        self.inner.failing_deletes.store(count, Ordering::SeqCst);
    }

    /// While down every request fails and nothing is stored.
    pub fn set_down(&self, down: bool) {
        self.inner.down.store(down, Ordering::SeqCst);
    }

    /// Wire requests so far.
    pub fn requests(&self) -> u64 {
        self.inner.requests.load(Ordering::SeqCst)
    }

    /// What is in a queue, hidden messages included; receives nothing.
    pub fn peek(&self, queue: QueueName) -> Vec<Shown> {
        locked(&self.inner.state).show(queue)
    }

    /// Puts a message there unchecked, as a foreign sender of a laxer queue may.
    pub fn plant(&self, queue: QueueName, body: &str) {
        locked(&self.inner.state).store(queue, &OutgoingMessage { body: body.into(), ..Default::default() });
        self.inner.arrived.notify_waiters();
    }

    fn request(&self) -> bool {
        self.inner.requests.fetch_add(1, Ordering::SeqCst);
        !self.inner.down.load(Ordering::SeqCst)
    }

    fn send_request(&self, queue: QueueName, entries: &[&OutgoingMessage]) -> Vec<Result<(), EntryError>> {
        let lost = || Err(EntryError::Temporary("connection reset".into()));
        if !self.request() {
            return entries.iter().map(|_| lost()).collect();
        }
        let fault = locked(&self.inner.send_faults).pop_front().unwrap_or(SendFault::None);
        let mut state = locked(&self.inner.state);
        let result = |(position, message): (usize, &&OutgoingMessage)| {
            let (stored, result) = match &fault {
                SendFault::None => (true, Ok(())),
                SendFault::Failed(failed) => match failed.iter().find(|(p, _)| *p == position) {
                    Some((_, error)) => (false, Err(error.clone())),
                    None => (true, Ok(())),
                },
                SendFault::Unaccounted { positions, stored } if positions.contains(&position) => {
                    (*stored, Err(EntryError::Temporary("the answer does not mention the entry".into())))
                }
                SendFault::Unaccounted { .. } => (true, Ok(())),
                SendFault::Refused => (false, lost()),
                SendFault::AnswerLost => (true, lost()),
            };
            if stored {
                state.store(queue, message);
            }
            result
        };
        entries.iter().enumerate().map(result).collect()
    }
}

impl Inner {
    /// The server's half of a long poll.
    async fn poll(&self, queue: QueueName, max: usize, wait: Duration, visibility: Duration) -> Vec<ReceivedMessage> {
        let deadline = Instant::now() + wait;
        loop {
            let arrived = self.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            let (taken, next) = {
                let mut state = locked(&self.state);
                let taken = state.take(queue, max.min(MAX_BATCH), visibility, self.max_receive_count);
                (taken, state.next_visible(queue))
            };
            if !taken.is_empty() || Instant::now() >= deadline {
                return taken;
            }
            let until = next.map_or(deadline, |next| next.min(deadline));
            // Timed out or woken: look again either way.
            let _woken = tokio::time::timeout_at(until, arrived).await;
        }
    }
}

fn take_one(counter: &AtomicU64) -> bool {
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
}

#[async_trait]
impl Queue for FakeQueue {
    async fn send_batch(
        &self,
        queue: QueueName,
        messages: &[OutgoingMessage],
    ) -> Result<Vec<Result<(), EntryError>>, QueueError> {
        let mut results: Vec<_> = messages.iter().map(queue_rules::check).collect();
        let good: Vec<usize> = (0..messages.len()).filter(|i| results[*i].is_ok()).collect();
        let sizes: Vec<OutgoingMessage> = good.iter().map(|i| messages[*i].clone()).collect();
        for range in split_batches(&sizes) {
            let entries: Vec<&OutgoingMessage> = sizes[range.clone()].iter().collect();
            for (at, result) in good[range].iter().zip(self.send_request(queue, &entries)) {
                results[*at] = result;
            }
        }
        self.inner.arrived.notify_waiters();
        Ok(results)
    }

    async fn receive(
        &self,
        queue: QueueName,
        max: usize,
        wait: Duration,
        visibility: Duration,
    ) -> Result<Vec<ReceivedMessage>, QueueError> {
        if !self.request() || take_one(&self.inner.failing_receives) {
            return Err(QueueError("connection reset".into()));
        }
        let (answer, answered) = oneshot::channel();
        let inner = self.inner.clone();
        // A task of its own: dropping our future must not stop the server.
        tokio::spawn(async move {
            // Nobody listens any more: the messages stay in flight, as at SQS.
            let _unheard = answer.send(inner.poll(queue, max, wait, visibility).await);
        });
        answered.await.map_err(|_| QueueError("the fake queue died".into()))
    }

    async fn delete_batch(
        &self,
        queue: QueueName,
        receipts: &[Receipt],
    ) -> Result<Vec<Result<(), EntryError>>, QueueError> {
        let mut results = Vec::with_capacity(receipts.len());
        for chunk in receipts.chunks(MAX_BATCH) {
            let fails = !self.request() || take_one(&self.inner.failing_deletes);
            let mut state = locked(&self.inner.state);
            results.extend(chunk.iter().map(|receipt| {
                if fails { Err(EntryError::Temporary("connection reset".into())) } else { state.delete(queue, receipt) }
            }));
        }
        Ok(results)
    }

    async fn change_visibility_batch(
        &self,
        queue: QueueName,
        entries: &[(Receipt, Duration)],
    ) -> Result<Vec<Result<(), EntryError>>, QueueError> {
        let mut results = Vec::with_capacity(entries.len());
        for chunk in entries.chunks(MAX_BATCH) {
            let up = self.request();
            let mut state = locked(&self.inner.state);
            results.extend(chunk.iter().map(|(receipt, to)| {
                if up {
                    state.change(queue, receipt, *to)
                } else {
                    Err(EntryError::Temporary("connection reset".into()))
                }
            }));
        }
        self.inner.arrived.notify_waiters();
        Ok(results)
    }

    async fn depth(&self, queue: QueueName) -> Result<QueueDepth, QueueError> {
        if !self.request() {
            return Err(QueueError("connection reset".into()));
        }
        Ok(locked(&self.inner.state).depth(queue))
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
