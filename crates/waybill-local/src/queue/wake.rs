//! Who waits for messages, and who tells them.
//!
//! A send wakes one receiver of its own process at once, and other processes by `NOTIFY`. Notifications are not sent in the statement
//! that stores the messages: such a commit holds a server-wide lock until its data is on disk, and all sends of the database would queue
//! up behind each other. They go out a moment later, many sends as one, in a statement that writes nothing. One that gets lost costs
//! at most a second: delayed messages, and those whose visibility ran out, are found by a look once a second anyway.

#![expect(clippy::disallowed_methods, reason = "names this process among the listeners; nothing depends on its value")]

use super::sql;
use sqlx::{
    PgPool,
    postgres::{PgListener, PgPoolOptions},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, OnceCell},
    task::AbortHandle,
    time::MissedTickBehavior,
};
use uuid::Uuid;
use waybill_core::ports::QueueName;

const CHANNEL: &str = "waybill_queue";
/// How often a waiting process looks without being told.
const LOOK: Duration = Duration::from_secs(1);
/// Sends within this time are told to other processes as one.
const GATHER: Duration = Duration::from_millis(5);
const RECONNECT: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Line {
    arrived: Notify,
    telling: AtomicBool,
}

/// Receivers of one process, by queue.
pub(super) struct Wakes {
    lines: Arc<[Line; QueueName::ALL.len()]>,
    /// Tells our own notifications from those of others.
    process: Uuid,
    pool: PgPool,
    tasks: OnceCell<[AbortHandle; 2]>,
}

fn line(lines: &[Line; QueueName::ALL.len()], queue: QueueName) -> &Line {
    // In the order of `QueueName::ALL`, which is the order of the declaration.
    &lines[queue as usize]
}

impl Wakes {
    pub(super) fn new(pool: PgPool) -> Self {
        Self { lines: Arc::default(), process: Uuid::new_v4(), pool, tasks: OnceCell::new() }
    }

    /// Waits until there may be something to receive. A wake-up that comes before the wait is kept.
    pub(super) async fn wait(&self, queue: QueueName) {
        self.tasks.get_or_init(async || self.start()).await;
        line(&self.lines, queue).arrived.notified().await;
    }

    /// Wakes one receiver of this process. It wakes the next one if it finds more than it can take.
    pub(super) fn wake(&self, queue: QueueName) {
        line(&self.lines, queue).arrived.notify_one();
    }

    /// Wakes one receiver in every process.
    pub(super) fn wake_everywhere(&self, queue: QueueName) {
        self.wake(queue);
        if line(&self.lines, queue).telling.swap(true, Ordering::AcqRel) {
            return;
        }
        let (lines, pool, payload) =
            (self.lines.clone(), self.pool.clone(), format!("{} {}", queue.as_str(), self.process));
        tokio::spawn(async move {
            tokio::time::sleep(GATHER).await;
            // Cleared first: a send from now on starts a telling of its own.
            line(&lines, queue).telling.store(false, Ordering::Release);
            if let Err(error) = sql::notify(&pool, CHANNEL, &payload).await {
                tracing::debug!(error = %error, "queue.notify_failed");
            }
        });
    }

    fn start(&self) -> [AbortHandle; 2] {
        let looking = tokio::spawn(look(self.lines.clone())).abort_handle();
        let listening = tokio::spawn(listen(self.lines.clone(), self.pool.clone(), self.process)).abort_handle();
        [looking, listening]
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        for task in self.tasks.get().into_iter().flatten() {
            task.abort();
        }
    }
}

async fn look(lines: Arc<[Line; QueueName::ALL.len()]>) {
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for line in lines.iter() {
            line.arrived.notify_one();
        }
    }
}

/// Listens on a connection of its own: it must not take one from the pool that works.
async fn listen(lines: Arc<[Line; QueueName::ALL.len()]>, pool: PgPool, process: Uuid) {
    let own = PgPoolOptions::new()
        .max_connections(1)
        .max_lifetime(None)
        .idle_timeout(None)
        .connect_lazy_with(pool.connect_options().as_ref().clone());
    loop {
        let error = listen_until_lost(&lines, &own, process).await.err().map(|e| e.to_string());
        tracing::warn!(error, "queue.listener_lost");
        tokio::time::sleep(RECONNECT).await;
    }
}

async fn listen_until_lost(lines: &[Line; QueueName::ALL.len()], own: &PgPool, process: Uuid) -> sqlx::Result<()> {
    let mut listener = PgListener::connect_with(own).await?;
    listener.eager_reconnect(false);
    listener.listen(CHANNEL).await?;
    while let Some(notification) = listener.try_recv().await? {
        let Some((queue, sender)) = notification.payload().split_once(' ') else { continue };
        if let Some(queue) = QueueName::parse(queue)
            && sender != process.to_string()
        {
            line(lines, queue).arrived.notify_one();
        }
    }
    Ok(())
}
