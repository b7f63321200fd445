//! Recording what came of a pass, and what follows from it.

use super::{Deliverer, Ticket, Unavailable, batch::lock_request, pass::Finished};
use crate::{context::Context, order};
use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio::sync::mpsc;
use tracing::{error, info, warn};
use waybill_core::{
    clock::Clock,
    ids::{DeliveryId, JobId, TenantId},
    message::{DeliveryMessage, encode},
    ports::{OutgoingMessage, QueueName},
    state::Reason,
};
use waybill_store::{AttemptResult, LoadedDelivery, Recorded, StoreError};

/// How long a result is kept in memory while the database is away. After that the claim expires into UNKNOWN, and the reconciliation
/// settles it; it is never blindly sent again.
const KEEP_TRYING: Duration = Duration::from_secs(600);

/// Records all results that are there; each is told whether its claim was still held. The store answers by delivery, so two results of
/// one delivery (a late one, and that of the new claim) go into two statements: else the late one would be taken for recorded.
pub(super) async fn record(context: Arc<Context>, results: Vec<Arc<AttemptResult>>) -> Vec<Result<bool, Unavailable>> {
    let mut answers = vec![Err(Unavailable); results.len()];
    let mut open: Vec<usize> = (0..results.len()).collect();
    while !open.is_empty() {
        let mut seen = HashSet::new();
        let (now, later): (Vec<usize>, Vec<usize>) =
            open.into_iter().partition(|index| seen.insert(results[*index].delivery));
        let slice: Vec<_> = now.iter().map(|index| results[*index].clone()).collect();
        for (index, answer) in now.into_iter().zip(record_slice(&context, &slice).await) {
            answers[index] = answer;
        }
        open = later;
    }
    answers
}

/// One statement.
async fn record_slice(context: &Context, results: &[Arc<AttemptResult>]) -> Vec<Result<bool, Unavailable>> {
    let rows: Vec<AttemptResult> = results.iter().map(|r| AttemptResult::clone(r)).collect();
    match context.store.record_results(&rows).await {
        Ok(held) => {
            let held: HashSet<DeliveryId> = held.into_iter().collect();
            results.iter().map(|r| Ok(held.contains(&r.delivery))).collect()
        }
        Err(error) if !error.is_unavailable() && rows.len() > 1 => {
            // One bad row must not spoil its batch: each alone.
            warn!(rows = rows.len(), error = &error as &dyn std::error::Error, "deliver.record_refused");
            let mut answers = Vec::with_capacity(rows.len());
            for row in &rows {
                answers.push(match context.store.record_results(std::slice::from_ref(row)).await {
                    Ok(held) => Ok(held.contains(&row.delivery)),
                    Err(error) => {
                        error!(delivery = %row.delivery, error = &error as &dyn std::error::Error, "deliver.record_failed");
                        Err(Unavailable)
                    }
                });
            }
            answers
        }
        Err(error) => {
            warn!(rows = rows.len(), error = &error as &dyn std::error::Error, "deliver.record_failed");
            results.iter().map(|_| Err(Unavailable)).collect()
        }
    }
}

/// The pauses between tries to write down what must not get lost.
struct Patience<'a> {
    clock: &'a dyn Clock,
    started: Duration,
    pause: Duration,
}

impl<'a> Patience<'a> {
    fn new(clock: &'a dyn Clock) -> Self {
        Self { clock, started: clock.monotonic(), pause: Duration::from_millis(250) }
    }

    /// Waits before the next try; `false` when it is time to give up.
    async fn wait(&mut self) -> bool {
        if self.clock.monotonic().saturating_sub(self.started) > KEEP_TRYING {
            return false;
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(Duration::from_secs(5));
        true
    }
}

impl Deliverer {
    /// Steps 9 and 10.
    pub(super) async fn conclude(&self, delivery: &LoadedDelivery, finished: Finished, ticket: Option<Ticket>) {
        let result = Arc::new(finished.result);
        let Some(held) = self.record_until_it_is(result.clone()).await else { return };
        if !held {
            self.record_late(&result, finished.overslept).await;
            // A late acceptance may have made it SENT.
            self.job_may_have_ended(delivery);
            self.acknowledge(ticket);
            return;
        }
        if let Some(trace) = &delivery.trace {
            info!(delivery = %delivery.id, job = %delivery.job, outcome = result.result.word(), trace_id = trace.trace_id(), "deliver.recorded");
        }
        match &result.result {
            Recorded::Sent { .. } => {
                metrics::counter!("waybill_deliveries_sent_total").increment(1);
                self.job_may_have_ended(delivery);
            }
            Recorded::Failed { reason, dead_letter, .. } => {
                self.release_lock(delivery).await;
                info!(delivery = %delivery.id, reason = reason.as_str(), "deliver.failed");
                if *dead_letter {
                    self.dead_letter(&[(delivery.tenant, delivery.job, delivery.id, *reason)]).await;
                }
                self.job_may_have_ended(delivery);
            }
            // An unknown outcome keeps the lock: the identity is in progress for everybody.
            Recorded::Unknown { hold, .. } => {
                metrics::counter!("waybill_unknown_outcomes_total").increment(1);
                self.settle_by_event(delivery).await;
                if *hold {
                    self.context.alerts.held(1).await;
                }
            }
            Recorded::Retry { .. } | Recorded::Hold { .. } => self.release_lock(delivery).await,
        }
        self.acknowledge(ticket);
    }

