//! Dead letters: deliveries that FAILED because of our side or a provider. A person looks at them and puts them back, selectively.

use crate::{
    Store, StoreError,
    store::{reason, secs},
};
use chrono::{DateTime, Utc};
use std::{collections::HashMap, time::Duration};
use uuid::Uuid;
use waybill_core::{
    ids::{DeliveryId, JobId, TenantId},
    state::Reason,
};

/// Which dead letters. Empty: all of them.
#[derive(Debug, Clone, Default)]
pub struct DeadLetterFilter {
    pub tenant: Option<TenantId>,
    pub reason: Option<Reason>,
    /// Dead-lettered at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Dead-lettered before this time.
    pub until: Option<DateTime<Utc>>,
    pub job: Option<JobId>,
    pub delivery: Option<DeliveryId>,
}

#[derive(Debug, Clone)]
pub struct DeadLetter {
    pub delivery: DeliveryId,
    pub tenant: TenantId,
    pub job: JobId,
    pub event_type: String,
    pub reason: Option<Reason>,
    pub detail: Option<String>,
    pub dead_lettered_at: DateTime<Utc>,
    pub attempts: u32,
    pub crashes: u32,
    pub channel: String,
    pub document_type: Option<String>,
    /// After this time a redrive ends in EXPIRED.
    pub expires_at: Option<DateTime<Utc>>,
    /// The same thing was sent meanwhile by another delivery: a redrive sends nothing.
    pub already_sent: bool,
}

/// What a redrive did to one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redriven {
    /// Open again, all counts at zero. Send its queue message.
    Queued,
    /// Another delivery sent the same thing. It stays FAILED and is no dead letter any more.
    AlreadySent { by: DeliveryId },
    /// Unknown, or no dead letter (any more).
    NotDead,
}

impl Store {
    /// Dead letters in pages, in the order of their ids.
    pub async fn list_dead_letters(
        &self,
        filter: &DeadLetterFilter,
        after: Option<DeliveryId>,
        limit: i64,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let rows = sqlx::query!(
            r#"
            SELECT d.id, d.tenant_id, d.job_id, j.type AS event_type, d.reason, d.detail, d.dead_lettered_at AS "dead_lettered_at!",
                d.attempts, d.crashes, d.channel, o.document_type AS "document_type?", d.expires_at,
                EXISTS (SELECT 1 FROM sends s
                        WHERE s.tenant_id = d.tenant_id AND s.identity = d.identity AND s.state = 'sent'
                            AND NOT (d.lineage IS NOT NULL AND j.revision_by_content AND j.seq > s.job_seq)) AS "already_sent!"
            FROM deliveries d JOIN jobs j ON j.id = d.job_id LEFT JOIN documents o ON o.id = d.document_id
            WHERE d.dead_lettered_at IS NOT NULL AND d.id > $1
                AND ($2::uuid IS NULL OR d.tenant_id = $2) AND ($3::text IS NULL OR d.reason = $3)
                AND ($4::timestamptz IS NULL OR d.dead_lettered_at >= $4) AND ($5::timestamptz IS NULL OR d.dead_lettered_at < $5)
                AND ($6::uuid IS NULL OR d.job_id = $6) AND ($7::uuid IS NULL OR d.id = $7)
            ORDER BY d.id LIMIT $8
            "#,
            after.map_or(Uuid::nil(), DeliveryId::uuid),
            filter.tenant.map(TenantId::uuid),
            filter.reason.map(Reason::as_str),
            filter.since,
            filter.until,
            filter.job.map(JobId::uuid),
            filter.delivery.map(DeliveryId::uuid),
            limit
        )
        .fetch_all(self.db())
        .await?;
        let letter = rows.into_iter().map(|r| {
            Ok(DeadLetter {
                delivery: r.id.into(),
                tenant: r.tenant_id.into(),
                job: r.job_id.into(),
                event_type: r.event_type,
                reason: reason(r.reason.as_deref())?,
                detail: r.detail,
                dead_lettered_at: r.dead_lettered_at,
                attempts: r.attempts.unsigned_abs(),
                crashes: r.crashes.unsigned_abs(),
                channel: r.channel,
                document_type: r.document_type,
                expires_at: r.expires_at,
                already_sent: r.already_sent,
            })
        });
        letter.collect()
    }

