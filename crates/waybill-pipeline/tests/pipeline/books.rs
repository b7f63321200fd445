//! What the rows say, and what has to hold after every scenario.

use crate::world::World;
use sqlx::Row;
use std::collections::{BTreeMap, HashMap};
use uuid::Uuid;
use waybill_core::{
    ids::{DeliveryId, JobId},
    state::{DeliveryState, Reason},
};

/// A delivery's row.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) state: DeliveryState,
    pub(crate) reason: Option<Reason>,
    pub(crate) detail: String,
    pub(crate) attempts: i32,
    pub(crate) crashes: i32,
    pub(crate) position: i32,
    pub(crate) held: bool,
    /// Seconds.
    pub(crate) due_in: Option<f64>,
    /// Seconds.
    pub(crate) not_before_in: Option<f64>,
    pub(crate) other: Option<DeliveryId>,
    pub(crate) dead: bool,
    pub(crate) provider: Option<String>,
}

/// Rows that contradict the protocol, as texts.
const CONTRADICTIONS: &str = "
    SELECT 'an open delivery without due_at: ' || id FROM deliveries
    WHERE (state IN ('PENDING', 'WAITING_DOCUMENT', 'SENDING', 'RETRYING', 'UNKNOWN')) <> (due_at IS NOT NULL)
    UNION ALL
    SELECT 'an open job without due_at: ' || id FROM jobs WHERE (state = 'PENDING') <> (due_at IS NOT NULL)
    UNION ALL
    SELECT 'an open document without due_at: ' || id FROM documents WHERE (state IN ('PENDING', 'RENDERING')) <> (due_at IS NOT NULL)
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
    SELECT 'an open attempt of a delivery that nobody is sending: ' || d.id || ' ' || d.state FROM attempts a
    JOIN deliveries d ON d.id = a.delivery_id WHERE a.ended_at IS NULL AND d.state <> 'SENDING'
    UNION ALL
    SELECT 'held, but not UNKNOWN: ' || id FROM deliveries WHERE held AND state <> 'UNKNOWN'
    UNION ALL
    SELECT 'a FAILED delivery without a reason: ' || id FROM deliveries WHERE state = 'FAILED' AND reason IS NULL";

impl World {
    /// The rows agree with each other and with what the providers saw, and nobody got a mail twice.
    pub(crate) async fn check(&self) {
        self.check_rows().await;
        let mut mails: BTreeMap<Vec<u8>, (usize, bool)> = BTreeMap::new();
        for mail in self.accepted() {
            let row = sqlx::query("SELECT identity, state FROM deliveries WHERE id = $1")
                .bind(mail.0)
                .fetch_one(&self.db.pool)
                .await
                .unwrap();
            let entry = mails.entry(row.get("identity")).or_default();
            entry.0 += 1;
            entry.1 |= DeliveryState::parse(row.get("state")).unwrap().is_accepted();
        }
        assert!(mails.values().all(|(count, known)| *count == 1 && *known), "acceptances per identity: {mails:?}");
    }

