use crate::{
    Store, StoreError,
    store::{secs, span},
};
use std::time::Duration;

/// How many rows are in a state.
#[derive(Debug, Clone, PartialEq)]
pub struct StateCount {
    /// The word in the row.
    pub state: String,
    pub count: i64,
    /// Age of the oldest: since its last change for deliveries and documents, since its acceptance for jobs.
    pub oldest_age: Duration,
}

struct Row {
    state: String,
    count: i64,
    oldest_age: f64,
}

impl From<Row> for StateCount {
    fn from(row: Row) -> Self {
        Self { state: row.state, count: row.count, oldest_age: span(row.oldest_age) }
    }
}

fn counts(rows: Vec<Row>) -> Vec<StateCount> {
    rows.into_iter().map(Into::into).collect()
}

impl Store {
    /// All deliveries by state. Reads the whole table: for people, not for a gauge; that is [`Store::open_delivery_counts`].
    pub async fn delivery_state_counts(&self) -> Result<Vec<StateCount>, StoreError> {
        let rows = sqlx::query_as!(
            Row,
            r#"
            SELECT state, count(*) AS "count!", extract(epoch FROM now() - min(updated_at))::float8 AS "oldest_age!"
            FROM deliveries GROUP BY state ORDER BY state
            "#
        )
        .fetch_all(self.db())
        .await?;
        Ok(counts(rows))
    }

    /// The deliveries that are not final, by state.
    pub async fn open_delivery_counts(&self) -> Result<Vec<StateCount>, StoreError> {
        let rows = sqlx::query_as!(
            Row,
            r#"
            SELECT state, count(*) AS "count!", extract(epoch FROM now() - min(updated_at))::float8 AS "oldest_age!"
            FROM deliveries WHERE due_at IS NOT NULL GROUP BY state ORDER BY state
            "#
        )
        .fetch_all(self.db())
        .await?;
        Ok(counts(rows))
    }

    /// Deliveries, jobs (as `job PENDING`) and documents (as `document RENDERING`) that were due longer ago than `overdue` and that
    /// nobody has picked up: the scheduler is down, or something is stuck. Raise an alert.
    pub async fn stuck_counts(&self, overdue: Duration) -> Result<Vec<StateCount>, StoreError> {
        let rows = sqlx::query_as!(
            Row,
            r#"
            WITH late AS (
                SELECT state, due_at FROM deliveries WHERE due_at < now() - make_interval(secs => $1)
                UNION ALL SELECT 'job ' || state, due_at FROM jobs WHERE due_at < now() - make_interval(secs => $1)
                UNION ALL SELECT 'document ' || state, due_at FROM documents WHERE due_at < now() - make_interval(secs => $1)
            )
            SELECT state AS "state!", count(*) AS "count!", extract(epoch FROM now() - min(due_at))::float8 AS "oldest_age!"
            FROM late GROUP BY state ORDER BY state
            "#,
            secs(overdue)
        )
        .fetch_all(self.db())
        .await?;
        Ok(counts(rows))
    }

    /// The documents that are not final, by state.
    pub async fn open_document_counts(&self) -> Result<Vec<StateCount>, StoreError> {
        let rows = sqlx::query_as!(
            Row,
            r#"
            SELECT state, count(*) AS "count!", extract(epoch FROM now() - min(updated_at))::float8 AS "oldest_age!"
            FROM documents WHERE due_at IS NOT NULL GROUP BY state ORDER BY state
            "#
        )
        .fetch_all(self.db())
        .await?;
        Ok(counts(rows))
    }

    /// The jobs that wait for a router.
    pub async fn pending_job_count(&self) -> Result<StateCount, StoreError> {
        let row = sqlx::query_as!(
            Row,
            r#"
            SELECT 'PENDING' AS "state!", count(*) AS "count!",
                coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 AS "oldest_age!"
            FROM jobs WHERE due_at IS NOT NULL
            "#
        )
        .fetch_one(self.db())
        .await?;
        Ok(row.into())
    }
}
