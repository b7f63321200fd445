//! What providers tell us about our mails, in any order and more than once.
//!
//! Events are kept first and take effect afterwards, from all that is kept about a delivery: complaint > permanent bounce > delivered >
//! sent. So every order of arrival ends in the same state. An event that comes before its attempt's own result stays unsettled until
//! that is recorded; [`Store::settle_feedback`] finds it.

use crate::{Store, StoreError, convert::uuids, store::detail};
use chrono::{DateTime, Utc};
use std::collections::BTreeSet;
use uuid::Uuid;
use waybill_core::{ids::DeliveryId, ports::FeedbackEvent};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeedbackSummary {
    /// Events that were not known before.
    pub new: usize,
    /// Those of them that belong to a delivery of ours. The others are kept, too.
    pub matched: usize,
    /// Deliveries that we believed not to be sent, and that are SENT (or further) by these events.
    pub settled: Vec<DeliveryId>,
    /// Deliveries that moved to DELIVERED, BOUNCED or COMPLAINED.
    pub moved: Vec<DeliveryId>,
}

impl Store {
    /// Keeps events and lets them take effect.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer. Repeating the call is safe; what was kept but not settled is found by
    /// [`Store::settle_feedback`] as well.
    pub async fn record_feedback(&self, events: &[FeedbackEvent]) -> Result<FeedbackSummary, StoreError> {
        let providers: Vec<String> = events.iter().map(|e| e.provider.into()).collect();
        let ids: Vec<String> = events.iter().map(|e| detail(&e.event_id)).collect();
        let deliveries: Vec<Option<Uuid>> = events.iter().map(|e| e.delivery.map(|d| d.0)).collect();
        let attempts: Vec<Option<Uuid>> = events.iter().map(|e| e.attempt.map(|a| a.0)).collect();
        let messages: Vec<Option<String>> =
            events.iter().map(|e| e.provider_message_id.as_deref().map(detail)).collect();
        let kinds: Vec<String> = events.iter().map(|e| e.kind.as_str().into()).collect();
        let details: Vec<String> = events.iter().map(|e| detail(&e.detail)).collect();
        let times: Vec<Option<DateTime<Utc>>> = events.iter().map(|e| e.at).collect();
        let kept = sqlx::query!(
            r#"
            WITH input AS (
                SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[],
                                     $8::timestamptz[])
                    AS i(provider, event, delivery, attempt, message, kind, detail, at)
            ),
            -- In the key's order, so that two receivers of the same events never wait for each other in a circle. Events that can have no
            -- effect (dropped, other, about nothing of ours) are settled from the start.
            kept AS (
                INSERT INTO provider_events (provider, event_id, delivery_id, attempt_id, provider_message_id, kind, detail, event_time,
                                             settled_at)
                SELECT i.provider, i.event, coalesce(i.delivery, a.delivery_id), i.attempt, i.message, i.kind, i.detail, i.at,
                       CASE WHEN i.kind IN ('dropped', 'other') OR d.id IS NULL THEN now() END
                FROM input i
                LEFT JOIN attempts a ON a.id = i.attempt
                LEFT JOIN deliveries d ON d.id = coalesce(i.delivery, a.delivery_id)
                ORDER BY i.provider, i.event
                ON CONFLICT (provider, event_id) DO NOTHING
                RETURNING delivery_id
            )
            SELECT kept.delivery_id, d.id AS "known?" FROM kept LEFT JOIN deliveries d ON d.id = kept.delivery_id
            "#,
            &providers,
            &ids,
            &deliveries as &[Option<Uuid>],
            &attempts as &[Option<Uuid>],
            &messages as &[Option<String>],
            &kinds,
            &details,
            &times as &[Option<DateTime<Utc>>]
        )
        .fetch_all(self.db())
        .await?;
        let new = kept.len();
        let matched = kept.iter().filter(|e| e.known.is_some()).count();
        let about: BTreeSet<DeliveryId> = kept.into_iter().filter_map(|e| e.known.map(DeliveryId)).collect();
        let about: Vec<DeliveryId> = about.into_iter().collect();
        let (settled, moved) = self.settle(&about).await?;
        Ok(FeedbackSummary { new, matched, settled, moved })
    }

    /// Lets kept events take effect that could not when they came, because their attempt had no result yet. For the sweeper.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn settle_feedback(&self, limit: i64) -> Result<FeedbackSummary, StoreError> {
        let about = sqlx::query_scalar!(
            r#"
            SELECT e.delivery_id AS "delivery!"
            FROM provider_events e JOIN deliveries d ON d.id = e.delivery_id
            WHERE e.settled_at IS NULL AND d.state <> 'SENDING'
            ORDER BY e.received_at
            LIMIT $1
            "#,
            limit
        )
        .fetch_all(self.db())
        .await?;
        let matched = about.len();
        let about: BTreeSet<DeliveryId> = about.into_iter().map(DeliveryId).collect();
        let about: Vec<DeliveryId> = about.into_iter().collect();
        let (settled, moved) = self.settle(&about).await?;
        Ok(FeedbackSummary { new: 0, matched, settled, moved })
    }

    async fn settle(&self, about: &[DeliveryId]) -> Result<(Vec<DeliveryId>, Vec<DeliveryId>), StoreError> {
        if about.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let settled = self.settle_unknown_by_events(about).await?;
        Ok((settled, self.move_by_events(about).await?))
    }

    /// SENT -> DELIVERED | BOUNCED | COMPLAINED, upwards only. One statement.
    async fn move_by_events(&self, about: &[DeliveryId]) -> Result<Vec<DeliveryId>, StoreError> {
        let moved = sqlx::query_scalar!(
            r#"
            WITH rank (kind, state, reason, place) AS (
                VALUES ('accepted', 'SENT', NULL, 1), ('delivered', 'DELIVERED', NULL, 2),
                       ('bounced', 'BOUNCED', 'hard_bounce', 3), ('complained', 'COMPLAINED', 'complaint', 4)
            ),
            -- All of them are locked, whatever the snapshot says of their state: a result that is being recorded is waited for.
            d AS MATERIALIZED (
                SELECT id, state FROM deliveries WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE
            ),
            -- The highest that was ever told. Two receivers at once see at least their own events, and the later one sees the state that
            -- the earlier one left.
            told AS (
                SELECT DISTINCT ON (d.id) d.id, told.state, told.reason, e.detail
                FROM d
                JOIN provider_events e ON e.delivery_id = d.id
                JOIN rank told ON told.kind = e.kind
                JOIN rank now ON now.state = d.state
                WHERE told.place > now.place
                ORDER BY d.id, told.place DESC, e.received_at
            ),
            moved AS (
                UPDATE deliveries
                SET state = t.state, reason = t.reason, detail = nullif(t.detail, ''), due_at = NULL, dead_lettered_at = NULL,
                    version = deliveries.version + 1, updated_at = now()
                FROM told t WHERE deliveries.id = t.id
                RETURNING deliveries.id, deliveries.version, deliveries.state, deliveries.reason, deliveries.detail
            ),
            logged AS (
                INSERT INTO ledger (delivery_id, version, state, reason, detail)
                SELECT id, version, state, reason, detail FROM moved
            ),
            -- Nothing can change any more what these events do.
            done AS (
                UPDATE provider_events SET settled_at = now()
                FROM d
                WHERE provider_events.delivery_id = d.id AND settled_at IS NULL
                  AND d.state IN ('SENT', 'DELIVERED', 'BOUNCED', 'COMPLAINED', 'DUPLICATE', 'SUPPRESSED')
            )
            SELECT id FROM moved
            "#,
            &uuids(about)
        )
        .fetch_all(self.db())
        .await?;
        Ok(moved.into_iter().map(DeliveryId).collect())
    }
}
