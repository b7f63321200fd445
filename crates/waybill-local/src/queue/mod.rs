//! SQS standard queues on one Postgres table.

mod sql;
mod wake;

use async_trait::async_trait;
use sqlx::PgPool;
use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;
use uuid::Uuid;
use waybill_core::ports::{
    EntryError, MAX_BATCH, OutgoingMessage, Queue, QueueDepth, QueueError, QueueName, Receipt, ReceivedMessage,
    queue_quotas, split_batches,
};

pub use sql::QueuedMessage;

/// SQS requests that one INSERT may stand for: at most 320 messages and 32 MiB.
const REQUESTS_PER_INSERT: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalQueueConfig {
    /// Receptions after which a message moves to the dead-letter queue instead of being handed out once more (SQS:
    /// `maxReceiveCount`). At least 1.
    pub max_receive_count: u32,
}

/// The [`Queue`] on Postgres. Make one per process: it counts requests, remembers which tenant was served last, and holds one
/// connection of its own to be told of new messages.
///
/// Other than at SQS, messages never expire.
pub struct LocalQueue {
    pool: PgPool,
    limit: i32,
    wakes: wake::Wakes,
    served: Mutex<HashMap<QueueName, String>>,
    requests: AtomicU64,
    statements: AtomicU64,
}

impl LocalQueue {
    pub fn new(pool: PgPool, config: LocalQueueConfig) -> Self {
        Self {
            wakes: wake::Wakes::new(pool.clone()),
            pool,
            limit: i32::try_from(config.max_receive_count.max(1)).unwrap_or(i32::MAX),
            served: Mutex::default(),
            requests: AtomicU64::new(0),
            statements: AtomicU64::new(0),
        }
    }

    /// Requests so far, as SQS would bill them: one per batch of ten, one per long poll.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// SQL statements so far, without notifications: fewer than requests when much is sent at once, more when receivers wait.
    pub fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// The first messages of a queue, oldest first, hidden ones included; receives none of them.
    ///
    /// # Errors
    /// The database could not be asked.
    pub async fn peek(&self, queue: QueueName, limit: u32) -> Result<Vec<QueuedMessage>, QueueError> {
        sql::peek(&self.pool, queue.as_str(), i64::from(limit)).await.map_err(|e| failed(&e))
    }

    fn count(&self, requests: usize) {
        self.requests.fetch_add(requests as u64, Ordering::Relaxed);
        self.statements.fetch_add(1, Ordering::Relaxed);
    }

    fn served(&self) -> MutexGuard<'_, HashMap<QueueName, String>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One look without waiting. Also says whether messages were moved away, so that there may be others.
    async fn look(
        &self,
        queue: QueueName,
        max: usize,
        visibility: Duration,
    ) -> Result<(Vec<ReceivedMessage>, bool), QueueError> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        let after_group = self.served().get(&queue).cloned().unwrap_or_default();
        let (limit, dead) = queue.dead_letter().map_or((i32::MAX, queue), |dead| (self.limit, dead));
        let ask =
            sql::Ask { queue: queue.as_str(), max, visibility, limit, dead: dead.as_str(), after_group: &after_group };
        let rows = sql::receive(&self.pool, &ask).await.map_err(|e| failed(&e))?;
        if let Some(last) = rows.first().and_then(|row| row.last_group.clone()) {
            self.served().insert(queue, last);
        }
        if rows.len() >= max {
            self.wakes.wake(queue);
        }
        let found = rows.len();
        let received: Vec<_> = rows.into_iter().filter(|row| row.queue == ask.queue).filter_map(handed_out).collect();
        let moved = received.len() < found;
        if moved {
            tracing::warn!(queue = queue.as_str(), messages = found - received.len(), "queue.dead_lettered");
            self.wakes.wake_everywhere(dead);
        }
        Ok((received, moved))
    }

    async fn insert(&self, queue: QueueName, messages: &[&OutgoingMessage], requests: usize) -> Result<(), EntryError> {
        self.count(requests);
        sql::insert(&self.pool, queue.as_str(), messages, !remembered(queue))
            .await
            .map_err(|e| EntryError::Temporary(failed(&e).0))?;
        if messages.iter().any(|message| message.delay.is_zero()) {
            self.wakes.wake_everywhere(queue);
        }
        Ok(())
    }
}

/// Whether a message of this queue only repeats what a row of the database says: a job that is PENDING, a delivery that is not final. Those of
/// the other queues are the only copy of what a producer, a provider or a person may look for.
fn remembered(queue: QueueName) -> bool {
    match queue {
        QueueName::Main | QueueName::Delivery => true,
        QueueName::Intake
        | QueueName::Feedback
        | QueueName::MainDead
        | QueueName::DeliveryDead
        | QueueName::IntakeDead
        | QueueName::FeedbackDead => false,
    }
}

fn failed(error: &sqlx::Error) -> QueueError {
    QueueError(error.to_string())
}

fn handed_out(row: sql::Received) -> Option<ReceivedMessage> {
    Some(ReceivedMessage {
        receipt: Receipt(format!("{}:{}", row.id, row.receipt?)),
        id: row.id.to_string(),
        body: row.body,
        receive_count: row.receive_count.unsigned_abs(),
        sent_at: row.sent_at,
        attributes: row.attributes.0,
    })
}

