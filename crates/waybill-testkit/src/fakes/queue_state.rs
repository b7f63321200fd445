//! The server side of the fake queue.

use chrono::{DateTime, Utc};
use std::{collections::HashMap, time::Duration};
use tokio::time::Instant;
use waybill_core::ports::{EntryError, OutgoingMessage, QueueDepth, QueueName, Receipt, ReceivedMessage};

/// A message as an observer sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub id: String,
    pub body: String,
    pub group: Option<String>,
    pub receive_count: u32,
    /// Not to be received now: in flight or delayed.
    pub hidden: bool,
}

struct Stored {
    id: u64,
    message: OutgoingMessage,
    sent_at: DateTime<Utc>,
    sent: Instant,
    visible_at: Instant,
    receive_count: u32,
    receipt: Option<Receipt>,
}

#[derive(Default)]
pub(super) struct State {
    queues: HashMap<QueueName, Vec<Stored>>,
    next_id: u64,
    /// When a group was served last, as a running number: the one that waited longest is next.
    served: HashMap<Option<String>, u64>,
    serving: u64,
    /// So many of the next messages handed out stay visible: the next receive gets them again.
    pub(super) duplicates: usize,
}

impl State {
    pub(super) fn store(&mut self, queue: QueueName, message: &OutgoingMessage) {
        self.next_id += 1;
        let now = Instant::now();
        self.queues.entry(queue).or_default().push(Stored {
            id: self.next_id,
            message: message.clone(),
            sent_at: Utc::now(),
            sent: now,
            visible_at: now + message.delay,
            receive_count: 0,
            receipt: None,
        });
    }

    /// Hands out up to `max` messages, group by group.
    pub(super) fn take(
        &mut self,
        queue: QueueName,
        max: usize,
        visibility: Duration,
        limit: u32,
    ) -> Vec<ReceivedMessage> {
        self.bury(queue, limit);
        let now = Instant::now();
        let mut out = Vec::new();
        while out.len() < max {
            let taken: Vec<&str> = out.iter().map(|m: &ReceivedMessage| m.id.as_str()).collect();
            let served = &self.served;
            let stored = self.queues.entry(queue).or_default();
            let free = stored.iter_mut().filter(|m| m.visible_at <= now && !taken.contains(&m.id.to_string().as_str()));
            let Some(next) = free.min_by_key(|m| (served.get(&m.message.group).copied().unwrap_or(0), m.sent, m.id))
            else {
                break;
            };
            self.serving += 1;
            self.served.insert(next.message.group.clone(), self.serving);
            next.receive_count += 1;
            let receipt = Receipt(format!("{}-{}", next.id, self.serving));
            next.receipt = Some(receipt.clone());
            if self.duplicates > 0 {
                self.duplicates -= 1;
            } else {
                next.visible_at = now + visibility;
            }
            out.push(ReceivedMessage {
                id: next.id.to_string(),
                receipt,
                body: next.message.body.clone(),
                receive_count: next.receive_count,
                sent_at: next.sent_at,
                attributes: next.message.attributes.clone(),
            });
        }
        out
    }

    /// Moves what was received often enough, as SQS does on the receive that would exceed the count. Keeps the time of sending.
    fn bury(&mut self, queue: QueueName, limit: u32) {
        let Some(dead) = queue.dead_letter() else { return };
        let now = Instant::now();
        let stored = self.queues.entry(queue).or_default();
        let moved: Vec<_> = stored.extract_if(.., |m| m.visible_at <= now && m.receive_count >= limit).collect();
        self.queues.entry(dead).or_default().extend(moved.into_iter().map(|mut m| {
            (m.receive_count, m.receipt) = (0, None);
            m
        }));
    }

    pub(super) fn delete(&mut self, queue: QueueName, receipt: &Receipt) -> Result<(), EntryError> {
        let stored = self.queues.entry(queue).or_default();
        let id = receipt.0.split('-').next().unwrap_or_default();
        match stored.iter().position(|m| m.id.to_string() == id) {
            Some(at) if stored[at].receipt.as_ref() == Some(receipt) => {
                stored.remove(at);
                Ok(())
            }
            Some(_) => Err(EntryError::StaleReceipt),
            // Deleted before, which is what the caller wants.
            None if id.parse::<u64>().is_ok() => Ok(()),
            None => Err(EntryError::StaleReceipt),
        }
    }

    pub(super) fn change(&mut self, queue: QueueName, receipt: &Receipt, to: Duration) -> Result<(), EntryError> {
        let now = Instant::now();
        if to > Duration::from_secs(43_200) {
            return Err(EntryError::Permanent("a visibility timeout above 12 h".into()));
        }
        let stored = self.queues.entry(queue).or_default();
        match stored.iter_mut().find(|m| m.receipt.as_ref() == Some(receipt) && m.visible_at > now) {
            Some(message) => {
                message.visible_at = now + to;
                Ok(())
            }
            None => Err(EntryError::StaleReceipt),
        }
    }

    /// When the next hidden message of a queue becomes visible.
    pub(super) fn next_visible(&self, queue: QueueName) -> Option<Instant> {
        self.queues.get(&queue)?.iter().map(|m| m.visible_at).filter(|at| *at > Instant::now()).min()
    }

    pub(super) fn depth(&self, queue: QueueName) -> QueueDepth {
        let now = Instant::now();
        let mut depth = QueueDepth::default();
        for message in self.queues.get(&queue).into_iter().flatten() {
            let hidden = message.visible_at > now;
            match (hidden, message.receipt.is_some()) {
                (true, true) => depth.in_flight += 1,
                (true, false) => depth.delayed += 1,
                (false, _) => depth.visible += 1,
            }
            if !hidden || message.receipt.is_none() {
                depth.oldest_age = depth.oldest_age.max(Some(now - message.sent));
            }
        }
        depth
    }

    pub(super) fn show(&self, queue: QueueName) -> Vec<Shown> {
        let now = Instant::now();
        let shown = |m: &Stored| Shown {
            id: m.id.to_string(),
            body: m.message.body.clone(),
            group: m.message.group.clone(),
            receive_count: m.receive_count,
            hidden: m.visible_at > now,
        };
        self.queues.get(&queue).into_iter().flatten().map(shown).collect()
    }
}
