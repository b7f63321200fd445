//! Jobs after their acceptance: publishing again, the status that follows from the deliveries, cancelling.

use crate::{
    Store, StoreError,
    store::{job_state, secs},
};
use std::time::Duration;
use uuid::Uuid;
use waybill_core::{
    ids::{JobId, TenantId},
    state::JobState,
};

/// What a cancellation could still stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CancelSummary {
    /// Deliveries that are CANCELLED by this call.
    pub cancelled: i64,
    /// Deliveries that had ended before.
    pub already_final: i64,
    /// Deliveries that a provider may have at this moment; they are not tried again if it does not.
    pub in_progress: i64,
}

/// A job whose stored status has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefreshedJob {
    pub job: JobId,
    pub state: JobState,
    /// It is open in the group of its ordering key: see [`Store::close_ordered`].
    pub ordered: bool,
}

impl Store {
    /// Jobs that nobody routed in time (a lost queue message). Each comes back after `requeue_after` unless it is routed; the caller
    /// publishes them again.
    pub async fn release_due_jobs(
        &self,
        limit: i64,
        requeue_after: Duration,
    ) -> Result<Vec<(JobId, TenantId)>, StoreError> {
        let rows = sqlx::query!(
            "
            WITH due AS MATERIALIZED (
                SELECT id FROM jobs WHERE due_at <= now() ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
            )
            UPDATE jobs j SET due_at = now() + make_interval(secs => $2), requeues = requeues + 1
            FROM due WHERE j.id = due.id
            RETURNING j.id, j.tenant_id
            ",
            limit,
            secs(requeue_after)
        )
        .fetch_all(self.db())
        .await?;
        Ok(rows.into_iter().map(|r| (r.id.into(), r.tenant_id.into())).collect())
    }

    /// Gives routed jobs the status that follows from their deliveries ([`JobState::of`]); returns those that changed. Call it after the
    /// commit that ended a delivery: whoever commits last sees everything.
    pub async fn refresh_job_states(&self, jobs: &[JobId]) -> Result<Vec<(JobId, JobState)>, StoreError> {
        Ok(self.refresh_jobs(jobs).await?.into_iter().map(|j| (j.job, j.state)).collect())
    }

