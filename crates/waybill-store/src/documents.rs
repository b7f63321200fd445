//! Documents: the render claim with its own attempts, and the deliveries that wait.
//!
//! A claim's token fences its result, as with deliveries. Nothing here renders; nothing is held while somebody does.

use crate::{
    Store, StoreError,
    convert::{seconds, to_u32},
    store::{detail, span},
};
use std::time::Duration;
use uuid::Uuid;
use waybill_core::{
    ids::{DocumentId, TenantId},
    state::Reason,
};

/// A document to render now.
#[derive(Debug, Clone)]
pub struct ClaimedDocument {
    pub id: DocumentId,
    pub tenant: TenantId,
    pub document_type: String,
    pub object_key: String,
    /// Of this claim; the result has to name it.
    pub token: Uuid,
    /// This one included.
    pub attempts: u32,
    /// JSON text of the event's `data`.
    pub data: String,
    /// Zero when the deadline has passed: then it has to be recorded as failed.
    pub deadline_in: Duration,
}

/// A rendered document, with the token of the claim.
#[derive(Debug, Clone)]
pub struct DocumentReady {
    pub id: DocumentId,
    pub token: Uuid,
    /// Octets.
    pub size: u64,
    pub sha256: [u8; 32],
}

/// A document that will not be rendered, with the token of the claim.
#[derive(Debug, Clone)]
pub struct DocumentFailed {
    pub id: DocumentId,
    pub token: Uuid,
    pub reason: Reason,
    pub detail: String,
}

