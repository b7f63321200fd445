use crate::{
    Store, StoreError,
    store::{delivery_state, document_state, reason},
};
use chrono::{DateTime, Utc};
use uuid::Uuid;
use waybill_core::{
    ids::{AttemptId, DeliveryId, DocumentId, JobId},
    state::{DeliveryState, DocumentState, Reason},
};

/// Rows in one page at most.
const MAX_PAGE: i64 = 1_000;

#[derive(Debug, Clone, PartialEq)]
pub struct DeliveryView {
    pub id: DeliveryId,
    pub channel: String,
    /// As spelt by the producer.
    pub recipient: String,
    pub recipient_name: String,
    pub state: DeliveryState,
    pub reason: Option<Reason>,
    pub detail: Option<String>,
    /// Whole passes over the provider list.
    pub attempts: u32,
    /// In RETRYING.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// In UNKNOWN, unless it is held.
    pub reconcile_until: Option<DateTime<Utc>>,
    /// UNKNOWN, and a person has to decide.
    pub held: bool,
    pub dead_lettered_at: Option<DateTime<Utc>>,
    pub provider: Option<String>,
    pub provider_message_id: Option<String>,
    pub document: Option<DocumentView>,
    /// DUPLICATE of, SUPERSEDED by.
    pub other: Option<DeliveryId>,
    pub sent_at: Option<DateTime<Utc>>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentView {
    pub id: DocumentId,
    pub document_type: String,
    pub state: DocumentState,
    pub reason: Option<Reason>,
    pub detail: Option<String>,
    /// Renders that were started.
    pub attempts: u32,
    pub size_bytes: Option<u64>,
}

/// One claim's worth of work.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptView {
    pub id: AttemptId,
    pub delivery: DeliveryId,
    /// The pass it belongs to, from 1.
    pub number: u32,
    pub started_at: DateTime<Utc>,
    /// `None` while it runs, or for good if its worker died.
    pub ended_at: Option<DateTime<Utc>>,
    /// `sent`, `unknown`, `retry`, `hold`, `failed` or `crashed`.
    pub outcome: Option<String>,
    /// `[{provider, outcome, detail, provider_message_id, ms}]`
    pub calls: serde_json::Value,
}

/// One move of one delivery.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerEntry {
    pub delivery: DeliveryId,
    /// From 1, without gaps.
    pub version: u32,
    pub state: DeliveryState,
    pub reason: Option<Reason>,
    pub detail: Option<String>,
    pub at: DateTime<Utc>,
}

impl Store {
    /// The deliveries of a job in pages of at most 1,000, by id. Ask [`Store::find_job`] first whether the tenant may see the job.
    pub async fn list_deliveries(
        &self,
        job: JobId,
        after: Option<DeliveryId>,
        limit: i64,
    ) -> Result<Vec<DeliveryView>, StoreError> {
        let rows = sqlx::query!(
            r#"
            SELECT d.id, d.channel, d.recipient, d.recipient_name, d.state, d.reason, d.detail, d.attempts, d.held, d.due_at,
                d.dead_lettered_at, d.provider, d.provider_message_id, d.other_id, d.sent_at, d.created_at, d.updated_at,
                o.id AS "document_id?", o.document_type AS "document_type?", o.state AS "document_state?", o.reason AS document_reason,
                o.detail AS document_detail, o.attempts AS "document_attempts?", o.size_bytes
            FROM deliveries d LEFT JOIN documents o ON o.id = d.document_id
            WHERE d.job_id = $1 AND d.id > $2 ORDER BY d.id LIMIT $3
            "#,
            job.uuid(),
            after.map_or(Uuid::nil(), DeliveryId::uuid),
            limit.clamp(1, MAX_PAGE)
        )
        .fetch_all(self.db())
        .await?;
        let mut out = Vec::with_capacity(rows.len());
        for r in rows {
            let document = match (r.document_id, r.document_type, r.document_state) {
                (Some(id), Some(document_type), Some(state)) => Some(DocumentView {
                    id: id.into(),
                    document_type,
                    state: document_state(&state)?,
                    reason: reason(r.document_reason.as_deref())?,
                    detail: r.document_detail,
                    attempts: r.document_attempts.unwrap_or(0).unsigned_abs(),
                    size_bytes: r.size_bytes.map(i64::unsigned_abs),
                }),
                _ => None,
            };
            let state = delivery_state(&r.state)?;
            out.push(DeliveryView {
                id: r.id.into(),
                channel: r.channel,
                recipient: r.recipient,
                recipient_name: r.recipient_name,
                state,
                reason: reason(r.reason.as_deref())?,
                detail: r.detail,
                attempts: r.attempts.unsigned_abs(),
                next_attempt_at: r.due_at.filter(|_| state == DeliveryState::Retrying),
                reconcile_until: r.due_at.filter(|_| state == DeliveryState::Unknown && !r.held),
                held: r.held,
                dead_lettered_at: r.dead_lettered_at,
                provider: r.provider,
                provider_message_id: r.provider_message_id,
                document,
                other: r.other_id.map(Into::into),
                sent_at: r.sent_at,
                created_at: r.created_at,
                updated_at: r.updated_at,
            });
        }
        Ok(out)
    }

    /// The attempts of some deliveries, each delivery's in the order of their start.
    pub async fn list_attempts(&self, deliveries: &[DeliveryId]) -> Result<Vec<AttemptView>, StoreError> {
        let ids: Vec<Uuid> = deliveries.iter().map(|d| d.uuid()).collect();
        let rows = sqlx::query!(
            "
            SELECT id, delivery_id, number, started_at, ended_at, outcome, calls FROM attempts
            WHERE delivery_id = ANY($1) ORDER BY delivery_id, started_at, id
            ",
            &ids
        )
        .fetch_all(self.db())
        .await?;
        let view = rows.into_iter().map(|r| AttemptView {
            id: r.id.into(),
            delivery: r.delivery_id.into(),
            number: r.number.unsigned_abs(),
            started_at: r.started_at,
            ended_at: r.ended_at,
            outcome: r.outcome,
            calls: r.calls,
        });
        Ok(view.collect())
    }

    /// Every move of some deliveries, each delivery's in order.
    pub async fn list_ledger(&self, deliveries: &[DeliveryId]) -> Result<Vec<LedgerEntry>, StoreError> {
        let ids: Vec<Uuid> = deliveries.iter().map(|d| d.uuid()).collect();
        let rows = sqlx::query!(
            "
            SELECT delivery_id, version, state, reason, detail, at FROM ledger
            WHERE delivery_id = ANY($1) ORDER BY delivery_id, version
            ",
            &ids
        )
        .fetch_all(self.db())
        .await?;
        let entry = rows.into_iter().map(|r| {
            Ok(LedgerEntry {
                delivery: r.delivery_id.into(),
                version: r.version.unsigned_abs(),
                state: delivery_state(&r.state)?,
                reason: reason(r.reason.as_deref())?,
                detail: r.detail,
                at: r.at,
            })
        });
        entry.collect()
    }
}
