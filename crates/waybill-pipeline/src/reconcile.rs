//! Reconcile: what to do when nobody can know whether a provider has the mail.
//!
//! Two ways lead here: a provider's answer that says nothing (the worker records UNKNOWN), and a claim whose worker died with its attempt
//! started. Both wait for the reconcile window; a provider event that names the delivery makes it SENT; without one the pass goes on
//! behind the silent provider. Under `hold` nothing is ever sent again by itself.

use crate::{context::Context, deliver::dead_letter_by_id};
use std::time::Duration;
use tracing::{info, warn};
use waybill_core::{
    ids::DeliveryId,
    outcome::OnUnknown,
    state::Reason,
    walk::{Next, Pass, Verdict},
};
use waybill_store::{DueUnknown, ExpireDecision, ExpiredClaim, Recorded, ResolveUnknown, StoreError};

const LIMIT: i64 = 500;

/// Claims whose time is over: their attempt was started and never ended, so its outcome is unknown.
pub(crate) async fn expire_claims(context: &Context) -> Result<(), StoreError> {
    loop {
        let claims = context.store.list_expired_claims(LIMIT).await?;
        if claims.is_empty() {
            return Ok(());
        }
        let decisions: Vec<_> = claims.iter().map(|claim| decide(context, claim)).collect();
        let max_crashes = context.settings.timings.max_crashes;
        let moved = context.store.expire_claims(&decisions, max_crashes).await?;
        warn!(claims = moved.len(), "reconcile.claims_expired");
        metrics::counter!("waybill_claims_expired_total").increment(moved.len() as u64);
        let held = decisions.iter().filter(|d| d.policy == OnUnknown::Hold && moved.contains(&d.delivery)).count();
        if held > 0 {
            context.alerts.held(held).await;
        }
        let failing = |(claim, decision): &(&ExpiredClaim, &ExpireDecision)| {
            decision.policy == OnUnknown::Failover
                && claim.crashes + 1 >= max_crashes
                && moved.contains(&claim.delivery)
        };
        let dead: Vec<DeliveryId> =
            claims.iter().zip(&decisions).filter(failing).map(|(claim, _)| claim.delivery).collect();
        dead_letter_by_id(context, &dead, Reason::WorkerCrashed).await?;
        // What another scheduler took is gone from the next list; a list that doesn't shrink would be a fault of ours.
        if claims.len() < LIMIT as usize || moved.is_empty() {
            return Ok(());
        }
    }
}

fn decide(context: &Context, claim: &ExpiredClaim) -> ExpireDecision {
    let wired = context.providers.iter().any(|p| p.events_wired());
    let policy = OnUnknown::effective(claim.route_on_unknown, claim.tenant_on_unknown, wired);
    ExpireDecision {
        delivery: claim.delivery,
        token: claim.token,
        policy,
        window: context.settings.timings.reconcile_window,
    }
}

/// Unknown outcomes whose window closed without an event: the pass goes on, or the delivery is given up.
pub(crate) async fn close_windows(context: &Context) -> Result<(), StoreError> {
    loop {
        let unknowns = context.store.list_due_unknowns(LIMIT).await?;
        if unknowns.is_empty() {
            return Ok(());
        }
        let resolutions: Vec<_> = unknowns.iter().map(|unknown| resolve(context, unknown)).collect();
        let moved = context.store.resolve_unknowns(&resolutions).await?;
        info!(deliveries = unknowns.len(), unsettled = moved.len(), "reconcile.windows_closed");
        let mut dead = [(Reason::WorkerCrashed, Vec::new()), (Reason::ProvidersExhausted, Vec::new())];
        for resolution in &resolutions {
            if let Recorded::Failed { reason, dead_letter: true, .. } = resolution.to
                && moved.contains(&resolution.delivery)
            {
                dead[usize::from(reason != Reason::WorkerCrashed)].1.push(resolution.delivery);
            }
        }
        for (reason, deliveries) in dead {
            dead_letter_by_id(context, &deliveries, reason).await?;
        }
        if unknowns.len() < LIMIT as usize || moved.is_empty() {
            return Ok(());
        }
    }
}

fn resolve(context: &Context, unknown: &DueUnknown) -> ResolveUnknown {
    let to = if unknown.crashes >= context.settings.timings.max_crashes {
        Recorded::Failed {
            reason: Reason::WorkerCrashed,
            dead_letter: true,
            attempts: unknown.attempts,
            detail: format!("{} attempts started and never ended; it may be what kills the worker", unknown.crashes),
        }
    } else {
        go_on(context, unknown)
    };
    ResolveUnknown { delivery: unknown.delivery, version: unknown.version, to }
}

/// The same pass goes on with its next step: behind the silent provider, or at it once more where it has an idempotency key. Behind the last
/// step it is over and counts as an attempt.
fn go_on(context: &Context, unknown: &DueUnknown) -> Recorded {
    let detail =
        "nobody could know whether the last provider accepted it, and no event came within the window".to_owned();
    let pass = Pass::resume(unknown.position, context.steps());
    match pass.start(&context.settings.retry, unknown.attempts, context.chance.unit()) {
        Next::Call(_) => Recorded::Hold { delay: Duration::ZERO, position: pass.position(), detail },
        Next::End(Verdict::Failed { reason, dead_letter }) => {
            Recorded::Failed { reason, dead_letter, attempts: unknown.attempts + 1, detail }
        }
        Next::End(Verdict::Retry { delay }) => {
            Recorded::Retry { delay, attempts: unknown.attempts + 1, position: 0, detail }
        }
        Next::End(Verdict::Hold { delay, .. }) => Recorded::Hold { delay, position: 0, detail },
        // A pass that makes no call accepts nothing and leaves nothing unknown.
        Next::End(Verdict::Sent { .. } | Verdict::Unknown { .. }) => {
            Recorded::Hold { delay: context.settings.retry.hold_delay, position: 0, detail }
        }
    }
}
