//! Reconcile: what to do when nobody can know whether a provider has the mail.
//!
//! Two ways lead here: a provider's answer that says nothing (the worker records UNKNOWN), and a claim whose worker died with its attempt
//! started. Both wait for the reconcile window; a provider event that names the delivery makes it SENT; without one the pass goes on
//! behind the silent provider. Under `hold` nothing is ever sent again by itself.

use crate::{context::Context, deliver::dead_letter};
use std::time::Duration;
use tracing::{info, warn};
use waybill_core::{
    outcome::OnUnknown,
    state::Reason,
    walk::{Next, Pass, Verdict},
};
use waybill_store::{DueUnknown, Expire, ExpireDecision, Expired, ExpiredClaim, Recorded, ResolveUnknown, Resolved, StoreError};

const LIMIT: i64 = 500;

/// Claims whose time is over: their attempt was started and never ended, so its outcome is unknown.
pub(crate) async fn expire_claims(context: &Context) -> Result<(), StoreError> {
    loop {
        let claims = context.store.list_expired_claims(LIMIT).await?;
        if claims.is_empty() {
            return Ok(());
        }
        let decisions: Vec<_> = claims.iter().map(|claim| decide(context, claim)).collect();
        let expired = context.store.expire_claims(&decisions).await?;
        let settled = expired.iter().filter(|(_, e)| *e == Expired::SettledSent).count();
        warn!(claims = expired.len(), settled, "reconcile.claims_expired");
        metrics::counter!("waybill_claims_expired_total").increment(expired.len() as u64);
        let moved: Vec<_> = expired.iter().filter(|(_, e)| *e == Expired::Moved).map(|(d, _)| *d).collect();
        let dead: Vec<_> = claims
            .iter()
            .zip(&decisions)
            .filter(|(claim, decision)| decision.to == Expire::DeadLetter && moved.contains(&claim.delivery))
            .map(|(claim, _)| (claim.tenant, claim.job, claim.delivery, Reason::WorkerCrashed))
            .collect();
        finish(context, dead).await?;
        // Claims that another scheduler took are gone from the next list; a list that doesn't shrink would be a fault of ours.
        if claims.len() < LIMIT as usize || expired.is_empty() {
            return Ok(());
        }
    }
}

fn decide(context: &Context, claim: &ExpiredClaim) -> ExpireDecision {
    let timings = &context.settings.timings;
    let wired = context.providers.iter().any(|p| p.events_wired());
    let to = match OnUnknown::effective(claim.route_on_unknown, claim.tenant_on_unknown, wired) {
        OnUnknown::Reconcile => Expire::Unknown { window: timings.reconcile_window, hold: false },
        OnUnknown::Hold => Expire::Unknown { window: timings.reconcile_window, hold: true },
        OnUnknown::Failover if claim.crashes + 1 >= timings.max_crashes => Expire::DeadLetter,
        OnUnknown::Failover => Expire::Retry,
    };
    ExpireDecision { delivery: claim.delivery, tenant: claim.tenant, identity: claim.identity, token: claim.token, to }
}

/// Unknown outcomes whose window closed without an event: the pass goes on, or the delivery is given up.
pub(crate) async fn close_windows(context: &Context) -> Result<(), StoreError> {
    loop {
        let unknowns = context.store.list_due_unknowns(LIMIT).await?;
        if unknowns.is_empty() {
            return Ok(());
        }
        let resolutions: Vec<_> = unknowns.iter().map(|unknown| resolve(context, unknown)).collect();
        let resolved = context.store.resolve_unknowns(&resolutions).await?;
        let settled = resolved.iter().filter(|(_, r)| *r == Resolved::SettledSent).count();
        info!(deliveries = resolved.len(), settled, "reconcile.windows_closed");
        let moved: Vec<_> = resolved.iter().filter(|(_, r)| *r == Resolved::Moved).map(|(d, _)| *d).collect();
        let mut dead = Vec::new();
        for (unknown, resolution) in unknowns.iter().zip(&resolutions) {
            if let Recorded::Failed { reason, dead_letter: true, .. } = resolution.to
                && moved.contains(&unknown.delivery)
            {
                dead.push((unknown.tenant, unknown.job, unknown.delivery, reason));
            }
        }
        finish(context, dead).await?;
        if unknowns.len() < LIMIT as usize || resolved.is_empty() {
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
        let detail = "nobody could know whether the last provider accepted it, and no event came within the window".to_owned();
        let pass = Pass::resume(unknown.position, context.providers.len());
        match pass.start(&context.settings.retry, unknown.attempts, context.chance.unit()) {
            // On with the same pass, behind the silent provider; no attempt is burnt by the wait.
            Next::Call(position) => Recorded::Hold { delay: Duration::ZERO, position, detail },
            Next::End(Verdict::Failed { reason, dead_letter }) => Recorded::Failed { reason, dead_letter, attempts: unknown.attempts + 1, detail },
            Next::End(Verdict::Retry { delay }) => Recorded::Retry { delay, attempts: unknown.attempts + 1, position: 0, detail },
            Next::End(Verdict::Hold { delay, .. }) => Recorded::Hold { delay, position: 0, detail },
            // A pass that makes no call accepts nothing and leaves nothing unknown.
            Next::End(Verdict::Sent { .. } | Verdict::Unknown { .. }) => Recorded::Hold { delay: context.settings.retry.hold_delay, position: 0, detail },
        }
    };
    ResolveUnknown { delivery: unknown.delivery, tenant: unknown.tenant, identity: unknown.identity, version: unknown.version, to }
}

async fn finish(context: &Context, dead: Vec<(waybill_core::ids::TenantId, waybill_core::ids::JobId, waybill_core::ids::DeliveryId, Reason)>) -> Result<(), StoreError> {
    if dead.is_empty() {
        return Ok(());
    }
    dead_letter(context, &dead).await;
    context.store.refresh_job_states(&dead.iter().map(|d| d.1).collect::<Vec<_>>()).await
}