    pub async fn count_dead_letters(&self, filter: &DeadLetterFilter) -> Result<i64, StoreError> {
        let count = sqlx::query_scalar!(
            r#"
            SELECT count(*) AS "count!" FROM deliveries d
            WHERE d.dead_lettered_at IS NOT NULL
                AND ($1::uuid IS NULL OR d.tenant_id = $1) AND ($2::text IS NULL OR d.reason = $2)
                AND ($3::timestamptz IS NULL OR d.dead_lettered_at >= $3) AND ($4::timestamptz IS NULL OR d.dead_lettered_at < $4)
                AND ($5::uuid IS NULL OR d.job_id = $5) AND ($6::uuid IS NULL OR d.id = $6)
            "#,
            filter.tenant.map(TenantId::uuid),
            filter.reason.map(Reason::as_str),
            filter.since,
            filter.until,
            filter.job.map(JobId::uuid),
            filter.delivery.map(DeliveryId::uuid),
        )
        .fetch_one(self.db())
        .await?;
        Ok(count)
    }

    /// Puts dead letters back; one answer per id, in order. A document that failed, or whose deadline is over, is rendered again with
    /// `requeue_after` as its new deadline, and its deliveries wait for it.
    ///
    /// A worker can't hold one of these rows: they are FAILED, which nobody claims. Of two redrives at once the second finds
    /// nothing dead.
    pub async fn redrive(
        &self,
        deliveries: &[DeliveryId],
        requeue_after: Duration,
    ) -> Result<Vec<(DeliveryId, Redriven)>, StoreError> {
        let ids: Vec<Uuid> = deliveries.iter().map(|d| d.uuid()).collect();
        let rows = sqlx::query!(
            r#"
            WITH dead AS MATERIALIZED (
                SELECT id, tenant_id, job_id, identity, lineage, document_id FROM deliveries
                WHERE id = ANY($1) AND state = 'FAILED' AND dead_lettered_at IS NOT NULL ORDER BY id FOR UPDATE
            ), sent AS MATERIALIZED (
                SELECT d.id, s.delivery_id AS by
                FROM dead d JOIN sends s ON s.tenant_id = d.tenant_id AND s.identity = d.identity AND s.state = 'sent'
                JOIN jobs j ON j.id = d.job_id
                -- A content that came back after another one: its claim decides whether it is a repeat.
                WHERE NOT (d.lineage IS NOT NULL AND j.revision_by_content AND j.seq > s.job_seq)
            ), document AS MATERIALIZED (
                -- Locked, so that a render can't make one READY between our look and the deliveries that then would wait for it.
                SELECT o.id, o.state, o.deadline_at, o.state <> 'READY' AND (o.state = 'FAILED' OR o.deadline_at <= now()) AS again
                FROM documents o
                WHERE o.id IN (SELECT d.document_id FROM dead d WHERE d.id NOT IN (SELECT id FROM sent)) ORDER BY o.id FOR UPDATE
            ), restarted AS (
                -- A render that is running at this moment goes on under the new deadline.
                UPDATE documents d SET attempts = 0, reason = NULL, detail = NULL, updated_at = now(),
                    state = CASE d.state WHEN 'RENDERING' THEN 'RENDERING' ELSE 'PENDING' END,
                    due_at = CASE d.state WHEN 'RENDERING' THEN d.due_at ELSE now() END,
                    deadline_at = now() + make_interval(secs => $2)
                FROM document o WHERE d.id = o.id AND o.again
            ), decided AS MATERIALIZED (
                SELECT d.id, coalesce(o.state <> 'READY', false) AS waits,
                    CASE WHEN o.again THEN now() + make_interval(secs => $2) ELSE o.deadline_at END AS deadline_at
                FROM dead d LEFT JOIN document o ON o.id = d.document_id
                WHERE d.id NOT IN (SELECT id FROM sent)
            ), moved AS (
                -- FAILED -> PENDING, and on to WAITING_DOCUMENT where it must wait: two moves, two versions, two ledger rows.
                UPDATE deliveries d SET
                    state = CASE WHEN w.waits THEN 'WAITING_DOCUMENT' ELSE 'PENDING' END,
                    version = d.version + CASE WHEN w.waits THEN 2 ELSE 1 END,
                    due_at = CASE WHEN w.waits THEN w.deadline_at ELSE now() + make_interval(secs => $2) END,
                    reason = NULL, detail = NULL, attempts = 0, crashes = 0, provider_position = 0, requeues = 0, held = false,
                    not_before = NULL, other_id = NULL, released_at = NULL, dead_lettered_at = NULL, updated_at = now()
                FROM decided w WHERE d.id = w.id
                RETURNING d.id, d.job_id, d.version, w.waits
            ), noted AS (
                INSERT INTO ledger (delivery_id, version, state, detail)
                SELECT id, version - CASE WHEN waits THEN 1 ELSE 0 END, 'PENDING', 'redriven' FROM moved
                UNION ALL SELECT id, version, 'WAITING_DOCUMENT', NULL FROM moved WHERE waits
            ), job AS MATERIALIZED (
                SELECT id FROM jobs WHERE id IN (SELECT job_id FROM moved) AND state <> 'PENDING' ORDER BY id FOR UPDATE
            ), reopened AS (
                -- routed_at always changes: a refresh that still saw the job finished notices by it.
                UPDATE jobs j SET state = 'ROUTED', routed_at = clock_timestamp(), ordering_timed_out = false FROM job WHERE j.id = job.id
            ), closed AS (
                UPDATE deliveries d SET dead_lettered_at = NULL, other_id = s.by, updated_at = now(),
                    detail = 'sent meanwhile by another delivery'
                FROM sent s WHERE d.id = s.id
            )
            SELECT id AS "id!", NULL::uuid AS by FROM moved UNION ALL SELECT id, by FROM sent
            "#,
            &ids,
            secs(requeue_after)
        )
        .fetch_all(self.db())
        .await?;
        let done: HashMap<Uuid, Option<Uuid>> = rows.into_iter().map(|r| (r.id, r.by)).collect();
        let answer = deliveries.iter().map(|id| {
            let what = match done.get(&id.uuid()) {
                Some(None) => Redriven::Queued,
                Some(Some(by)) => Redriven::AlreadySent { by: DeliveryId(*by) },
                None => Redriven::NotDead,
            };
            (*id, what)
        });
        Ok(answer.collect())
    }

