//! API keys: hashes only. The secret is shown once, by whoever made it.

use crate::{Store, StoreError};
use chrono::{DateTime, Utc};
use waybill_core::ids::{KeyId, TenantId};

#[derive(Debug, Clone)]
pub struct NewApiKey {
    pub id: KeyId,
    pub tenant: TenantId,
    /// SHA-256 of the whole key.
    pub key_hash: [u8; 32],
    /// First characters, for people to tell keys apart.
    pub prefix: String,
    pub scopes: Vec<String>,
    pub expires_at: Option<DateTime<Utc>>,
}

/// What a request with a valid key may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    pub id: KeyId,
    pub tenant: TenantId,
    pub scopes: Vec<String>,
}

/// A key as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyView {
    pub id: KeyId,
    pub prefix: String,
    pub scopes: Vec<String>,
    pub created_at: DateTime<Utc>,
    pub expires_at: Option<DateTime<Utc>>,
    pub revoked_at: Option<DateTime<Utc>>,
}

impl Store {
    /// # Errors
    /// [`StoreError::Database`] when the tenant does not exist or the hash is there already.
    pub async fn insert_api_key(&self, key: &NewApiKey) -> Result<(), StoreError> {
        sqlx::query!(
            "INSERT INTO api_keys (id, tenant_id, key_hash, prefix, scopes, expires_at) VALUES ($1, $2, $3, $4, $5, $6)",
            key.id.uuid(),
            key.tenant.uuid(),
            &key.key_hash,
            key.prefix,
            &key.scopes,
            key.expires_at
        )
        .execute(self.db())
        .await?;
        Ok(())
    }

    /// The key with this hash, unless it is expired or revoked by the database's clock.
    pub async fn find_api_key(&self, key_hash: &[u8; 32]) -> Result<Option<ApiKey>, StoreError> {
        let row = sqlx::query!(
            "
            SELECT id, tenant_id, scopes FROM api_keys
            WHERE key_hash = $1 AND (revoked_at IS NULL OR revoked_at > now()) AND (expires_at IS NULL OR expires_at > now())
            ",
            key_hash
        )
        .fetch_optional(self.db())
        .await?;
        Ok(row.map(|r| ApiKey { id: r.id.into(), tenant: r.tenant_id.into(), scopes: r.scopes }))
    }

    /// All keys of a tenant, oldest first, dead ones included.
    pub async fn list_api_keys(&self, tenant: TenantId) -> Result<Vec<ApiKeyView>, StoreError> {
        let rows = sqlx::query!(
            "
            SELECT id, prefix, scopes, created_at, expires_at, revoked_at FROM api_keys
            WHERE tenant_id = $1 ORDER BY created_at, id
            ",
            tenant.uuid()
        )
        .fetch_all(self.db())
        .await?;
        let view = rows.into_iter().map(|r| ApiKeyView {
            id: r.id.into(),
            prefix: r.prefix,
            scopes: r.scopes,
            created_at: r.created_at,
            expires_at: r.expires_at,
            revoked_at: r.revoked_at,
        });
        Ok(view.collect())
    }

    /// Revokes a key now; `false` when there is none or it was revoked before.
    pub async fn revoke_api_key(&self, id: KeyId) -> Result<bool, StoreError> {
        let done =
            sqlx::query!("UPDATE api_keys SET revoked_at = now() WHERE id = $1 AND revoked_at IS NULL", id.uuid())
                .execute(self.db())
                .await?;
        Ok(done.rows_affected() == 1)
    }
}
