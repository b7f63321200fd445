//! Jobs whose main-queue message was not yet confirmed. Rows are claimed by their state and never by a cursor over ids, so that a row
//! whose transaction commits late is not skipped.

use crate::{
    Store, StoreError,
    store::{secs, span},
};
use std::time::Duration;
use waybill_core::ids::{JobId, TenantId};

/// A job that the relay has to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxRow {
    pub job: JobId,
    pub tenant: TenantId,
    /// This one included.
    pub attempts: i32,
    /// Since the job was accepted.
    pub age: Duration,
}

impl Store {
    /// Forgets jobs whose message the queue has confirmed.
    pub async fn delete_published(&self, jobs: &[JobId]) -> Result<(), StoreError> {
        if jobs.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = jobs.iter().map(|j| j.uuid()).collect();
        sqlx::query!("DELETE FROM outbox WHERE job_id = ANY($1)", &ids).execute(self.db()).await?;
        Ok(())
    }

    /// Takes up to `limit` rows that are due. They come back after `next` unless they are deleted first; a relay that dies loses nothing,
    /// and two relays take different rows.
    pub async fn claim_outbox(&self, limit: i64, next: Duration) -> Result<Vec<OutboxRow>, StoreError> {
        let rows = sqlx::query!(
            r#"
            WITH due AS MATERIALIZED (
                SELECT job_id FROM outbox WHERE publish_after <= now() ORDER BY publish_after LIMIT $1 FOR UPDATE SKIP LOCKED
            )
            UPDATE outbox o SET publish_after = now() + make_interval(secs => $2), attempts = attempts + 1
            FROM due WHERE o.job_id = due.job_id
            RETURNING o.job_id, o.tenant_id, o.attempts, extract(epoch FROM now() - o.created_at)::float8 AS "age!"
            "#,
            limit,
            secs(next)
        )
        .fetch_all(self.db())
        .await?;
        let row = rows.into_iter().map(|r| OutboxRow {
            job: r.job_id.into(),
            tenant: r.tenant_id.into(),
            attempts: r.attempts,
            age: span(r.age),
        });
        Ok(row.collect())
    }

    /// Age of the oldest row; `None` when everything was published. Ids are ordered by time, so the first one is the oldest.
    pub async fn outbox_lag(&self) -> Result<Option<Duration>, StoreError> {
        let age = sqlx::query_scalar!(
            r#"SELECT extract(epoch FROM now() - created_at)::float8 AS "age!" FROM outbox ORDER BY job_id LIMIT 1"#
        )
        .fetch_optional(self.db())
        .await?;
        Ok(age.map(span))
    }

    pub async fn outbox_count(&self) -> Result<i64, StoreError> {
        Ok(sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM outbox"#).fetch_one(self.db()).await?)
    }
}

#[cfg(test)]
mod tests;
