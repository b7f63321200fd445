//! Idempotency keys. They are written by `accept` and only ever deleted; a row past its `expires_at` still counts until it is swept,
//! so that a repeat is either the old job or a new one and never a race between the two.

use crate::{Store, StoreError};

impl Store {
    /// Deletes up to `limit` expired keys; says how many.
    pub async fn delete_expired_idempotency(&self, limit: i64) -> Result<u64, StoreError> {
        let done = sqlx::query!(
            "
            WITH old AS MATERIALIZED (
                SELECT tenant_id, key_hash FROM idempotency WHERE expires_at <= now()
                ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED
            )
            DELETE FROM idempotency i USING old WHERE i.tenant_id = old.tenant_id AND i.key_hash = old.key_hash
            ",
            limit
        )
        .execute(self.db())
        .await?;
        Ok(done.rows_affected())
    }
}