    /// For scenarios in which a provider really accepted twice, or accepted what we can't know of.
    pub(crate) async fn check_rows(&self) {
        let found: Vec<String> = sqlx::query_scalar(CONTRADICTIONS).fetch_all(&self.db.pool).await.unwrap();
        assert!(found.is_empty(), "{found:#?}");
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

    /// The deliveries whose mails a provider accepted, one entry per acceptance.
    pub(crate) fn accepted(&self) -> Vec<DeliveryId> {
        self.ses.accepted().into_iter().chain(self.sendgrid.accepted()).map(|mail| mail.delivery).collect()
    }

    /// Calls of both providers.
    pub(crate) fn calls(&self) -> (usize, usize) {
        (self.ses.calls().len(), self.sendgrid.calls().len())
    }

    pub(crate) async fn see(&self, delivery: DeliveryId) -> Seen {
        let r = sqlx::query(
            "SELECT *, extract(epoch FROM due_at - now())::float8 AS due_in,
                    extract(epoch FROM not_before - now())::float8 AS not_before_in, dead_lettered_at IS NOT NULL AS dead
             FROM deliveries WHERE id = $1",
        )
        .bind(delivery.0)
        .fetch_one(&self.db.pool)
        .await
        .unwrap();
        Seen {
            state: DeliveryState::parse(r.get("state")).unwrap(),
            reason: r.get::<Option<&str>, _>("reason").map(|s| Reason::parse(s).unwrap()),
            detail: r.get::<Option<String>, _>("detail").unwrap_or_default(),
            attempts: r.get("attempts"),
            crashes: r.get("crashes"),
            position: r.get("provider_position"),
            held: r.get("held"),
            due_in: r.get("due_in"),
            not_before_in: r.get("not_before_in"),
            other: r.get::<Option<Uuid>, _>("other_id").map(DeliveryId),
            dead: r.get("dead"),
            provider: r.get("provider"),
        }
    }

    pub(crate) async fn state(&self, delivery: DeliveryId) -> DeliveryState {
        self.see(delivery).await.state
    }

    pub(crate) async fn until_state(&self, delivery: DeliveryId, state: DeliveryState) {
        self.until(state.as_str(), async || self.state(delivery).await == state).await;
    }

    pub(crate) async fn deliveries(&self, job: JobId) -> Vec<DeliveryId> {
        let ids: Vec<Uuid> = sqlx::query_scalar("SELECT id FROM deliveries WHERE job_id = $1 ORDER BY id")
            .bind(job.0)
            .fetch_all(&self.db.pool)
            .await
            .unwrap();
        ids.into_iter().map(DeliveryId).collect()
    }

    /// The stored status and reason of a job.
    pub(crate) async fn job(&self, job: JobId) -> (String, Option<String>) {
        sqlx::query_as("SELECT state, reason FROM jobs WHERE id = $1")
            .bind(job.0)
            .fetch_one(&self.db.pool)
            .await
            .unwrap()
    }

    pub(crate) async fn number(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(&self.db.pool).await.unwrap()
    }

    /// Runs a statement of the test's own; all its parameters are ids. Returns the number of rows.
    pub(crate) async fn sql(&self, statement: &'static str, ids: &[Uuid]) -> u64 {
        let mut query = sqlx::query(statement);
        for id in ids {
            query = query.bind(*id);
        }
        query.execute(&self.db.pool).await.unwrap().rows_affected()
    }

    /// Lets a delivery's time come.
    pub(crate) async fn let_due(&self, delivery: DeliveryId) {
        let rows = self
            .sql(
                "UPDATE deliveries SET due_at = now() - interval '1 hour', not_before = least(not_before, now() - interval '1 hour')
                 WHERE id = $1 AND due_at IS NOT NULL",
                &[delivery.0],
            )
            .await;
        assert_eq!(rows, 1, "an open delivery");
    }

    /// Lets a claim's time be over.
    pub(crate) async fn let_claim_end(&self, delivery: DeliveryId) {
        let rows = self
            .sql(
                "UPDATE sends SET claim_expires_at = now() - interval '1 hour' WHERE delivery_id = $1 AND state = 'claimed'",
                &[delivery.0],
            )
            .await;
        assert_eq!(rows, 1, "a claimed delivery");
        self.let_due(delivery).await;
    }

    /// A worker claimed this delivery and died: nobody will ever record a result.
    pub(crate) async fn crash(&self, delivery: DeliveryId) {
        self.claim(delivery).await;
        self.let_claim_end(delivery).await;
    }

    /// A claim that nobody will ever end.
    pub(crate) async fn claim(&self, delivery: DeliveryId) {
        let request = waybill_store::ClaimRequest {
            delivery,
            token: Uuid::new_v4(),
            attempt: waybill_core::ids::AttemptId(Uuid::now_v7()),
        };
        let claims = self.store.claim(&[request], std::time::Duration::from_secs(60)).await.unwrap();
        assert!(matches!(claims[..], [(_, waybill_store::Claim::Granted { .. })]), "{claims:?}");
    }

    /// Entries of the delivery dead-letter queue.
    pub(crate) fn dead_entries(&self) -> usize {
        self.queue.peek(waybill_core::ports::QueueName::DeliveryDead).len()
    }
}
