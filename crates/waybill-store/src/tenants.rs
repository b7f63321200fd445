//! Tenants.

use crate::{Store, StoreError, store};
use chrono::{DateTime, Utc};
use uuid::Uuid;
use waybill_core::{ids::TenantId, outcome::OnUnknown};

/// One customer of the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    pub id: TenantId,
    /// Unique.
    pub name: String,
    /// `None`: the provider account's default.
    pub on_unknown: Option<OnUnknown>,
    pub created_at: DateTime<Utc>,
}

struct Row {
    id: Uuid,
    name: String,
    on_unknown: Option<String>,
    created_at: DateTime<Utc>,
}

impl Row {
    fn read(self) -> Result<Tenant, StoreError> {
        let on_unknown = store::on_unknown(self.on_unknown.as_deref())?;
        Ok(Tenant { id: self.id.into(), name: self.name, on_unknown, created_at: self.created_at })
    }
}

impl Store {
    /// Creates a tenant; `false` when the name (or the id) is taken.
    pub async fn create_tenant(
        &self,
        id: TenantId,
        name: &str,
        on_unknown: Option<OnUnknown>,
    ) -> Result<bool, StoreError> {
        let done = sqlx::query!(
            "INSERT INTO tenants (id, name, on_unknown) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            id.uuid(),
            name,
            on_unknown.map(OnUnknown::as_str)
        )
        .execute(self.db())
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// For seeding: the tenant of that name, created under `id` if there is none, with the policy as given.
    pub async fn ensure_tenant(
        &self,
        id: TenantId,
        name: &str,
        on_unknown: Option<OnUnknown>,
    ) -> Result<TenantId, StoreError> {
        let id = sqlx::query_scalar!(
            "
            INSERT INTO tenants (id, name, on_unknown) VALUES ($1, $2, $3)
            ON CONFLICT (name) DO UPDATE SET on_unknown = excluded.on_unknown RETURNING id
            ",
            id.uuid(),
            name,
            on_unknown.map(OnUnknown::as_str)
        )
        .fetch_one(self.db())
        .await?;
        Ok(id.into())
    }

    pub async fn find_tenant(&self, id: TenantId) -> Result<Option<Tenant>, StoreError> {
        let row = sqlx::query_as!(Row, "SELECT id, name, on_unknown, created_at FROM tenants WHERE id = $1", id.uuid())
            .fetch_optional(self.db())
            .await?;
        row.map(Row::read).transpose()
    }

    pub async fn find_tenant_by_name(&self, name: &str) -> Result<Option<Tenant>, StoreError> {
        let row = sqlx::query_as!(Row, "SELECT id, name, on_unknown, created_at FROM tenants WHERE name = $1", name)
            .fetch_optional(self.db())
            .await?;
        row.map(Row::read).transpose()
    }

    /// All tenants, by name.
    pub async fn list_tenants(&self) -> Result<Vec<Tenant>, StoreError> {
        let rows = sqlx::query_as!(Row, "SELECT id, name, on_unknown, created_at FROM tenants ORDER BY name")
            .fetch_all(self.db())
            .await?;
        rows.into_iter().map(Row::read).collect()
    }
}

#[cfg(test)]
mod tests;
