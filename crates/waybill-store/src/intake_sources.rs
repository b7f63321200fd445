//! Which tenant an event on the intake queue belongs to: by the source that its envelope names. Closed by default.

use crate::{Store, StoreError};
use chrono::{DateTime, Utc};
use std::collections::HashMap;
use waybill_core::ids::TenantId;

/// Characters of a source (quota of EventBridge).
const MAX_SOURCE: usize = 256;

/// A source whose events are a tenant's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntakeSource {
    pub source: String,
    pub tenant: TenantId,
    pub created_at: DateTime<Utc>,
}

impl Store {
    /// From now on events of this source are the tenant's. Returns `false` when they were before.
    ///
    /// # Errors
    /// [`StoreError::OtherTenant`]: a source has one tenant, and it is not moved by accident; remove it there first.
    /// [`StoreError::BadCall`] for what can't be a source.
    pub async fn allow_intake_source(&self, tenant: TenantId, source: &str) -> Result<bool, StoreError> {
        if !is_source(source) {
            return Err(StoreError::BadCall { what: "a source of 1 to 256 characters without control characters" });
        }
        // The update changes nothing; it is what makes the row of another call visible here.
        let row = sqlx::query!(
            r#"
            INSERT INTO intake_sources AS known (source, tenant_id) VALUES ($1, $2)
            ON CONFLICT (source) DO UPDATE SET source = known.source
            RETURNING tenant_id, xmax = 0 AS "new!"
            "#,
            source,
            tenant.uuid()
        )
        .fetch_one(self.db())
        .await?;
        if row.tenant_id == tenant.uuid() { Ok(row.new) } else { Err(StoreError::OtherTenant { what: "source" }) }
    }

    /// Says whether the source was the tenant's.
    pub async fn remove_intake_source(&self, tenant: TenantId, source: &str) -> Result<bool, StoreError> {
        if !is_source(source) {
            return Ok(false);
        }
        let done =
            sqlx::query!("DELETE FROM intake_sources WHERE source = $1 AND tenant_id = $2", source, tenant.uuid())
                .execute(self.db())
                .await?;
        Ok(done.rows_affected() == 1)
    }

    /// The sources of one tenant, or of all, by name.
    pub async fn list_intake_sources(&self, tenant: Option<TenantId>) -> Result<Vec<IntakeSource>, StoreError> {
        let rows = sqlx::query!(
            "
            SELECT source, tenant_id, created_at FROM intake_sources
            WHERE $1::uuid IS NULL OR tenant_id = $1 ORDER BY source
            ",
            tenant.map(|tenant| tenant.uuid())
        )
        .fetch_all(self.db())
        .await?;
        let row = rows.into_iter().map(|r| IntakeSource {
            source: r.source,
            tenant: r.tenant_id.into(),
            created_at: r.created_at,
        });
        Ok(row.collect())
    }

    /// The tenants of these sources; one that nobody allowed is missing in the answer.
    pub async fn find_intake_tenants(&self, sources: &[&str]) -> Result<HashMap<String, TenantId>, StoreError> {
        // What can't be a source can't be asked for either (U+0000 would fail the statement for its neighbours).
        let sources: Vec<&str> = sources.iter().copied().filter(|source| is_source(source)).collect();
        if sources.is_empty() {
            return Ok(HashMap::new());
        }
        let rows =
            sqlx::query!("SELECT source, tenant_id FROM intake_sources WHERE source = ANY($1)", &sources as &[&str])
                .fetch_all(self.db())
                .await?;
        Ok(rows.into_iter().map(|r| (r.source, r.tenant_id.into())).collect())
    }
}

fn is_source(text: &str) -> bool {
    (1..=MAX_SOURCE).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;

    #[tokio::test]
    async fn a_source_has_one_tenant_and_what_nobody_allowed_has_none() {
        let (db, store) = open().await;
        let (ours, theirs) = (tenant(&store).await, tenant(&store).await);
        assert_eq!(store.find_intake_tenants(&["shop", "billing"]).await.unwrap(), HashMap::new());
        assert!(store.allow_intake_source(ours, "shop").await.unwrap());
        assert!(!store.allow_intake_source(ours, "shop").await.unwrap(), "again changes nothing");
        assert!(store.allow_intake_source(theirs, "billing").await.unwrap());
        let taken = store.allow_intake_source(theirs, "shop").await;
        assert!(matches!(taken, Err(StoreError::OtherTenant { .. })), "{taken:?}");

        let found = store.find_intake_tenants(&["shop", "Shop", "a\0b", "", "billing"]).await.unwrap();
        assert_eq!(found, HashMap::from([("shop".into(), ours), ("billing".into(), theirs)]));
        let names = |found: Vec<IntakeSource>| found.into_iter().map(|s| (s.source, s.tenant)).collect::<Vec<_>>();
        assert_eq!(names(store.list_intake_sources(Some(ours)).await.unwrap()), [("shop".into(), ours)]);
        let all = names(store.list_intake_sources(None).await.unwrap());
        assert_eq!(all, [("billing".into(), theirs), ("shop".into(), ours)]);

        assert!(!store.remove_intake_source(theirs, "shop").await.unwrap(), "another tenant's");
        assert!(store.remove_intake_source(ours, "shop").await.unwrap());
        assert!(!store.remove_intake_source(ours, "shop").await.unwrap());
        assert!(store.allow_intake_source(theirs, "shop").await.unwrap(), "free again");
        db.close().await;
    }

    #[tokio::test]
    async fn what_can_t_be_a_source_is_refused() {
        let (db, store) = open().await;
        let tenant = tenant(&store).await;
        assert!(store.allow_intake_source(tenant, &"x".repeat(256)).await.unwrap());
        for bad in ["", "a\0b", "a\nb", &"x".repeat(257)] {
            let refused = store.allow_intake_source(tenant, bad).await;
            assert!(matches!(refused, Err(StoreError::BadCall { .. })), "{bad:?}: {refused:?}");
            assert!(!store.remove_intake_source(tenant, bad).await.unwrap());
        }
        db.close().await;
    }
}
