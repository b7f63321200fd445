//! Deliveries as a worker sees them.

use crate::{
    Store, StoreError,
    convert::{identity, to_u32, uuids},
    store::{delivery_state, document_state, on_unknown, reason, span},
};
use chrono::{DateTime, Utc};
use std::time::Duration;
use uuid::Uuid;
use waybill_core::{
    identity::Identity,
    ids::{DeliveryId, DocumentId, JobId, RouteId, TenantId},
    outcome::OnUnknown,
    route::RouteSpec,
    state::{DeliveryState, DocumentState, Reason},
    trace::Traceparent,
};

/// What a worker has to know before it decides to send.
#[derive(Debug, Clone)]
pub struct LoadedDelivery {
    pub id: DeliveryId,
    pub tenant: TenantId,
    pub job: JobId,
    pub state: DeliveryState,
    pub version: i32,
    pub identity: Identity,
    pub lineage: Option<[u8; 32]>,
    pub revision_number: Option<i64>,
    pub job_created_at: DateTime<Utc>,
    pub recipient: String,
    pub recipient_name: String,
    /// Whole passes done.
    pub attempts: u32,
    /// Attempts that started and never ended.
    pub crashes: u32,
    /// Index of the provider that the next piece of the pass starts at.
    pub provider_position: usize,
    pub cancelled: bool,
    /// By the database's clock.
    pub expired: bool,
    pub dead_lettered: bool,
    /// Its job has an ordering key, and others may wait for its end.
    pub ordered: bool,
    pub document: Option<LoadedDocument>,
    /// A newer revision of the same thing for the same recipient that was already sent.
    pub superseded_by: Option<DeliveryId>,
    /// The delivery by which the same thing was already sent.
    pub sent_by: Option<DeliveryId>,
    /// It was sent, but other content may have gone out since: only the claim can tell whether this is a repeat.
    pub sent_before: bool,
    /// Its retry is not due yet.
    pub early: bool,
    pub event_type: String,
    pub subject: Option<String>,
    /// What [`Store::load_contents`] takes, with `job`.
    pub route: (RouteId, i32),
    pub tenant_on_unknown: Option<OnUnknown>,
    /// Zero when it is due; `None` when it is final.
    pub due_in: Option<Duration>,
    pub trace: Option<Traceparent>,
}

#[derive(Debug, Clone)]
pub struct LoadedDocument {
    pub id: DocumentId,
    pub document_type: String,
    pub object_key: String,
    pub state: DocumentState,
    /// Why it is FAILED.
    pub reason: Option<Reason>,
}

/// What mails are made of; the recipients of one job and route share it.
#[derive(Debug, Clone)]
pub struct Content {
    pub job: JobId,
    pub route: RouteId,
    pub version: i32,
    pub event_type: String,
    pub subject: Option<String>,
    /// The event's `data`, JSON text as received.
    pub data: String,
    pub spec: RouteSpec,
}

