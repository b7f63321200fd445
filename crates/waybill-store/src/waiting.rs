//! Deliveries that wait for a document: what happens to them once it is READY or FAILED.

use crate::{Store, StoreError, convert::seconds};
use std::time::Duration;
use uuid::Uuid;
use waybill_core::ids::{DeliveryId, DocumentId, TenantId};

impl Store {
    /// Deliveries of READY documents that were not handed out since: the caller queues them. They stay WAITING_DOCUMENT, which is
    /// claimable, and are due after `requeue_after`. Repeat it until nothing comes back. A crash before the queue messages are sent
    /// costs `requeue_after`; one before this statement is found by [`Store::list_ready_but_waiting`].
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn release_waiting(
        &self,
        documents: &[DocumentId],
        requeue_after: Duration,
        limit: i64,
    ) -> Result<Vec<(DeliveryId, TenantId)>, StoreError> {
        let rows = sqlx::query!(
            r#"
            WITH d AS MATERIALIZED (
                SELECT d.id
                FROM deliveries d JOIN documents doc ON doc.id = d.document_id
                WHERE d.document_id = ANY($1) AND d.state = 'WAITING_DOCUMENT' AND doc.state = 'READY'
                  AND (d.released_at IS NULL OR d.released_at < doc.updated_at)
                ORDER BY d.id
                LIMIT $3
                FOR NO KEY UPDATE OF d
            )
            UPDATE deliveries
            SET due_at = now() + $2::float8 * interval '1 second', released_at = now()
            FROM d WHERE deliveries.id = d.id
            RETURNING deliveries.id, tenant_id
            "#,
            &uuids(documents),
            seconds(requeue_after),
            limit
        )
        .fetch_all(self.db())
        .await?;
        Ok(rows.into_iter().map(|r| (DeliveryId(r.id), TenantId(r.tenant_id))).collect())
    }

    /// Fails the deliveries of FAILED documents, with the document's reason, as dead letters: it is no recipient's fault. Returns them.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn fail_waiting(&self, documents: &[DocumentId]) -> Result<Vec<DeliveryId>, StoreError> {
        let failed = sqlx::query_scalar!(
            r#"
            WITH d AS MATERIALIZED (
                SELECT d.id, coalesce(doc.reason, 'document_render_failed') AS reason, doc.detail
                FROM deliveries d JOIN documents doc ON doc.id = d.document_id
                WHERE d.document_id = ANY($1) AND d.state = 'WAITING_DOCUMENT' AND doc.state = 'FAILED'
                ORDER BY d.id
                FOR NO KEY UPDATE OF d
            ),
            moved AS (
                UPDATE deliveries
                SET state = 'FAILED', reason = d.reason, detail = d.detail, due_at = NULL, dead_lettered_at = now(),
                    version = version + 1, updated_at = now()
                FROM d WHERE deliveries.id = d.id
                RETURNING deliveries.id, deliveries.version, deliveries.state, deliveries.reason, deliveries.detail
            )
            INSERT INTO ledger (delivery_id, version, state, reason, detail)
            SELECT id, version, state, reason, detail FROM moved
            RETURNING delivery_id
            "#,
            &uuids(documents)
        )
        .fetch_all(self.db())
        .await?;
        Ok(failed.into_iter().map(DeliveryId).collect())
    }

    /// READY documents with deliveries that [`Store::release_waiting`] has not handed out: somebody died in between.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn list_ready_but_waiting(&self, limit: i64) -> Result<Vec<DocumentId>, StoreError> {
        let ids = sqlx::query_scalar!(
            r#"
            SELECT DISTINCT doc.id
            FROM deliveries d JOIN documents doc ON doc.id = d.document_id
            WHERE d.state = 'WAITING_DOCUMENT' AND doc.state = 'READY'
              AND (d.released_at IS NULL OR d.released_at < doc.updated_at)
            LIMIT $1
            "#,
            limit
        )
        .fetch_all(self.db())
        .await?;
        Ok(ids.into_iter().map(DocumentId).collect())
    }

    /// FAILED documents with deliveries that still wait for them: for [`Store::fail_waiting`].
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn list_failed_but_waiting(&self, limit: i64) -> Result<Vec<DocumentId>, StoreError> {
        let ids = sqlx::query_scalar!(
            r#"
            SELECT DISTINCT doc.id
            FROM deliveries d JOIN documents doc ON doc.id = d.document_id
            WHERE d.state = 'WAITING_DOCUMENT' AND doc.state = 'FAILED'
            LIMIT $1
            "#,
            limit
        )
        .fetch_all(self.db())
        .await?;
        Ok(ids.into_iter().map(DocumentId).collect())
    }
}

fn uuids(documents: &[DocumentId]) -> Vec<Uuid> {
    documents.iter().map(|d| d.0).collect()
}
