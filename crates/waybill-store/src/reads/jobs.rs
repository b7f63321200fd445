use crate::{
    Store, StoreError,
    store::{delivery_state, job_state, reason},
};
use chrono::{DateTime, Utc};
use sqlx::types::Json;
use std::collections::BTreeMap;
use uuid::Uuid;
use waybill_core::{
    ids::{JobId, TenantId},
    state::{DeliveryState, JobState, Reason},
};

/// A job without its payload.
#[derive(Debug, Clone, PartialEq)]
pub struct JobView {
    pub id: JobId,
    pub tenant: TenantId,
    pub event_id: String,
    pub source: String,
    pub event_type: String,
    pub subject: Option<String>,
    pub event_time: Option<DateTime<Utc>>,
    pub revision: String,
    pub ordering_key: Option<String>,
    /// The first job of the same ordering key that is not over, and was accepted before it.
    pub waits_for: Option<JobId>,
    /// Derived from the deliveries once the job is routed.
    pub status: JobState,
    pub reason: Option<Reason>,
    pub detail: Option<String>,
    /// Number of deliveries per state; states without any are left out.
    pub deliveries: Vec<(DeliveryState, i64)>,
    pub expires_at: Option<DateTime<Utc>>,
    pub cancel_requested_at: Option<DateTime<Utc>>,
    pub created_at: DateTime<Utc>,
    pub routed_at: Option<DateTime<Utc>>,
}

/// What the producer sent, as JSON texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPayload {
    pub recipients: String,
    pub data: String,
}

/// Which jobs. Empty: all of them.
#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    /// Compared with the job's row, which may lag behind the derived status for a moment.
    pub status: Option<JobState>,
    pub event_type: Option<String>,
    pub subject: Option<String>,
    /// A recipient's key (`EmailAddress::key`).
    pub recipient_key: Option<String>,
    /// Created at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Created before this time.
    pub until: Option<DateTime<Utc>>,
}

struct Row {
    id: Uuid,
    tenant_id: Uuid,
    event_id: String,
    source: String,
    event_type: String,
    subject: Option<String>,
    event_time: Option<DateTime<Utc>>,
    revision: String,
    ordering_key: Option<String>,
    waits_for: Option<Uuid>,
    state: String,
    reason: Option<String>,
    detail: Option<String>,
    expires_at: Option<DateTime<Utc>>,
    cancel_requested_at: Option<DateTime<Utc>>,
    created_at: DateTime<Utc>,
    routed_at: Option<DateTime<Utc>>,
    deliveries: Json<BTreeMap<String, i64>>,
}

impl Row {
    fn read(self) -> Result<JobView, StoreError> {
        let counts = self.deliveries.0.iter().map(|(state, n)| Ok((delivery_state(state)?, *n)));
        let deliveries: Vec<(DeliveryState, i64)> = counts.collect::<Result<_, StoreError>>()?;
        let status = match job_state(&self.state)? {
            stored if deliveries.is_empty() => stored,
            // One of each state is enough: the rules ask for "any" and "all" only.
            _ => JobState::of(deliveries.iter().map(|(state, _)| *state)).unwrap_or(JobState::Routed),
        };
        Ok(JobView {
            id: self.id.into(),
            tenant: self.tenant_id.into(),
            event_id: self.event_id,
            source: self.source,
            event_type: self.event_type,
            subject: self.subject,
            event_time: self.event_time,
            revision: self.revision,
            ordering_key: self.ordering_key,
            waits_for: self.waits_for.map(JobId),
            status,
            reason: reason(self.reason.as_deref())?,
            detail: self.detail,
            deliveries,
            expires_at: self.expires_at,
            cancel_requested_at: self.cancel_requested_at,
            created_at: self.created_at,
            routed_at: self.routed_at,
        })
    }
}