    /// The same; says which of them others of their ordering key wait for.
    pub async fn refresh_jobs(&self, jobs: &[JobId]) -> Result<Vec<RefreshedJob>, StoreError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<Uuid> = jobs.iter().map(|j| j.uuid()).collect();
        let rows = sqlx::query!(
            r#"
            WITH seen AS MATERIALIZED (
                SELECT j.id, j.state, j.routed_at,
                    EXISTS (SELECT 1 FROM deliveries d WHERE d.job_id = j.id AND d.due_at IS NOT NULL) AS open
                FROM jobs j WHERE j.id = ANY($1) AND j.state <> 'PENDING'
            ), derived AS MATERIALIZED (
                -- The rules of JobState::of. A job without deliveries (cancelled early, nothing to deliver) keeps what it has.
                SELECT s.id, s.state AS old, s.routed_at,
                    CASE WHEN s.open THEN 'ROUTED' ELSE (
                        SELECT CASE
                            WHEN count(*) = 0 THEN NULL
                            WHEN bool_and(d.state = 'CANCELLED') THEN 'CANCELLED'
                            WHEN bool_and(d.state IN ('SENT', 'DELIVERED', 'DUPLICATE', 'SUPERSEDED')) THEN 'COMPLETED'
                            WHEN bool_or(d.state IN ('SENT', 'DELIVERED', 'DUPLICATE', 'SUPERSEDED')) THEN 'PARTLY_FAILED'
                            ELSE 'FAILED' END
                        FROM deliveries d WHERE d.job_id = s.id
                    ) END AS state
                FROM seen s
            ), locked AS MATERIALIZED (
                -- Only if the row is still the one we looked at: another refresh with a newer view, or a redrive (which always sets
                -- routed_at), wins over ours.
                SELECT j.id, d.state FROM jobs j JOIN derived d ON d.id = j.id
                WHERE j.state = d.old AND j.routed_at IS NOT DISTINCT FROM d.routed_at AND d.state <> d.old
                ORDER BY j.id FOR UPDATE OF j
            )
            UPDATE jobs j SET state = l.state FROM locked l WHERE j.id = l.id
            RETURNING j.id, j.state, j.ordering_due_at IS NOT NULL AS "ordered!"
            "#,
            &ids
        )
        .fetch_all(self.db())
        .await?;
        rows.into_iter()
            .map(|r| Ok(RefreshedJob { job: r.id.into(), state: job_state(&r.state)?, ordered: r.ordered }))
            .collect()
    }

    /// The sweep behind [`Store::refresh_job_states`]: up to `limit` jobs routed longer ago than `older_than` whose deliveries have all
    /// ended and whose row still says ROUTED.
    pub async fn refresh_routed_jobs(
        &self,
        older_than: Duration,
        limit: i64,
    ) -> Result<Vec<(JobId, JobState)>, StoreError> {
        let ids = sqlx::query_scalar!(
            "
            SELECT j.id FROM jobs j
            WHERE j.state = 'ROUTED' AND j.routed_at <= now() - make_interval(secs => $1)
                AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.job_id = j.id AND d.due_at IS NOT NULL)
            ORDER BY j.routed_at LIMIT $2
            ",
            secs(older_than),
            limit
        )
        .fetch_all(self.db())
        .await?;
        self.refresh_job_states(&ids.into_iter().map(JobId).collect::<Vec<_>>()).await
    }

    /// Stops what can still be stopped. `None` when the tenant has no such job. A job that had ended before is left as it is.
    ///
    /// Deliveries in SENDING or UNKNOWN are left to their worker, who asks whether the job is cancelled before it tries again. One that is
    /// held for a person is cancelled: this is that person; its identity becomes free.
    pub async fn cancel_job(&self, tenant: TenantId, job: JobId) -> Result<Option<CancelSummary>, StoreError> {
        // Two statements: the deliveries of a router that was at it just now are visible to the second, once the first has the row.
        self.count(1);
        let mut transaction = self.pool().begin().await?;
        self.count(1);
        let found = sqlx::query!(
            r#"
            UPDATE jobs j SET
                cancel_requested_at = coalesce(j.cancel_requested_at, now()),
                state = CASE j.state WHEN 'PENDING' THEN 'CANCELLED' ELSE j.state END,
                reason = CASE j.state WHEN 'PENDING' THEN 'cancelled' ELSE j.reason END,
                due_at = NULL
            WHERE j.id = $1 AND j.tenant_id = $2
            RETURNING j.routed_at IS NOT NULL AS "routed!"
            "#,
            job.uuid(),
            tenant.uuid()
        )
        .fetch_optional(&mut *transaction)
        .await?;
        let Some(found) = found else { return Ok(None) };
        self.count(1);
        let row = sqlx::query!(
            r#"
            WITH target AS MATERIALIZED (
                SELECT id, tenant_id, identity, state FROM deliveries
                WHERE job_id = $1 AND due_at IS NOT NULL
                    AND (state IN ('PENDING', 'WAITING_DOCUMENT', 'RETRYING') OR (state = 'UNKNOWN' AND held))
                ORDER BY id FOR UPDATE
            ), moved AS (
                UPDATE deliveries d SET state = 'CANCELLED', reason = 'cancelled', detail = NULL, version = d.version + 1,
                    due_at = NULL, held = false, updated_at = now()
                FROM target t WHERE d.id = t.id RETURNING d.id, d.version
            ), noted AS (
                INSERT INTO ledger (delivery_id, version, state, reason) SELECT id, version, 'CANCELLED', 'cancelled' FROM moved
            ), freed AS (
                UPDATE sends s SET state = 'released' FROM target t
                WHERE t.state = 'UNKNOWN' AND s.tenant_id = t.tenant_id AND s.identity = t.identity
                    AND s.delivery_id = t.id AND s.state = 'unknown'
            )
            -- The counts are those from before this statement; what it moves is open in them.
            SELECT (SELECT count(*) FROM moved) AS "cancelled!", count(*) AS "all!", count(*) FILTER (WHERE due_at IS NOT NULL) AS "open!"
            FROM deliveries WHERE job_id = $1
            "#,
            job.uuid()
        )
        .fetch_one(&mut *transaction)
        .await?;
        let summary = CancelSummary {
            cancelled: row.cancelled,
            already_final: row.all - row.open,
            in_progress: row.open - row.cancelled,
        };
        self.count(1);
        if found.routed && row.open == 0 {
            // Nothing to stop. The mark must not stay behind: it would cancel what somebody redrives tomorrow.
            transaction.rollback().await?;
        } else {
            transaction.commit().await?;
            self.refresh_job_states(&[job]).await?;
        }
        Ok(Some(summary))
    }
}

#[cfg(test)]
mod tests;
