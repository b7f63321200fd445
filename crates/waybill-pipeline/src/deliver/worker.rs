//! The receive loops of a worker.

use super::Deliverer;
use crate::{
    context::{Context, Lifecycle},
    router::put_back,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;
use tracing::warn;
use waybill_core::ports::{MAX_BATCH, QueueName};

/// Receives and sends until `life` stops; returns when everything in flight is recorded.
pub async fn run(context: Arc<Context>, life: Lifecycle) {
    let concurrency = context.settings.worker_concurrency.max(MAX_BATCH);
    let permits = Arc::new(Semaphore::new(concurrency));
    let deliverer = Deliverer::start(context.clone());
    let pollers: Vec<_> = (0..context.settings.worker_pollers.max(1))
        .map(|_| tokio::spawn(poll(context.clone(), deliverer.clone(), permits.clone(), life.clone())))
        .collect();
    for poller in pollers {
        if poller.await.is_err() {
            // A poller that panicked would leave the worker deaf: the process has to end and be restarted.
            life.soft.cancel();
        }
    }
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

async fn poll(context: Arc<Context>, deliverer: Arc<Deliverer>, permits: Arc<Semaphore>, life: Lifecycle) {
    let visibility = context.settings.timings.visibility_timeout;
    loop {
        // Permits come first: what was received can be handled at once and does not wait inside the process.
        let permit = tokio::select! {
            () = life.soft.cancelled() => return,
            permit = permits.clone().acquire_many_owned(MAX_BATCH as u32) => match permit {
                Ok(permit) => permit,
                Err(_) => return,
            },
        };
        // Never dropped half-way: the queue may have handed out messages already.
        match context.queue.receive(QueueName::Delivery, MAX_BATCH, context.settings.queue_wait, visibility).await {
            Ok(messages) if life.stopping() => {
                put_back(&context, QueueName::Delivery, &messages).await;
                return;
            }
            Ok(messages) if messages.is_empty() => {}
            Ok(messages) => {
                let (deliverer, stopping) = (deliverer.clone(), life.soft.clone());
                tokio::spawn(async move { deliverer.handle(messages, permit, stopping).await });
            }
            Err(error) => {
                warn!(error = %error, "worker.receive_failed");
                drop(permit);
                if !life.pause(Duration::from_secs(1)).await {
                    return;
                }
            }
        }
        if deliverer.database_away() && !life.pause(Duration::from_secs(2)).await {
            return;
        }
    }
}
