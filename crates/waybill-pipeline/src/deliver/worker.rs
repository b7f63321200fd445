//! The receive loops of a worker.

use super::Deliverer;
use crate::{
    consume::put_back,
    context::{Context, Lifecycle},
    holding::in_time,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;
use tracing::warn;
use waybill_core::ports::{MAX_BATCH, QueueName, ReceivedMessage};

/// Receives and sends until `life` stops; returns when everything in flight is recorded.
pub async fn run(context: Arc<Context>, life: Lifecycle) {
    let concurrency = context.settings.worker_concurrency.max(MAX_BATCH);
    let permits = Arc::new(Semaphore::new(concurrency));
    let deliverer = Deliverer::start(context.clone());
    let pollers: Vec<_> = (0..context.settings.worker_pollers.max(1))
        .map(|_| tokio::spawn(poll(context.clone(), deliverer.clone(), permits.clone(), life.clone())))
        .collect();
    let mut late = Vec::new();
    for poller in pollers {
        match poller.await {
            Ok(messages) => late.extend(messages),
            // A poller that panicked would leave the worker deaf: the process has to end and be restarted.
            Err(_) => life.soft.cancel(),
        }
    }
    // Not before the last poll is over: one of our own that is still open would take them again, and receptions are counted (SQS-04).
    put_back(&context, QueueName::Delivery, &late).await;
    // Every delivery in flight holds a permit; `hard` cuts the wait.
    let done = async {
        drop(permits.acquire_many(concurrency as u32).await);
        deliverer.deletions.finish().await;
    };
    tokio::select! {
        () = done => {}
        () = life.hard.cancelled() => warn!("worker.stopped_with_deliveries_in_flight"),
    }
}

/// Returns what it received after the stop.
async fn poll(
    context: Arc<Context>,
    deliverer: Arc<Deliverer>,
    permits: Arc<Semaphore>,
    life: Lifecycle,
) -> Vec<ReceivedMessage> {
    let visibility = context.settings.timings.visibility_timeout;
    loop {
        // Permits come first: what was received can be handled at once and does not wait inside the process.
        let permit = tokio::select! {
            () = life.soft.cancelled() => return Vec::new(),
            permit = permits.clone().acquire_many_owned(MAX_BATCH as u32) => match permit {
                Ok(permit) => permit,
                Err(_) => return Vec::new(),
            },
        };
        // Never dropped half-way: the queue may have handed out messages already.
        match context.queue.receive(QueueName::Delivery, MAX_BATCH, context.settings.queue_wait, visibility).await {
            Ok(messages) if life.stopping() => return messages,
            Ok(messages) if messages.is_empty() => {}
            Ok(messages) => {
                let (deliverer, stopping) = (deliverer.clone(), life.soft.clone());
                tokio::spawn(async move {
                    in_time(QueueName::Delivery, deliverer.handle(messages, permit, stopping)).await
                });
            }
            Err(error) => {
                warn!(error = %error, "worker.receive_failed");
                drop(permit);
                if !life.pause(Duration::from_secs(1)).await {
                    return Vec::new();
                }
            }
        }
        if deliverer.database_away() && !life.pause(Duration::from_secs(2)).await {
            return Vec::new();
        }
    }
}
