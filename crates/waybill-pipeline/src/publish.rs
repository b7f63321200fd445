//! Publish: tells the routers about committed jobs, and takes what the queue confirmed out of the outbox.
//!
//! Queue requests are paid one by one, so jobs gather until they fill one, but only where others come in that time: an idle or a slow
//! system publishes each job at once. What this process doesn't manage, the outbox relay does.

use crate::{batcher::Batcher, context::Context};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use tracing::warn;
use waybill_core::{
    ids::{JobId, TenantId},
    message::{JobMessage, encode},
    ports::{MAX_BATCH, OutgoingMessage, QueueName},
    trace::Traceparent,
};
use waybill_store::NewJob;

/// Jobs waiting to be published; beyond it the outbox relay takes over.
const BUFFER: usize = 10_000;
/// Jobs published at a time.
const MAX_PUBLISH: usize = 10 * MAX_BATCH;
/// How long the first job of a request waits for others at most, and for how many of them it does.
const GATHER: Duration = Duration::from_millis(80);
const WORTH: f64 = 4.4;
/// The time over which the rate of jobs is averaged.
const MEMORY: Duration = Duration::from_millis(500);
/// Outbox rows deleted at a time, and how far apart: well below the relay's grace.
const MAX_FORGET: usize = 500;
const FORGET_EVERY: Duration = Duration::from_millis(250);

/// A job whose message has to go out.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) tenant: TenantId,
    pub(crate) job: JobId,
    /// Only of a job that was accepted just now. The row has it, and whoever publishes later needn't ask.
    trace: Option<Traceparent>,
}

impl Job {
    pub(crate) fn new(tenant: TenantId, job: JobId) -> Self {
        Self { tenant, job, trace: None }
    }

    pub(crate) fn of(job: &NewJob) -> Self {
        Self { tenant: job.tenant, job: job.id, trace: job.trace.clone() }
    }
}

/// Starts the publishing side of a process; it ends with the last sender. A sender must not wait: a full buffer is the relay's.
pub(crate) fn start(context: Arc<Context>) -> mpsc::Sender<Job> {
    let (sender, jobs) = mpsc::channel(BUFFER);
    tokio::spawn(publish_loop(context, jobs));
    sender
}

async fn publish_loop(context: Arc<Context>, mut jobs: mpsc::Receiver<Job>) {
    let forgetting = {
        let context = context.clone();
        Batcher::spawn_paced(MAX_FORGET, FORGET_EVERY, move |jobs: Vec<JobId>| {
            let context = context.clone();
            async move {
                forget(&context, &jobs).await;
                vec![(); jobs.len()]
            }
        })
    };
    let mut rate = Rate::new(Instant::now());
    let mut waiting: Vec<Job> = Vec::new();
    while !waiting.is_empty() || jobs.recv_many(&mut waiting, MAX_PUBLISH).await > 0 {
        let until = Instant::now() + if rate.expected(GATHER) >= WORTH { GATHER } else { Duration::ZERO };
        while waiting.len() < MAX_BATCH {
            let missing = MAX_BATCH - waiting.len();
            let Ok(1..) = timeout_at(until, jobs.recv_many(&mut waiting, missing)).await else { break };
        }
        // Whole requests; what is over begins the next one.
        let rest = waiting.split_off(if waiting.len() > MAX_BATCH {
            waiting.len() / MAX_BATCH * MAX_BATCH
        } else {
            waiting.len()
        });
        rate.count(waiting.len(), Instant::now());
        let confirmed = send(&context, &waiting).await;
        let forgetting = forgetting.clone();
        tokio::spawn(async move { forgetting.submit_all(confirmed).await });
        waiting = rest;
    }
}

/// Jobs per second, forgetting what is long ago.
struct Rate {
    per_second: f64,
    last: Instant,
}

impl Rate {
    fn new(now: Instant) -> Self {
        Self { per_second: 0.0, last: now }
    }

    fn count(&mut self, jobs: usize, now: Instant) {
        let seconds = now.duration_since(self.last).as_secs_f64().max(0.001);
        let share = 1.0 - (-seconds / MEMORY.as_secs_f64()).exp();
        self.per_second += (jobs as f64 / seconds - self.per_second) * share;
        self.last = now;
    }

    fn expected(&self, time: Duration) -> f64 {
        self.per_second * time.as_secs_f64()
    }
}

/// Publishes jobs now. Returns how many the queue confirmed.
pub(crate) async fn publish(context: &Context, jobs: &[Job]) -> usize {
    let confirmed = send(context, jobs).await;
    forget(context, &confirmed).await;
    confirmed.len()
}

async fn forget(context: &Context, jobs: &[JobId]) {
    if let Err(error) = context.store.delete_published(jobs).await {
        // They are published again by the relay; routing absorbs repeats.
        warn!(error = &error as &dyn std::error::Error, "outbox.delete_failed");
    }
}

/// Sends main-queue messages. Returns the jobs whose message the queue took.
async fn send(context: &Context, jobs: &[Job]) -> Vec<JobId> {
    let messages: Vec<OutgoingMessage> = jobs
        .iter()
        .map(|job| OutgoingMessage {
            body: encode(&JobMessage::new(job.job)),
            group: Some(job.tenant.to_string()),
            attributes: job.trace.iter().map(Traceparent::attribute).collect(),
            ..OutgoingMessage::default()
        })
        .collect();
    let results = match context.queue.send_batch(QueueName::Main, &messages).await {
        Ok(results) => results,
        Err(error) => {
            warn!(jobs = jobs.len(), error = %error, "outbox.publish_failed");
            return Vec::new();
        }
    };
    let confirmed: Vec<JobId> =
        jobs.iter().zip(&results).filter(|(_, result)| result.is_ok()).map(|(job, _)| job.job).collect();
    if confirmed.len() < jobs.len() {
        warn!(refused = jobs.len() - confirmed.len(), "outbox.entries_refused");
    }
    confirmed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a job meets that comes after 2 s of `per_second` jobs.
    fn expected(per_second: u64) -> f64 {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        for n in 1..=2 * per_second {
            rate.count(1, start + Duration::from_millis(1_000 * n / per_second));
        }
        rate.expected(GATHER)
    }

    #[test]
    fn a_job_waits_for_others_only_where_they_come() {
        assert!(expected(20) < WORTH);
        // What latency is measured at: nobody waits for the others.
        assert!(expected(50) < WORTH);
        assert!(expected(100) >= WORTH);
        assert!((expected(500) - 40.0).abs() < 4.0, "{}", expected(500));
    }

    #[test]
    fn a_quiet_second_forgets_a_burst() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        rate.count(1_000, start + Duration::from_millis(100));
        assert!(rate.expected(GATHER) > WORTH);
        rate.count(1, start + Duration::from_secs(2));
        assert!(rate.expected(GATHER) < WORTH, "{}", rate.per_second);
    }
}