impl Store {
    /// Claims documents that are due, or whose render claim is over, for `ttl`; at most one per token and at most `limit`. Several
    /// schedulers share the rows.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn claim_documents(
        &self,
        limit: i64,
        ttl: Duration,
        tokens: &[Uuid],
    ) -> Result<Vec<ClaimedDocument>, StoreError> {
        let rows = sqlx::query!(
            r#"
            -- The due index alone decides: due_at is the next render of a PENDING document and the claim's end of a RENDERING one.
            WITH doc AS MATERIALIZED (
                SELECT id FROM documents
                WHERE due_at <= now() AND (state = 'PENDING' OR (state = 'RENDERING' AND claim_expires_at <= now()))
                ORDER BY due_at
                LIMIT least($1::int8, cardinality($2::uuid[]))
                FOR NO KEY UPDATE SKIP LOCKED
            ),
            numbered AS (
                SELECT id, ($2::uuid[])[row_number() OVER ()] AS token FROM doc
            )
            UPDATE documents
            SET state = 'RENDERING', claim_token = n.token, attempts = documents.attempts + 1,
                claim_expires_at = now() + $3::float8 * interval '1 second', due_at = now() + $3::float8 * interval '1 second',
                updated_at = now()
            FROM numbered n JOIN documents was ON was.id = n.id JOIN jobs j ON j.id = was.job_id
            WHERE documents.id = n.id
            RETURNING documents.id, documents.tenant_id, documents.document_type, documents.object_key, n.token AS "token!",
                      documents.attempts, j.data, extract(epoch FROM documents.deadline_at - now())::float8 AS "deadline_in!"
            "#,
            limit,
            tokens,
            seconds(ttl)
        )
        .fetch_all(self.db())
        .await?;
        Ok(rows
            .into_iter()
            .map(|r| ClaimedDocument {
                id: DocumentId(r.id),
                tenant: TenantId(r.tenant_id),
                document_type: r.document_type,
                object_key: r.object_key,
                token: r.token,
                attempts: to_u32(r.attempts),
                data: r.data,
                deadline_in: span(r.deadline_in),
            })
            .collect())
    }

    /// READY, where the claim is still held. Returns those. Then: [`Store::release_waiting`].
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn record_document_ready(&self, documents: &[DocumentReady]) -> Result<Vec<DocumentId>, StoreError> {
        let ids: Vec<Uuid> = documents.iter().map(|d| d.id.0).collect();
        let tokens: Vec<Uuid> = documents.iter().map(|d| d.token).collect();
        let sizes: Vec<i64> = documents.iter().map(|d| i64::try_from(d.size).unwrap_or(i64::MAX)).collect();
        let hashes: Vec<Vec<u8>> = documents.iter().map(|d| d.sha256.to_vec()).collect();
        let ready = sqlx::query_scalar!(
            r#"
            WITH doc AS MATERIALIZED (
                SELECT doc.id, i.size, i.sha256
                FROM documents doc
                JOIN unnest($1::uuid[], $2::uuid[], $3::int8[], $4::bytea[]) AS i(id, token, size, sha256) ON i.id = doc.id
                WHERE doc.state = 'RENDERING' AND doc.claim_token = i.token
                ORDER BY doc.id
                FOR NO KEY UPDATE OF doc
            )
            UPDATE documents
            SET state = 'READY', size_bytes = doc.size, sha256 = doc.sha256, reason = NULL, detail = NULL,
                claim_token = NULL, claim_expires_at = NULL, due_at = NULL, updated_at = now()
            FROM doc WHERE documents.id = doc.id
            RETURNING documents.id
            "#,
            &ids,
            &tokens,
            &sizes,
            &hashes
        )
        .fetch_all(self.db())
        .await?;
        Ok(ready.into_iter().map(DocumentId).collect())
    }

    /// PENDING again, due after `delay`, where the claim is still held. Returns whether it was.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn record_document_retry(
        &self,
        id: DocumentId,
        token: Uuid,
        delay: Duration,
        why: &str,
    ) -> Result<bool, StoreError> {
        let done = sqlx::query!(
            "UPDATE documents
             SET state = 'PENDING', detail = $4, claim_token = NULL, claim_expires_at = NULL,
                 due_at = now() + $3::float8 * interval '1 second', updated_at = now()
             WHERE id = $1 AND state = 'RENDERING' AND claim_token = $2",
            id.0,
            token,
            seconds(delay),
            detail(why)
        )
        .execute(self.db())
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// FAILED, where the claim is still held. Returns those. Then: [`Store::fail_waiting`].
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn record_document_failed(&self, documents: &[DocumentFailed]) -> Result<Vec<DocumentId>, StoreError> {
        let ids: Vec<Uuid> = documents.iter().map(|d| d.id.0).collect();
        let tokens: Vec<Uuid> = documents.iter().map(|d| d.token).collect();
        let reasons: Vec<String> = documents.iter().map(|d| d.reason.as_str().into()).collect();
        let details: Vec<String> = documents.iter().map(|d| detail(&d.detail)).collect();
        let failed = sqlx::query_scalar!(
            r#"
            WITH doc AS MATERIALIZED (
                SELECT doc.id, i.reason, i.detail
                FROM documents doc
                JOIN unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[]) AS i(id, token, reason, detail) ON i.id = doc.id
                WHERE doc.state = 'RENDERING' AND doc.claim_token = i.token
                ORDER BY doc.id
                FOR NO KEY UPDATE OF doc
            )
            UPDATE documents
            SET state = 'FAILED', reason = doc.reason, detail = doc.detail,
                claim_token = NULL, claim_expires_at = NULL, due_at = NULL, updated_at = now()
            FROM doc WHERE documents.id = doc.id
            RETURNING documents.id
            "#,
            &ids,
            &tokens,
            &reasons,
            &details
        )
        .fetch_all(self.db())
        .await?;
        Ok(failed.into_iter().map(DocumentId).collect())
    }

    /// PENDING again, with counts at zero and a new deadline, if it is READY: its object is gone (a retention rule, a lost disk). Who
    /// needs it waits for it. Returns whether it was.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn render_again(&self, id: DocumentId, deadline: Duration) -> Result<bool, StoreError> {
        let done = sqlx::query!(
            "UPDATE documents
             SET state = 'PENDING', attempts = 0, reason = NULL, detail = 'its object was gone', size_bytes = NULL, sha256 = NULL,
                 due_at = now(), deadline_at = now() + $2::float8 * interval '1 second', updated_at = now()
             WHERE id = $1 AND state = 'READY'",
            id.0,
            seconds(deadline)
        )
        .execute(self.db())
        .await?;
        Ok(done.rows_affected() == 1)
    }
}