fn read_receipt(receipt: &Receipt) -> Option<(i64, Uuid)> {
    let (id, token) = receipt.0.split_once(':')?;
    Some((id.parse().ok()?, token.parse().ok()?))
}

/// Requests that go into one statement together.
fn inserts(requests: &[Range<usize>]) -> impl Iterator<Item = (Range<usize>, usize)> {
    requests.chunks(REQUESTS_PER_INSERT).map(|chunk| (chunk[0].start..chunk[chunk.len() - 1].end, chunk.len()))
}

#[async_trait]
impl Queue for LocalQueue {
    async fn send_batch(
        &self,
        queue: QueueName,
        messages: &[OutgoingMessage],
    ) -> Result<Vec<Result<(), EntryError>>, QueueError> {
        let mut results: Vec<_> = messages.iter().map(queue_quotas::check_message).collect();
        let (good, accepted): (Vec<usize>, Vec<OutgoingMessage>) =
            (0..messages.len()).filter(|i| results[*i].is_ok()).map(|i| (i, messages[i].clone())).unzip();
        for (range, requests) in inserts(&split_batches(&accepted)) {
            let entries: Vec<&OutgoingMessage> = accepted[range.clone()].iter().collect();
            let result = self.insert(queue, &entries, requests).await;
            for index in &good[range] {
                results[*index] = result.clone();
            }
        }
        Ok(results)
    }

    async fn receive(
        &self,
        queue: QueueName,
        max: usize,
        wait: Duration,
        visibility: Duration,
    ) -> Result<Vec<ReceivedMessage>, QueueError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let deadline = Instant::now() + wait;
        loop {
            let (received, moved) = self.look(queue, max.clamp(1, MAX_BATCH), visibility).await?;
            if !received.is_empty() {
                return Ok(received);
            }
            // Each move makes the backlog of dying messages shorter, so this ends.
            if !moved && tokio::time::timeout_at(deadline, self.wakes.wait(queue)).await.is_err() {
                return Ok(received);
            }
        }
    }

    async fn delete_batch(
        &self,
        queue: QueueName,
        receipts: &[Receipt],
    ) -> Result<Vec<Result<(), EntryError>>, QueueError> {
        let known: Vec<Option<(i64, Uuid)>> = receipts.iter().map(read_receipt).collect();
        let (ids, tokens): (Vec<i64>, Vec<Uuid>) = known.iter().flatten().copied().unzip();
        if ids.is_empty() {
            return Ok(known.iter().map(|_| Err(EntryError::StaleReceipt)).collect());
        }
        self.count(receipts.len().div_ceil(MAX_BATCH));
        let answered = sql::delete(&self.pool, queue.as_str(), &ids, &tokens).await;
        Ok(in_places(known.iter().map(|k| if k.is_some() { Ok(()) } else { Err(EntryError::StaleReceipt) }), answered))
    }

    async fn change_visibility_batch(
        &self,
        queue: QueueName,
        entries: &[(Receipt, Duration)],
    ) -> Result<Vec<Result<(), EntryError>>, QueueError> {
        let (mut ids, mut tokens, mut seconds) = (Vec::new(), Vec::new(), Vec::new());
        let mut checked = Vec::with_capacity(entries.len());
        for (receipt, timeout) in entries {
            let known = read_receipt(receipt).ok_or(EntryError::StaleReceipt);
            checked.push(queue_quotas::check_visibility(*timeout).and(known).map(|(id, token)| {
                ids.push(id);
                tokens.push(token);
                seconds.push(timeout.as_secs_f64());
            }));
        }
        if ids.is_empty() {
            return Ok(checked);
        }
        self.count(entries.len().div_ceil(MAX_BATCH));
        let answered = sql::change(&self.pool, queue.as_str(), &ids, &tokens, &seconds).await;
        if answered.is_ok() && entries.iter().any(|(_, timeout)| timeout.is_zero()) {
            self.wakes.wake_everywhere(queue);
        }
        Ok(in_places(checked, answered))
    }

    async fn depth(&self, queue: QueueName) -> Result<QueueDepth, QueueError> {
        self.count(1);
        sql::depth(&self.pool, queue.as_str()).await.map_err(|e| failed(&e))
    }
}

/// The database's answers in the places of the entries that it was asked about; `false` is a stale receipt.
fn in_places(
    checked: impl IntoIterator<Item = Result<(), EntryError>>,
    answered: sqlx::Result<Vec<bool>>,
) -> Vec<Result<(), EntryError>> {
    let mut answers = match answered {
        Ok(answers) => answers.into_iter(),
        Err(error) => {
            let lost = EntryError::Temporary(failed(&error).0);
            return checked.into_iter().map(|entry| entry.and(Err(lost.clone()))).collect();
        }
    };
    let answer = |entry: Result<(), EntryError>| {
        entry?;
        match answers.next() {
            Some(true) => Ok(()),
            Some(false) => Err(EntryError::StaleReceipt),
            None => Err(EntryError::Temporary("the answer does not mention the entry".into())),
        }
    };
    checked.into_iter().map(answer).collect()
}
