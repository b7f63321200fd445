//! Routes. A row is never changed but for `active`: an edit is a new version, and a delivery names the version that decided it.

use crate::{Store, StoreError};
use sqlx::types::Json;
use uuid::Uuid;
use waybill_core::{
    ids::{RouteId, TenantId},
    route::{Route, RouteSpec},
};

/// How often an edit is tried again that met another edit of the same route.
const MAX_TRIES: usize = 4;

impl Store {
    /// Stores a route or its next version, which takes effect at once; returns the version, from 1.
    ///
    /// # Errors
    /// [`StoreError::OtherTenant`] when the id is another tenant's route.
    pub async fn put_route(
        &self,
        tenant: TenantId,
        id: RouteId,
        event_type: &str,
        spec: &RouteSpec,
    ) -> Result<i32, StoreError> {
        let mut tries = 1;
        loop {
            match self.put_route_once(tenant, id, event_type, spec).await {
                Ok(version) => return version.ok_or(StoreError::OtherTenant { what: "route" }),
                Err(error) if StoreError::unique_violation(&error).is_none() => return Err(error.into()),
                Err(source) if tries == MAX_TRIES => return Err(StoreError::Conflict { source }),
                // Another edit of this route committed first; ours becomes the version after it.
                Err(_) => tries += 1,
            }
        }
    }

    async fn put_route_once(
        &self,
        tenant: TenantId,
        id: RouteId,
        event_type: &str,
        spec: &RouteSpec,
    ) -> Result<Option<i32>, sqlx::Error> {
        sqlx::query_scalar!(
            r#"
            WITH old AS (
                UPDATE routes SET active = false WHERE id = $1 AND tenant_id = $2 AND active RETURNING version
            ), last AS (
                -- Reading `old` here makes the update happen before the insert: only one version may be active at any moment.
                SELECT greatest((SELECT max(version) FROM old), (SELECT max(version) FROM routes WHERE id = $1), 0) AS version
            )
            INSERT INTO routes (id, version, tenant_id, event_type, spec)
            SELECT $1, last.version + 1, $2, $3, $4 FROM last
            WHERE NOT EXISTS (SELECT 1 FROM routes WHERE id = $1 AND tenant_id <> $2)
            RETURNING version
            "#,
            id.uuid(),
            tenant.uuid(),
            event_type,
            Json(spec) as Json<&RouteSpec>
        )
        .fetch_optional(self.db())
        .await
    }

    /// Takes a route out of use; deliveries that it decided go on. `false` when the tenant has no active route of that id.
    pub async fn deactivate_route(&self, tenant: TenantId, id: RouteId) -> Result<bool, StoreError> {
        let done = sqlx::query!(
            "UPDATE routes SET active = false WHERE id = $1 AND tenant_id = $2 AND active",
            id.uuid(),
            tenant.uuid()
        )
        .execute(self.db())
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// The active routes of a tenant, by event type.
    pub async fn list_routes(&self, tenant: TenantId) -> Result<Vec<Route>, StoreError> {
        let rows = sqlx::query!(
            r#"
            SELECT id, version, event_type, spec AS "spec: Json<RouteSpec>" FROM routes
            WHERE tenant_id = $1 AND active ORDER BY event_type, id
            "#,
            tenant.uuid()
        )
        .fetch_all(self.db())
        .await?;
        let route = rows.into_iter().map(|r| Route {
            id: r.id.into(),
            version: r.version,
            event_type: r.event_type,
            spec: r.spec.0,
        });
        Ok(route.collect())
    }

    /// The active routes of several (tenant, event type) pairs.
    pub async fn find_routes(&self, wanted: &[(TenantId, String)]) -> Result<Vec<(TenantId, Route)>, StoreError> {
        let tenants: Vec<Uuid> = wanted.iter().map(|w| w.0.uuid()).collect();
        let types: Vec<&str> = wanted.iter().map(|w| w.1.as_str()).collect();
        let rows = sqlx::query!(
            r#"
            SELECT r.tenant_id, r.id, r.version, r.event_type, r.spec AS "spec: Json<RouteSpec>"
            FROM (SELECT DISTINCT * FROM unnest($1::uuid[], $2::text[]) AS w (tenant_id, event_type)) w
            JOIN routes r ON r.tenant_id = w.tenant_id AND r.event_type = w.event_type AND r.active
            ORDER BY r.tenant_id, r.event_type, r.id
            "#,
            &tenants,
            &types as &[&str]
        )
        .fetch_all(self.db())
        .await?;
        let found = rows.into_iter().map(|r| {
            let route = Route { id: r.id.into(), version: r.version, event_type: r.event_type, spec: r.spec.0 };
            (r.tenant_id.into(), route)
        });
        Ok(found.collect())
    }
}

#[cfg(test)]
mod tests;
