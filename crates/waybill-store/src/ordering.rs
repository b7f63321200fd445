//! Ordering keys: the jobs of one key are worked off one after the other, in the order of their acceptance.
//!
//! A job is open in its group while its `ordering_due_at` is set. The first open one is the group's head; the claim (`claim_gate` in the
//! migrations) refuses everybody behind it. What is here closes jobs, wakes the next head, and ends the time for which a head may block.

use crate::{Store, StoreError, convert::seconds};
use std::time::Duration;
use uuid::Uuid;
use waybill_core::ids::{DeliveryId, JobId, TenantId};

/// How often somebody looks at an open head, in case its end was not noticed.
pub(crate) const HEAD_LOOK: Duration = Duration::from_secs(10);
/// And at one that waits behind it.
const WAITING_LOOK: Duration = Duration::from_secs(60);

/// An open job of an ordered group at which the scheduler has to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderedJob {
    pub job: JobId,
    /// It is at the head of its group, and nobody has noted that yet.
    pub new_head: bool,
    /// It is at the head for longer than it may block.
    pub late: bool,
}

impl Store {
    /// Takes jobs out of their groups whose deliveries have all ended, and those whose time was over and of which no provider has one at
    /// this moment. Returns them. Afterwards call [`Store::wake_heads`]: in a statement of its own, whose view begins after this commit.
    /// A claim that did not see the end of these has then put its delivery off before, and is seen.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn close_ordered(&self, jobs: &[JobId]) -> Result<Vec<JobId>, StoreError> {
        let closed = sqlx::query_scalar!(
            r#"
            WITH over AS MATERIALIZED (
                SELECT j.id
                FROM jobs j
                WHERE j.id = ANY($1) AND j.ordering_due_at IS NOT NULL AND (j.state <> 'PENDING' OR j.ordering_timed_out)
                  AND NOT EXISTS (
                      SELECT FROM deliveries d
                      WHERE d.job_id = j.id AND d.due_at IS NOT NULL
                        AND (NOT j.ordering_timed_out OR d.state = 'SENDING' OR (d.state = 'UNKNOWN' AND NOT d.held)))
                ORDER BY j.id
                FOR NO KEY UPDATE OF j
            )
            UPDATE jobs SET ordering_due_at = NULL FROM over WHERE jobs.id = over.id RETURNING jobs.id
            "#,
            &job_ids(jobs)
        )
        .fetch_all(self.db())
        .await?;
        Ok(closed.into_iter().map(JobId).collect())
    }

    /// Wakes the heads of the groups of these jobs: their deliveries are due after `grace`, and returned. The caller queues them at once;
    /// if it dies first, the scheduler does.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn wake_heads(&self, jobs: &[JobId], grace: Duration) -> Result<Vec<(TenantId, DeliveryId)>, StoreError> {
        let rows = sqlx::query!(
            r#"
            WITH groups AS (
                SELECT DISTINCT tenant_id, ordering_key FROM jobs WHERE id = ANY($1) AND ordering_key IS NOT NULL
            ),
            head AS MATERIALIZED (
                SELECT h.id
                FROM groups g, LATERAL (
                    SELECT j.id FROM jobs j
                    WHERE j.tenant_id = g.tenant_id AND j.ordering_key = g.ordering_key AND j.ordering_due_at IS NOT NULL
                    ORDER BY j.seq LIMIT 1
                ) h
            ),
            locked AS MATERIALIZED (
                SELECT j.id FROM jobs j JOIN head ON head.id = j.id
                WHERE j.ordering_due_at IS NOT NULL
                ORDER BY j.id
                FOR NO KEY UPDATE OF j
            ),
            noted AS (
                UPDATE jobs
                SET ordering_head_at = coalesce(ordering_head_at, now()), ordering_due_at = now() + $3::float8 * interval '1 second'
                FROM locked l WHERE jobs.id = l.id
            ),
            -- A retry waits for its time, a delivery without its document for that.
            d AS MATERIALIZED (
                SELECT d.id
                FROM deliveries d JOIN locked l ON l.id = d.job_id
                WHERE d.due_at IS NOT NULL AND coalesce(d.not_before <= now(), true)
                  AND (d.state IN ('PENDING', 'RETRYING') OR (d.state = 'WAITING_DOCUMENT' AND d.released_at IS NOT NULL))
                ORDER BY d.id
                FOR NO KEY UPDATE OF d
            )
            UPDATE deliveries SET due_at = now() + $2::float8 * interval '1 second' FROM d WHERE deliveries.id = d.id
            RETURNING deliveries.tenant_id, deliveries.id
            "#,
            &job_ids(jobs),
            seconds(grace),
            seconds(HEAD_LOOK)
        )
        .fetch_all(self.db())
        .await?;
        Ok(rows.into_iter().map(|r| (TenantId(r.tenant_id), DeliveryId(r.id))).collect())
    }

    /// Open jobs of ordered groups that are due for a look; each comes again, the head of a group sooner than those behind it.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn list_ordered(&self, limit: i64, may_block: Duration) -> Result<Vec<OrderedJob>, StoreError> {
        let rows = sqlx::query!(
            r#"
            WITH due AS MATERIALIZED (
                SELECT id, tenant_id, ordering_key, seq FROM jobs
                WHERE ordering_due_at <= now() ORDER BY ordering_due_at LIMIT $1
                FOR NO KEY UPDATE SKIP LOCKED
            ),
            seen AS MATERIALIZED (
                SELECT due.id, NOT EXISTS (
                    SELECT FROM jobs p
                    WHERE p.tenant_id = due.tenant_id AND p.ordering_key = due.ordering_key AND p.ordering_due_at IS NOT NULL
                      AND p.seq < due.seq) AS head
                FROM due
            )
            UPDATE jobs j SET ordering_due_at = now() + CASE WHEN s.head THEN $2::float8 ELSE $3::float8 END * interval '1 second'
            FROM seen s WHERE j.id = s.id
            RETURNING j.id, (s.head AND j.ordering_head_at IS NULL) AS "new_head!",
                      coalesce(s.head AND j.ordering_head_at + $4::float8 * interval '1 second' <= now(), false) AS "late!"
            "#,
            limit,
            seconds(HEAD_LOOK),
            seconds(WAITING_LOOK),
            seconds(may_block)
        )
        .fetch_all(self.db())
        .await?;
        Ok(rows.into_iter().map(|r| OrderedJob { job: JobId(r.id), new_head: r.new_head, late: r.late }).collect())
    }

    /// Ends the time of jobs that have blocked their group for long enough: what waits of them becomes FAILED `ordering_timeout`, a dead
    /// letter, and no claim of theirs is granted any more. What a provider may have stays as it is. Returns the dead letters.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn time_out_ordered(&self, jobs: &[JobId]) -> Result<Vec<DeliveryId>, StoreError> {
        let dead = sqlx::query_scalar!(
            r#"
            WITH late AS MATERIALIZED (
                SELECT id FROM jobs WHERE id = ANY($1) AND ordering_due_at IS NOT NULL ORDER BY id FOR NO KEY UPDATE
            ),
            marked AS (
                UPDATE jobs SET ordering_timed_out = true FROM late WHERE jobs.id = late.id
            ),
            d AS MATERIALIZED (
                SELECT d.id
                FROM deliveries d JOIN late ON late.id = d.job_id
                WHERE d.due_at IS NOT NULL AND d.state IN ('PENDING', 'WAITING_DOCUMENT', 'RETRYING')
                ORDER BY d.id
                FOR NO KEY UPDATE OF d
            ),
            moved AS (
                UPDATE deliveries
                SET state = 'FAILED', reason = 'ordering_timeout', due_at = NULL, dead_lettered_at = now(),
                    version = version + 1, updated_at = now()
                FROM d WHERE deliveries.id = d.id
                RETURNING deliveries.id, deliveries.version, deliveries.state, deliveries.reason, deliveries.detail
            )
            INSERT INTO ledger (delivery_id, version, state, reason, detail)
            SELECT id, version, state, reason, detail FROM moved
            RETURNING delivery_id
            "#,
            &job_ids(jobs)
        )
        .fetch_all(self.db())
        .await?;
        Ok(dead.into_iter().map(DeliveryId).collect())
    }
}

fn job_ids(jobs: &[JobId]) -> Vec<Uuid> {
    jobs.iter().map(|job| job.0).collect()
}