impl Store {
    /// Loads deliveries with all that a worker asks about. One statement, no locks; ids that don't exist are missing in the answer.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn load_deliveries(&self, ids: &[DeliveryId]) -> Result<Vec<LoadedDelivery>, StoreError> {
        let rows = sqlx::query!(
            r#"
            SELECT d.id, d.tenant_id, d.job_id, d.state, d.version, d.identity, d.lineage, d.recipient, d.recipient_name,
                   d.attempts, d.crashes, d.provider_position, d.route_id, d.route_version,
                   d.dead_lettered_at IS NOT NULL AS "dead_lettered!",
                   coalesce(d.expires_at <= now(), false) AS "expired!",
                   extract(epoch FROM d.due_at - now())::float8 AS due_in,
                   j.revision_number, j.created_at AS job_created_at, j.type AS event_type, j.subject,
                   j.cancel_requested_at IS NOT NULL AS "cancelled!",
                   j.ordering_due_at IS NOT NULL AS "ordered!", t.on_unknown, j.traceparent,
                   doc.id AS "document_id?", doc.document_type AS "document_type?", doc.object_key AS "object_key?",
                   doc.state AS "document_state?", doc.reason AS document_reason,
                   newer.delivery_id AS "superseded_by?", mine.delivery_id AS "sent_by?",
                   (d.lineage IS NOT NULL AND j.revision_by_content AND j.seq > coalesce(mine.job_seq, j.seq)) AS "sent_before!",
                   coalesce(d.not_before > now(), false) AS "early!"
            FROM deliveries d
            JOIN jobs j ON j.id = d.job_id
            JOIN tenants t ON t.id = d.tenant_id
            LEFT JOIN documents doc ON doc.id = d.document_id
            LEFT JOIN sends mine ON mine.tenant_id = d.tenant_id AND mine.identity = d.identity AND mine.state = 'sent'
            LEFT JOIN LATERAL (
                -- A newer revision that went out: an early look, the claim's is the one that counts.
                SELECT s.delivery_id
                FROM sends s
                WHERE s.tenant_id = d.tenant_id AND s.lineage = d.lineage AND s.identity <> d.identity AND s.state = 'sent'
                  AND revision_is_newer(s.revision_number, s.job_seq, j.revision_number, j.seq)
                LIMIT 1
            ) newer ON true
            WHERE d.id = ANY($1)
            "#,
            &uuids(ids)
        )
        .fetch_all(self.db())
        .await?;
        rows.into_iter()
            .map(|r| {
                let document = match (r.document_id, r.document_type, r.object_key, r.document_state) {
                    (Some(id), Some(document_type), Some(object_key), Some(state)) => Some(LoadedDocument {
                        id: DocumentId(id),
                        document_type,
                        object_key,
                        state: document_state(&state)?,
                        reason: reason(r.document_reason.as_deref())?,
                    }),
                    _ => None,
                };
                Ok(LoadedDelivery {
                    id: DeliveryId(r.id),
                    tenant: TenantId(r.tenant_id),
                    job: JobId(r.job_id),
                    state: delivery_state(&r.state)?,
                    version: r.version,
                    identity: identity(&r.identity)?,
                    lineage: r.lineage.and_then(|l| l.try_into().ok()),
                    revision_number: r.revision_number,
                    job_created_at: r.job_created_at,
                    recipient: r.recipient,
                    recipient_name: r.recipient_name,
                    attempts: to_u32(r.attempts),
                    crashes: to_u32(r.crashes),
                    provider_position: to_u32(r.provider_position) as usize,
                    cancelled: r.cancelled,
                    expired: r.expired,
                    dead_lettered: r.dead_lettered,
                    ordered: r.ordered,
                    document,
                    superseded_by: r.superseded_by.map(DeliveryId),
                    sent_by: r.sent_by.filter(|_| !r.sent_before).map(DeliveryId),
                    sent_before: r.sent_before,
                    early: r.early,
                    event_type: r.event_type,
                    subject: r.subject,
                    route: (RouteId(r.route_id), r.route_version),
                    tenant_on_unknown: on_unknown(r.on_unknown.as_deref())?,
                    due_in: r.due_in.map(span),
                    trace: r.traceparent.as_deref().and_then(Traceparent::parse),
                })
            })
            .collect()
    }

    /// Which of these deliveries are final.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn find_final(&self, ids: &[DeliveryId]) -> Result<Vec<DeliveryId>, StoreError> {
        let found = sqlx::query_scalar!("SELECT id FROM deliveries WHERE id = ANY($1) AND due_at IS NULL", &uuids(ids))
            .fetch_all(self.db())
            .await?;
        Ok(found.into_iter().map(DeliveryId).collect())
    }

    /// Loads what mails are made of. Keys may repeat; each is answered once. A route that this build can't read (a newer one wrote it) is
    /// left out like one that does not exist, so that it spoils only its own deliveries.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn load_contents(&self, keys: &[(JobId, RouteId, i32)]) -> Result<Vec<Content>, StoreError> {
        let jobs: Vec<Uuid> = keys.iter().map(|k| k.0.0).collect();
        let routes: Vec<Uuid> = keys.iter().map(|k| k.1.0).collect();
        let versions: Vec<i32> = keys.iter().map(|k| k.2).collect();
        let rows = sqlx::query!(
            r#"
            SELECT j.id AS job, r.id AS route, r.version, j.type AS event_type, j.subject, j.data,
                   r.spec
            FROM (SELECT DISTINCT job, route, version
                  FROM unnest($1::uuid[], $2::uuid[], $3::int[]) AS i(job, route, version)) k
            JOIN jobs j ON j.id = k.job
            JOIN routes r ON r.id = k.route AND r.version = k.version
            "#,
            &jobs,
            &routes,
            &versions
        )
        .fetch_all(self.db())
        .await?;
        Ok(rows
            .into_iter()
            .filter_map(|r| {
                Some(Content {
                    job: JobId(r.job),
                    route: RouteId(r.route),
                    version: r.version,
                    event_type: r.event_type,
                    subject: r.subject,
                    data: r.data,
                    spec: serde_json::from_value(r.spec).ok()?,
                })
            })
            .collect())
    }
}