    async fn record_until_it_is(&self, result: Arc<AttemptResult>) -> Option<bool> {
        let mut patience = Patience::new(&*self.context.clock);
        loop {
            if let Ok(Ok(held)) = self.record.submit(result.clone()).await {
                return Some(held);
            }
            if !patience.wait().await {
                let id = if let Recorded::Sent { provider_message_id, .. } = &result.result {
                    provider_message_id.as_str()
                } else {
                    ""
                };
                error!(delivery = %result.delivery, attempt = %result.attempt, provider_message_id = id, "deliver.result_lost_to_reconciliation");
                return None;
            }
        }
    }

    async fn record_late(&self, result: &AttemptResult, overslept: bool) {
        let accepted = matches!(result.result, Recorded::Sent { .. });
        warn!(delivery = %result.delivery, attempt = %result.attempt, accepted, "deliver.claim_was_lost");
        metrics::counter!("waybill_late_results_total", "accepted" => if accepted { "true" } else { "false" })
            .increment(1);
        // A late acceptance is a fact that stops a second mail: it is kept as long as a result in time.
        let mut patience = Patience::new(&*self.context.clock);
        while let Err(error) = self.context.store.record_late(std::slice::from_ref(result), accepted && overslept).await
        {
            if !patience.wait().await {
                error!(delivery = %result.delivery, attempt = %result.attempt, error = &error as &dyn std::error::Error, "deliver.late_result_lost");
                return;
            }
        }
    }

    /// A provider's event may have been faster than our own record of the unknown outcome.
    async fn settle_by_event(&self, delivery: &LoadedDelivery) {
        match self.context.store.settle_unknown_by_events(&[delivery.id]).await {
            Ok(settled) if !settled.is_empty() => {
                self.job_may_have_ended(delivery);
            }
            Ok(_) => {}
            Err(error) => {
                warn!(delivery = %delivery.id, error = &error as &dyn std::error::Error, "deliver.settle_failed")
            }
        }
    }

    async fn release_lock(&self, delivery: &LoadedDelivery) {
        if let Err(error) = self.context.lock.release(&[lock_request(delivery)]).await {
            // It expires by itself; our own retry re-enters it.
            tracing::debug!(delivery = %delivery.id, error = %error, "deliver.lock_not_released");
        }
    }

    /// The row is the customer's copy of a dead letter; this is the operator's, and the alert.
    pub(super) async fn dead_letter(&self, dead: &[(TenantId, JobId, DeliveryId, Reason)]) {
        dead_letter(&self.context, dead).await;
    }
}

/// Puts dead letters onto the dead-letter queue and rings. The row is the authority: if the queue can't take the entry, the row still
/// shows the dead letter and `waybill redrive` still finds it.
pub(crate) async fn dead_letter(context: &Context, dead: &[(TenantId, JobId, DeliveryId, Reason)]) {
    let messages: Vec<OutgoingMessage> = dead
        .iter()
        .map(|(tenant, job, delivery, reason)| OutgoingMessage {
            body: encode(&DeliveryMessage::new(*delivery)),
            group: Some(tenant.to_string()),
            attributes: vec![("reason".into(), reason.as_str().into()), ("job".into(), job.to_string())],
            ..OutgoingMessage::default()
        })
        .collect();
    match context.queue.send_batch(QueueName::DeliveryDead, &messages).await {
        Ok(results) if results.iter().all(Result::is_ok) => {}
        Ok(_) => warn!("deliver.dead_letter_entries_refused"),
        Err(error) => warn!(error = %error, "deliver.dead_letter_queue_unavailable"),
    }
    context.alerts.dead_letters(dead.iter().map(|d| d.3)).await;
}

/// The same for deliveries that a statement over many rows has ended; the jobs' states are refreshed. `reason` where no document says
/// another one.
pub(crate) async fn dead_letter_by_id(
    context: &Context,
    deliveries: &[DeliveryId],
    reason: Reason,
) -> Result<(), StoreError> {
    for chunk in deliveries.chunks(1_000) {
        let loaded = context.store.load_deliveries(chunk).await?;
        let why = |d: &LoadedDelivery| d.document.as_ref().and_then(|document| document.reason).unwrap_or(reason);
        let dead: Vec<_> = loaded.iter().filter(|d| d.dead_lettered).map(|d| (d.tenant, d.job, d.id, why(d))).collect();
        dead_letter(context, &dead).await;
        let mut jobs: Vec<JobId> = loaded.iter().map(|d| d.job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        order::refresh(context, &jobs).await?;
    }
    Ok(())
}

/// Refreshes the stored status of jobs whose deliveries ended: collected for `pause`, so that a thousand recipients cost a few
/// statements. Readers derive the status and never see the lag. What waits for the job is woken.
pub(super) async fn refresh_jobs(context: Arc<Context>, mut finished: mpsc::UnboundedReceiver<JobId>, pause: Duration) {
    let mut batch = Vec::new();
    while finished.recv_many(&mut batch, 10_000).await > 0 {
        tokio::time::sleep(pause).await;
        while let Ok(job) = finished.try_recv() {
            batch.push(job);
        }
        batch.sort_unstable();
        batch.dedup();
        for jobs in batch.chunks(500) {
            if let Err(error) = order::refresh(&context, jobs).await {
                warn!(jobs = jobs.len(), error = &error as &dyn std::error::Error, "jobs.refresh_failed");
            }
        }
        batch.clear();
    }
}