    /// Puts the dead letters of one job back and says what became of each. `None` when the tenant has no such job. An earlier
    /// request to cancel the job is withdrawn if there is anything to put back.
    pub async fn retry_job(
        &self,
        tenant: TenantId,
        job: JobId,
        requeue_after: Duration,
    ) -> Result<Option<Vec<(DeliveryId, Redriven)>>, StoreError> {
        let row = sqlx::query!(
            r#"
            WITH dead AS MATERIALIZED (
                SELECT id FROM deliveries WHERE job_id = $1 AND tenant_id = $2 AND dead_lettered_at IS NOT NULL
            ), wanted AS (
                UPDATE jobs SET cancel_requested_at = NULL
                WHERE id = $1 AND tenant_id = $2 AND cancel_requested_at IS NOT NULL AND EXISTS (SELECT 1 FROM dead)
            )
            SELECT ARRAY(SELECT id FROM dead ORDER BY id) AS "dead!" FROM jobs WHERE id = $1 AND tenant_id = $2
            "#,
            job.uuid(),
            tenant.uuid()
        )
        .fetch_optional(self.db())
        .await?;
        let Some(row) = row else { return Ok(None) };
        let dead: Vec<DeliveryId> = row.dead.into_iter().map(DeliveryId).collect();
        Ok(Some(self.redrive(&dead, requeue_after).await?))
    }
}

#[cfg(test)]
mod tests;
