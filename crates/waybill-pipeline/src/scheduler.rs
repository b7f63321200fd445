//! The scheduler: acts on every row whose `due_at` has passed.
//!
//! Each row that is not final has a `due_at` (the schema's CHECK constraints hold that), so this one loop finds whatever got stuck:
//! retries that are due, lost queue messages, claims whose worker died, unknown outcomes whose window closed, documents that nobody
//! renders. Rows are taken with SKIP LOCKED, so any number of schedulers may run.

use crate::{
    context::{Context, Lifecycle},
    deliver::dead_letter_by_id,
    documents::{fail_waiting, wake_waiting},
    feedback, order,
    publish::{Job, publish},
    reconcile, relay,
    router::send_delivery_messages,
};
use futures::future::BoxFuture;
use std::{sync::Arc, time::Duration};
use tracing::{info, warn};
use waybill_core::{
    ports::AlertCause,
    state::{DeliveryState, Reason},
};
use waybill_store::{FinalMove, MoveRequest, Released, StoreError};

/// Rows taken at a time, per kind.
const LIMIT: i64 = 500;
/// Slow chores (expired idempotency keys, job states, alerts on what is stuck) run once in this many rounds.
const CHORES_EVERY: u64 = 10;

/// After an outage of the database claims are not taken away for so long: workers that hold an answer in memory record it first. Twice
/// the longest pause between their tries.
const AFTER_OUTAGE: Duration = Duration::from_secs(10);
/// Slices of due deliveries in one round: a backlog must not keep the round from claims and reconcile windows.
const RELEASES: usize = 20;
/// Queued again so often without being taken, a delivery is something for people to look at.
const AGAIN_AND_AGAIN: u32 = 3;

/// Runs rounds until `life` stops.
pub async fn run(context: Arc<Context>, life: Lifecycle) {
    let mut round = 0;
    let mut workers_first = Duration::ZERO;
    while !life.stopping() {
        let expire = context.clock.monotonic() >= workers_first;
        // Other errors are logged with their step.
        if let Err(error) = steps(&context, round, expire).await
            && error.is_unavailable()
        {
            warn!(error = &error as &dyn std::error::Error, "scheduler.round_failed");
            workers_first = context.clock.monotonic() + AFTER_OUTAGE;
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
    steps(context, round, true).await
}

async fn steps(context: &Context, round: u64, expire: bool) -> Result<(), StoreError> {
    let expire_claims = async { if expire { reconcile::expire_claims(context).await } else { Ok(()) } };
    let steps: [(&str, BoxFuture<'_, Result<(), StoreError>>); 9] = [
        ("relay", Box::pin(async { relay::run_once(context).await.map(drop) })),
        ("requeue_jobs", Box::pin(requeue_jobs(context))),
        ("expire_claims", Box::pin(expire_claims)),
        ("close_windows", Box::pin(reconcile::close_windows(context))),
        ("settle_feedback", Box::pin(feedback::settle(context))),
        // After what ends deliveries, before what queues them.
        ("order", Box::pin(order::sweep(context))),
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
    let mut lost = 0;
    for _ in 0..RELEASES {
        let released = context.store.release_due(LIMIT, context.settings.timings.requeue_after).await?;
        let deliveries: Vec<_> = released.iter().map(|r| (r.tenant, r.delivery)).collect();
        send_delivery_messages(context, &deliveries).await;
        // Each retry of a RETRYING one is queued as well, as it should be.
        let again = |r: &&Released| r.requeued_before >= AGAIN_AND_AGAIN && r.state != DeliveryState::Retrying;
        lost += released.iter().filter(again).count();
        if released.len() < LIMIT as usize {
            break;
        }
    }
    if lost > 0 {
        // Its due_at moves each time, so that it is never overdue: without this nobody would hear of it.
        let message = format!("{lost} delivery(ies) were queued {AGAIN_AND_AGAIN} times and nobody finished them");
        queued_again(context, "deliveries queued again", lost, message).await;
    }
    Ok(())
}

async fn queued_again(context: &Context, key: &str, rows: usize, message: String) {
    warn!(rows, key, "scheduler.queued_again");
    context.alerts.raise(AlertCause::RowsStuck, key, rows as u64, message, "waybill queues".into()).await;
}

/// Jobs that were published and never routed: their message was lost or is stuck.
async fn requeue_jobs(context: &Context) -> Result<(), StoreError> {
    let due = context.store.release_due_jobs(LIMIT, context.settings.timings.requeue_after).await?;
    if !due.is_empty() {
        let after = context.settings.timings.requeue_after.as_secs();
        let message = format!("{} job(s) were not routed within {after} s and are queued again", due.len());
        queued_again(context, "jobs queued again", due.len(), message).await;
        let jobs: Vec<_> = due.into_iter().map(|(job, tenant)| Job::new(tenant, job)).collect();
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
        context.alerts.held(held.len()).await;
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
