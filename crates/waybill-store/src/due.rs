//! Deliveries that nothing happened to: their queue message was lost, or their time has come. The caller queues what this returns.

use crate::{
    Store, StoreError,
    convert::{seconds, to_u32},
    store::{delivery_state, document_state, reason},
};
use std::time::Duration;
use waybill_core::{
    ids::{DeliveryId, DocumentId, TenantId},
    state::{DeliveryState, DocumentState, Reason},
};

/// A delivery that needs a queue message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Released {
    pub delivery: DeliveryId,
    pub tenant: TenantId,
    pub state: DeliveryState,
    /// How often it was queued again before.
    pub requeued_before: u32,
}

/// A delivery that has waited for its document for too long, or in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverdueWaiting {
    pub delivery: DeliveryId,
    pub tenant: TenantId,
    pub version: i32,
    pub document: Option<DocumentId>,
    pub document_state: Option<DocumentState>,
    /// Why the document is FAILED; `None` means that its deadline has passed.
    pub document_reason: Option<Reason>,
}

impl Store {
    /// Hands out deliveries that are due and wait for nobody else: PENDING and RETRYING ones, and WAITING_DOCUMENT ones except for
    /// those that [`Store::list_overdue_waiting`] lists. Each is due again after `requeue_after`. Several schedulers share the rows.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn release_due(&self, limit: i64, requeue_after: Duration) -> Result<Vec<Released>, StoreError> {
        let rows = sqlx::query!(
            r#"
            WITH d AS MATERIALIZED (
                SELECT d.id
                FROM deliveries d
                WHERE d.due_at <= now() AND d.state IN ('PENDING', 'RETRYING', 'WAITING_DOCUMENT')
                  AND NOT (d.state = 'WAITING_DOCUMENT' AND NOT EXISTS (
                      SELECT FROM documents doc
                      WHERE doc.id = d.document_id AND (doc.state = 'READY' OR (doc.state <> 'FAILED' AND doc.deadline_at > now()))))
                ORDER BY d.due_at
                LIMIT $1
                FOR NO KEY UPDATE OF d SKIP LOCKED
            )
            UPDATE deliveries
            SET due_at = now() + $2::float8 * interval '1 second', requeues = requeues + 1
            FROM d WHERE deliveries.id = d.id
            RETURNING deliveries.id, tenant_id, state, requeues - 1 AS "before!"
            "#,
            limit,
            seconds(requeue_after)
        )
        .fetch_all(self.db())
        .await?;
        rows.into_iter()
            .map(|r| {
                Ok(Released {
                    delivery: DeliveryId(r.id),
                    tenant: TenantId(r.tenant_id),
                    state: delivery_state(&r.state)?,
                    requeued_before: to_u32(r.before),
                })
            })
            .collect()
    }

    /// WAITING_DOCUMENT deliveries that are due and whose document is FAILED or past its deadline: to be finished as FAILED.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn list_overdue_waiting(&self, limit: i64) -> Result<Vec<OverdueWaiting>, StoreError> {
        let rows = sqlx::query!(
            r#"
            SELECT d.id, d.tenant_id, d.version, d.document_id, doc.state AS "document_state?", doc.reason AS document_reason
            FROM deliveries d
            LEFT JOIN documents doc ON doc.id = d.document_id
            WHERE d.due_at <= now() AND d.state = 'WAITING_DOCUMENT'
              AND (doc.id IS NULL OR doc.state = 'FAILED' OR (doc.state <> 'READY' AND doc.deadline_at <= now()))
            ORDER BY d.due_at
            LIMIT $1
            "#,
            limit
        )
        .fetch_all(self.db())
        .await?;
        rows.into_iter()
            .map(|r| {
                Ok(OverdueWaiting {
                    delivery: DeliveryId(r.id),
                    tenant: TenantId(r.tenant_id),
                    version: r.version,
                    document: r.document_id.map(DocumentId),
                    document_state: r.document_state.as_deref().map(document_state).transpose()?,
                    document_reason: reason(r.document_reason.as_deref())?,
                })
            })
            .collect()
    }
}
