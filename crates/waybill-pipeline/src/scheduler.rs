//! The scheduler: acts on every row whose `due_at` has passed.
//!
//! Each row that is not final has a `due_at` (the schema's CHECK constraints hold that), so this one loop finds whatever got stuck:
//! retries that are due, lost queue messages, claims whose worker died, unknown outcomes whose window closed, documents that nobody
//! renders. Rows are taken with SKIP LOCKED, so any number of schedulers may run.

use crate::{
    accept::publish,
    context::{Context, Lifecycle},
    deliver::dead_letter_by_id,
    documents::{fail_waiting, wake_waiting},
    feedback, reconcile, relay,
    router::send_delivery_messages,
};
use futures::future::BoxFuture;
use std::{sync::Arc, time::Duration};
use tracing::{info, warn};
use waybill_core::{ports::AlertCause, state::Reason};
use waybill_store::{FinalMove, MoveRequest, StoreError};

/// Rows taken at a time, per kind.
const LIMIT: i64 = 500;
/// Slow chores (expired idempotency keys, job states, alerts on what is stuck) run once in this many rounds.
const CHORES_EVERY: u64 = 10;

/// Runs rounds until `life` stops.
pub async fn run(context: Arc<Context>, life: Lifecycle) {
    let mut round = 0;
    while !life.stopping() {
        // Other errors are logged with their step.
        if let Err(error) = run_once(&context, round).await
            && error.is_unavailable()
        {
            warn!(error = &error as &dyn std::error::Error, "scheduler.round_failed");
        }
        round += 1;
        life.pause(context.settings.sweep_interval).await;
    }
}

/// One round. A step that fails (one row that this build can't read, say) does not keep the others from their rows; a database that is
/// away ends the round.
///
/// # Errors
/// [`StoreError`] of the last step that failed.
pub async fn run_once(context: &Context, round: u64) -> Result<(), StoreError> {
    let steps: [(&str, BoxFuture<'_, Result<(), StoreError>>); 8] = [
        ("relay", Box::pin(async { relay::run_once(context).await.map(drop) })),
        ("requeue_jobs", Box::pin(requeue_jobs(context))),
        ("expire_claims", Box::pin(reconcile::expire_claims(context))),
        ("close_windows", Box::pin(reconcile::close_windows(context))),
        ("settle_feedback", Box::pin(feedback::settle(context))),
        ("release_due", Box::pin(release_due(context))),
        ("documents", Box::pin(documents(context))),
        ("chores", Box::pin(chores(context, round))),
    ];
    let mut result = Ok(());
    for (step, run) in steps {
        match run.await {
            Ok(()) => {}
            Err(error) if error.is_unavailable() => return Err(error),
            Err(error) => {
                warn!(step, error = &error as &dyn std::error::Error, "scheduler.step_failed");
                result = Err(error);
            }
        }
    }
    result
}

/// Deliveries whose retry is due, and those whose queue message nobody took for too long.
async fn release_due(context: &Context) -> Result<(), StoreError> {
    loop {
        let released = context.store.release_due(LIMIT, context.settings.timings.requeue_after).await?;
        let deliveries: Vec<_> = released.iter().map(|r| (r.tenant, r.delivery)).collect();
        send_delivery_messages(context, &deliveries).await;
        let lost = released.iter().filter(|r| r.requeued_before > 2).count();
        if lost > 0 {
            warn!(deliveries = lost, "scheduler.deliveries_queued_again_and_again");
        }
        if released.len() < LIMIT as usize {
            return Ok(());
        }
    }
}

/// Jobs that were published and never routed: their message was lost or is stuck.
async fn requeue_jobs(context: &Context) -> Result<(), StoreError> {
    let due = context.store.release_due_jobs(LIMIT, context.settings.timings.requeue_after).await?;
    if !due.is_empty() {
        warn!(jobs = due.len(), "scheduler.jobs_queued_again");
        let jobs: Vec<_> = due.into_iter().map(|(job, tenant)| (tenant, job)).collect();
        publish(context, &jobs).await;
    }
    Ok(())
}

/// What a crash between two statements, or a deadline, left waiting.
async fn documents(context: &Context) -> Result<(), StoreError> {
    let ready = context.store.list_ready_but_waiting(LIMIT).await?;
    if !ready.is_empty() {
        let woken = wake_waiting(context, &ready).await?;
        info!(documents = ready.len(), deliveries = woken, "scheduler.waiting_deliveries_woken");
    }
    let failed = context.store.list_failed_but_waiting(LIMIT).await?;
    if !failed.is_empty() {
        fail_waiting(context, &failed).await?;
    }
    let overdue = context.store.list_overdue_waiting(LIMIT).await?;
    let to = || FinalMove::Failed {
        reason: Reason::DocumentDeadline,
        detail: "its document was not ready in time".into(),
        dead_letter: true,
    };
    let moves: Vec<_> =
        overdue.iter().map(|w| MoveRequest { delivery: w.delivery, version: w.version, to: to() }).collect();
    let moved = if moves.is_empty() { Vec::new() } else { context.store.finish(&moves).await? };
    dead_letter_by_id(context, &moved, Reason::DocumentDeadline).await
}

async fn chores(context: &Context, round: u64) -> Result<(), StoreError> {
    if !round.is_multiple_of(CHORES_EVERY) {
        return Ok(());
    }
    context.store.refresh_routed_jobs(Duration::from_secs(60), LIMIT).await?;
    context.store.delete_expired_idempotency(LIMIT).await?;
    let outbox = context.store.outbox_lag().await?;
    metrics::gauge!("waybill_outbox_oldest_seconds").set(outbox.unwrap_or_default().as_secs_f64());
    if let Some(lag) = outbox.filter(|lag| *lag > context.settings.outbox_lag_alert) {
        let message = format!("the oldest accepted job waits for {} s to be published", lag.as_secs());
        context.alerts.raise(AlertCause::OutboxLagging, "main", 1, message, "waybill queues".into()).await;
    }
    let held = context.store.remind_of_held(LIMIT).await?;
    if !held.is_empty() {
        let message = format!("{} delivery(ies) with an unknown outcome are held for a person's decision", held.len());
        context
            .alerts
            .raise(
                AlertCause::RowsStuck,
                "UNKNOWN held",
                held.len() as u64,
                message,
                "waybill jobs list --status ROUTED".into(),
            )
            .await;
    }
    for stuck in context.store.stuck_counts(context.settings.stuck_after).await? {
        metrics::gauge!("waybill_rows_stuck", "state" => stuck.state.clone()).set(stuck.count as f64);
        let message = format!(
            "{} row(s) in {} are overdue, the oldest by {} s",
            stuck.count,
            stuck.state,
            stuck.oldest_age.as_secs()
        );
        context
            .alerts
            .raise(AlertCause::RowsStuck, &stuck.state, stuck.count as u64, message, "waybill queues".into())
            .await;
    }
    Ok(())
}