impl Store {
    /// `tenant: None` is for operators.
    pub async fn find_job(&self, tenant: Option<TenantId>, job: JobId) -> Result<Option<JobView>, StoreError> {
        let row = sqlx::query_as!(
            Row,
            r#"
            SELECT j.id, j.tenant_id, j.event_id, j.source, j.type AS event_type, j.subject, j.event_time, j.revision, j.state, j.reason,
                j.detail, j.expires_at, j.cancel_requested_at, j.created_at, j.routed_at, j.ordering_key,
                (SELECT p.id FROM jobs p
                 WHERE j.ordering_due_at IS NOT NULL AND p.tenant_id = j.tenant_id AND p.ordering_key = j.ordering_key
                     AND p.ordering_due_at IS NOT NULL AND p.seq < j.seq
                 ORDER BY p.seq LIMIT 1) AS waits_for,
                (SELECT coalesce(jsonb_object_agg(c.state, c.n), '{}')
                 FROM (SELECT d.state, count(*) AS n FROM deliveries d WHERE d.job_id = j.id GROUP BY d.state) c
                ) AS "deliveries!: Json<BTreeMap<String, i64>>"
            FROM jobs j WHERE j.id = $1 AND ($2::uuid IS NULL OR j.tenant_id = $2)
            "#,
            job.uuid(),
            tenant.map(TenantId::uuid)
        )
        .fetch_optional(self.db())
        .await?;
        row.map(Row::read).transpose()
    }

    pub async fn find_job_payload(
        &self,
        tenant: Option<TenantId>,
        job: JobId,
    ) -> Result<Option<JobPayload>, StoreError> {
        let row = sqlx::query_as!(
            JobPayload,
            "SELECT recipients, data FROM jobs WHERE id = $1 AND ($2::uuid IS NULL OR tenant_id = $2)",
            job.uuid(),
            tenant.map(TenantId::uuid)
        )
        .fetch_optional(self.db())
        .await?;
        Ok(row)
    }

    /// Jobs, newest first, in pages: `after` is the last job of the page before.
    pub async fn list_jobs(
        &self,
        tenant: Option<TenantId>,
        filter: &JobFilter,
        after: Option<JobId>,
        limit: i64,
    ) -> Result<Vec<JobView>, StoreError> {
        let mut transaction = self.planned_for_its_values().await?;
        let rows = sqlx::query_as!(
            Row,
            r#"
            SELECT j.id, j.tenant_id, j.event_id, j.source, j.type AS event_type, j.subject, j.event_time, j.revision, j.state, j.reason,
                j.detail, j.expires_at, j.cancel_requested_at, j.created_at, j.routed_at, j.ordering_key,
                (SELECT p.id FROM jobs p
                 WHERE j.ordering_due_at IS NOT NULL AND p.tenant_id = j.tenant_id AND p.ordering_key = j.ordering_key
                     AND p.ordering_due_at IS NOT NULL AND p.seq < j.seq
                 ORDER BY p.seq LIMIT 1) AS waits_for,
                (SELECT coalesce(jsonb_object_agg(c.state, c.n), '{}')
                 FROM (SELECT d.state, count(*) AS n FROM deliveries d WHERE d.job_id = j.id GROUP BY d.state) c
                ) AS "deliveries!: Json<BTreeMap<String, i64>>"
            FROM jobs j
            WHERE ($1::uuid IS NULL OR j.tenant_id = $1) AND ($2::uuid IS NULL OR j.id < $2)
                AND ($3::text IS NULL OR j.state = $3) AND ($4::text IS NULL OR j.type = $4) AND ($5::text IS NULL OR j.subject = $5)
                -- An array, so that the plan can start from the recipient's few jobs instead of asking each of the tenant's many.
                AND ($6::text IS NULL OR j.id = ANY (ARRAY(
                    SELECT d.job_id FROM deliveries d
                    WHERE d.recipient_key = $6 AND d.recipient_key <> '' AND ($1::uuid IS NULL OR d.tenant_id = $1))))
                AND ($7::timestamptz IS NULL OR j.created_at >= $7) AND ($8::timestamptz IS NULL OR j.created_at < $8)
            ORDER BY j.id DESC LIMIT $9
            "#,
            tenant.map(TenantId::uuid),
            after.map(JobId::uuid),
            filter.status.map(JobState::as_str),
            filter.event_type.as_deref(),
            filter.subject.as_deref(),
            filter.recipient_key.as_deref(),
            filter.since,
            filter.until,
            limit
        )
        .fetch_all(&mut *transaction)
        .await?;
        transaction.commit().await?;
        self.count(2);
        rows.into_iter().map(Row::read).collect()
    }
}
