//! Alerts, one row per cause and key: a hundred rows with one cause ring once and are counted.

use crate::{Store, StoreError, convert::seconds};
use std::time::Duration;
use waybill_core::{ports::AlertCause, text::storable};

/// What [`Store::note_alert`] answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlertState {
    /// Of this cause and key, ever.
    pub count: u64,
    /// Whether the caller has to tell people now.
    pub notify: bool,
}

impl Store {
    /// Counts `n` more of an alert. Of all callers within `quiet` one is told to notify.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn note_alert(
        &self,
        cause: AlertCause,
        key: &str,
        n: u64,
        quiet: Duration,
    ) -> Result<AlertState, StoreError> {
        let row = sqlx::query!(
            r#"
            INSERT INTO alerts AS a (cause, key, count, last_notified_at) VALUES ($1, $2, $3, now())
            ON CONFLICT (cause, key) DO UPDATE
            SET count = a.count + EXCLUDED.count, last_at = now(),
                last_notified_at = CASE WHEN a.last_notified_at > now() - $4::float8 * interval '1 second'
                                        THEN a.last_notified_at ELSE now() END
            RETURNING count, last_notified_at = now() AS "notify!"
            "#,
            cause.as_str(),
            storable(key, 200),
            i64::try_from(n).unwrap_or(i64::MAX),
            seconds(quiet)
        )
        .fetch_one(self.db())
        .await?;
        Ok(AlertState { count: u64::try_from(row.count).unwrap_or_default(), notify: row.notify })
    }
}
