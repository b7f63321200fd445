//! What has to hold after every scenario, whatever happened in it.

use crate::world::World;
use sqlx::Row;
use std::collections::HashMap;
use uuid::Uuid;
use waybill_core::state::DeliveryState;

/// Rows that contradict the protocol, as texts.
const CONTRADICTIONS: &str = "
    SELECT 'an open delivery without due_at: ' || id FROM deliveries
    WHERE (state IN ('PENDING', 'WAITING_DOCUMENT', 'SENDING', 'RETRYING', 'UNKNOWN')) <> (due_at IS NOT NULL)
    UNION ALL
    SELECT 'the ledger has a gap or lags: ' || d.id FROM deliveries d
    LEFT JOIN LATERAL (SELECT count(*) AS n, min(version) AS low, max(version) AS high FROM ledger WHERE delivery_id = d.id) l ON true
    WHERE (l.n, l.low, l.high) IS DISTINCT FROM (d.version::bigint, 1, d.version)
    UNION ALL
    SELECT 'the ledger ends with another state: ' || d.id FROM deliveries d
    JOIN ledger l ON l.delivery_id = d.id AND l.version = d.version WHERE l.state <> d.state
    UNION ALL
    SELECT 'a claimed identity whose delivery is not SENDING: ' || d.id || ' ' || d.state FROM sends s
    JOIN deliveries d ON d.id = s.delivery_id WHERE s.state = 'claimed' AND d.state <> 'SENDING'
    UNION ALL
    SELECT 'an unknown identity whose delivery is not UNKNOWN: ' || d.id || ' ' || d.state FROM sends s
    JOIN deliveries d ON d.id = s.delivery_id WHERE s.state = 'unknown' AND d.state <> 'UNKNOWN'
    UNION ALL
    SELECT 'a sent identity whose delivery was not accepted: ' || d.id || ' ' || d.state FROM sends s
    JOIN deliveries d ON d.id = s.delivery_id
    WHERE s.state = 'sent' AND d.state NOT IN ('SENT', 'DELIVERED', 'BOUNCED', 'COMPLAINED')
    UNION ALL
    SELECT 'an accepted delivery whose identity is not sent: ' || d.id FROM deliveries d
    LEFT JOIN sends s ON s.tenant_id = d.tenant_id AND s.identity = d.identity
    WHERE d.state IN ('SENT', 'DELIVERED', 'BOUNCED', 'COMPLAINED') AND s.state IS DISTINCT FROM 'sent'
    UNION ALL
    SELECT 'half a lease: ' || delivery_id FROM sends
    WHERE (state = 'claimed') <> (claim_token IS NOT NULL) OR (state = 'claimed') <> (claim_expires_at IS NOT NULL)
       OR (state = 'claimed') <> (attempt_id IS NOT NULL)
    UNION ALL
    SELECT 'a claim without its open attempt: ' || s.delivery_id FROM sends s
    LEFT JOIN attempts a ON a.id = s.attempt_id AND a.ended_at IS NULL AND a.delivery_id = s.delivery_id
    WHERE s.state = 'claimed' AND a.id IS NULL
    UNION ALL
    SELECT 'an open attempt of a delivery that nobody is sending: ' || d.id || ' ' || d.state FROM attempts a
    JOIN deliveries d ON d.id = a.delivery_id WHERE a.ended_at IS NULL AND d.state <> 'SENDING'
    UNION ALL
    SELECT 'held, but not UNKNOWN: ' || id FROM deliveries WHERE held AND state <> 'UNKNOWN'
    UNION ALL
    SELECT 'a FAILED delivery without a reason: ' || id FROM deliveries WHERE state = 'FAILED' AND reason IS NULL";

/// Deliveries of one identity of which more than one was accepted: a real duplicate.
const DUPLICATES: &str = "
    SELECT 'an identity was accepted twice: ' || encode(identity, 'hex') FROM deliveries
    WHERE state IN ('SENT', 'DELIVERED', 'BOUNCED', 'COMPLAINED') GROUP BY tenant_id, identity HAVING count(*) > 1";

impl World {
    pub(crate) async fn check(&self) {
        self.check_but_for_duplicates().await;
        let duplicates: Vec<String> = sqlx::query_scalar(DUPLICATES).fetch_all(&self.db.pool).await.unwrap();
        assert!(duplicates.is_empty(), "{duplicates:#?}");
    }

    /// For scenarios in which a provider really accepted twice.
    pub(crate) async fn check_but_for_duplicates(&self) {
        let found: Vec<String> = sqlx::query_scalar(CONTRADICTIONS).fetch_all(&self.db.pool).await.unwrap();
        assert!(found.is_empty(), "{found:#?}");
        self.check_moves().await;
    }

    /// Every move in the ledger is legal by the one function that knows.
    async fn check_moves(&self) {
        let rows = sqlx::query("SELECT delivery_id, state FROM ledger ORDER BY delivery_id, version")
            .fetch_all(&self.db.pool)
            .await
            .unwrap();
        let mut before: HashMap<Uuid, DeliveryState> = HashMap::new();
        for row in rows {
            let state = DeliveryState::parse(row.get("state")).unwrap();
            if let Some(from) = before.insert(row.get("delivery_id"), state) {
                assert!(from.may_become(state), "{from} -> {state}");
            }
        }
    }
}
