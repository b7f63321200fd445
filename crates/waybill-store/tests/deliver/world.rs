//! A database with one tenant, and what tests ask of it.

use sqlx::Row;
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use uuid::Uuid;
use waybill_core::{
    identity::Identity,
    ids::{AttemptId, DeliveryId, DocumentId, JobId, RouteId, TenantId},
    state::{DeliveryState, Reason},
};
use waybill_store::{AttemptResult, Claim, ClaimRequest, Recorded, Store};
use waybill_testkit::db::TestDb;

pub(crate) const TTL: Duration = Duration::from_secs(60);
pub(crate) const WINDOW: Duration = Duration::from_secs(15);

pub(crate) struct World {
    pub(crate) db: TestDb,
    pub(crate) store: Store,
    pub(crate) tenant: TenantId,
    pub(crate) route: RouteId,
    count: AtomicU64,
}

/// A delivery's row.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) state: DeliveryState,
    pub(crate) version: i32,
    pub(crate) reason: Option<Reason>,
    pub(crate) detail: Option<String>,
    pub(crate) attempts: i32,
    pub(crate) crashes: i32,
    pub(crate) position: i32,
    pub(crate) held: bool,
    pub(crate) due_in: Option<f64>,
    pub(crate) other: Option<Uuid>,
    pub(crate) dead: bool,
    pub(crate) provider_message_id: Option<String>,
}

impl World {
    pub(crate) async fn new() -> World {
        Self::with_connections(8).await
    }

    pub(crate) async fn with_connections(max: u32) -> World {
        let db = TestDb::with_connections(max).await;
        let world = World {
            store: Store::from_pool(db.pool.clone()),
            db,
            tenant: TenantId(Uuid::now_v7()),
            route: RouteId(Uuid::now_v7()),
            count: AtomicU64::new(1),
        };
        world.sql("INSERT INTO tenants (id, name) VALUES ($1, 'acme')", &[world.tenant.0]).await;
        world
            .sql(
                r#"INSERT INTO routes (id, version, tenant_id, event_type, spec) VALUES ($1, 1, $2, 'order.created',
                   '{"channel": "email", "on_unknown": "hold", "mail": {"from": "a@b.test", "subject": "s", "text": "t"}}')"#,
                &[world.route.0, world.tenant.0],
            )
            .await;
        world
    }

    /// Runs a statement of the test's own; all its parameters are ids. Returns the number of rows.
    pub(crate) async fn sql(&self, statement: &'static str, ids: &[Uuid]) -> u64 {
        let mut query = sqlx::query(statement);
        for id in ids {
            query = query.bind(*id);
        }
        query.execute(&self.db.pool).await.unwrap().rows_affected()
    }

    pub(crate) async fn number(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(&self.db.pool).await.unwrap()
    }

    pub(crate) fn fresh_identity(&self) -> Identity {
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(
            &self.count.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(),
        );
        Identity(bytes)
    }

    pub(crate) async fn job(&self) -> JobId {
        let id = Uuid::now_v7();
        self.sql(
            r#"INSERT INTO jobs (id, tenant_id, event_id, source, type, subject, revision, recipients, data, state, routed_at)
               VALUES ($1, $2, $1::text, '/orders', 'order.created', 'PO-1', '1', '[]', '{"total": 9007199254740993.10}',
                       'ROUTED', now())"#,
            &[id, self.tenant.0],
        )
        .await;
        JobId(id)
    }

    pub(crate) async fn document(&self, job: JobId) -> DocumentId {
        let id = Uuid::now_v7();
        self.sql(
            "INSERT INTO documents (id, tenant_id, document_type, subject, revision, template_version, job_id, object_key, due_at,
                                    deadline_at)
             VALUES ($1, $2, 'purchase_order', $1::text, '1', 1, $3, 'k/' || $1::text, now(), now() + interval '15 minutes')",
            &[id, self.tenant.0, job.0],
        )
        .await;
        DocumentId(id)
    }

    /// A PENDING delivery of a job of its own.
    pub(crate) async fn delivery(&self, identity: Identity) -> DeliveryId {
        let job = self.job().await;
        self.delivery_of(job, identity, "PENDING", None).await
    }

    pub(crate) async fn delivery_of(
        &self,
        job: JobId,
        identity: Identity,
        state: &str,
        document: Option<DocumentId>,
    ) -> DeliveryId {
        let id = Uuid::now_v7();
        sqlx::query(
            "WITH d AS (
                 INSERT INTO deliveries (id, tenant_id, job_id, route_id, route_version, channel, recipient, recipient_name,
                                         identity, document_id, state, due_at)
                 VALUES ($1, $2, $3, $4, 1, 'email', 'Ana@example.test', 'Ana', $5, $6, $7,
                         now() + interval '15 minutes')
             )
             INSERT INTO ledger (delivery_id, version, state) VALUES ($1, 1, $7)",
        )
        .bind(id)
        .bind(self.tenant.0)
        .bind(job.0)
        .bind(self.route.0)
        .bind(identity.0.as_slice())
        .bind(document.map(|d| d.0))
        .bind(state)
        .execute(&self.db.pool)
        .await
        .unwrap();
        DeliveryId(id)
    }

    pub(crate) async fn fresh(&self) -> (DeliveryId, Identity) {
        let identity = self.fresh_identity();
        (self.delivery(identity).await, identity)
    }

    pub(crate) async fn claim(&self, delivery: DeliveryId) -> (ClaimRequest, Claim) {
        let request = request(delivery);
        let mut answers = self.store.claim(&[request], TTL).await.unwrap();
        assert_eq!(answers.len(), 1);
        let (id, claim) = answers.remove(0);
        assert_eq!(id, delivery);
        (request, claim)
    }

    /// A claim that has to be granted.
    pub(crate) async fn granted(&self, delivery: DeliveryId) -> ClaimRequest {
        let (request, claim) = self.claim(delivery).await;
        assert!(matches!(claim, Claim::Granted { .. }), "{claim:?}");
        request
    }

    pub(crate) fn result(&self, claim: &ClaimRequest, identity: Identity, result: Recorded) -> AttemptResult {
        AttemptResult {
            delivery: claim.delivery,
            tenant: self.tenant,
            identity,
            token: claim.token,
            attempt: claim.attempt,
            calls: serde_json::json!([{"provider": "ses", "outcome": result_word(&result)}]),
            result,
        }
    }

    pub(crate) async fn record(&self, claim: &ClaimRequest, identity: Identity, result: Recorded) -> bool {
        let recorded = self.store.record_results(&[self.result(claim, identity, result)]).await.unwrap();
        recorded == [claim.delivery]
    }

    /// Gives one side of a race a small head start, and in the next round the other side.
    pub(crate) async fn start(&self, round: u64, side: u64) {
        if round % 2 == side {
            tokio::time::sleep(Duration::from_micros(round % 16 * 100)).await;
        }
    }

    /// Lets the claim's time be over.
    pub(crate) async fn let_claim_end(&self, delivery: DeliveryId) {
        self.sql(
            "UPDATE sends SET claim_expires_at = now() - interval '1 hour' WHERE delivery_id = $1 AND state = 'claimed'",
            &[delivery.0],
        )
        .await;
        self.let_due(delivery).await;
    }

    pub(crate) async fn let_due(&self, delivery: DeliveryId) {
        let rows =
            self.sql("UPDATE deliveries SET due_at = now() - interval '1 hour' WHERE id = $1", &[delivery.0]).await;
        assert_eq!(rows, 1);
    }

    pub(crate) async fn see(&self, delivery: DeliveryId) -> Seen {
        let r = sqlx::query(
            "SELECT *, extract(epoch FROM due_at - now())::float8 AS due_in, dead_lettered_at IS NOT NULL AS dead
             FROM deliveries WHERE id = $1",
        )
        .bind(delivery.0)
        .fetch_one(&self.db.pool)
        .await
        .unwrap();
        Seen {
            state: DeliveryState::parse(r.get("state")).unwrap(),
            version: r.get("version"),
            reason: r.get::<Option<&str>, _>("reason").map(|s| Reason::parse(s).unwrap()),
            detail: r.get("detail"),
            attempts: r.get("attempts"),
            crashes: r.get("crashes"),
            position: r.get("provider_position"),
            held: r.get("held"),
            due_in: r.get("due_in"),
            other: r.get("other_id"),
            dead: r.get("dead"),
            provider_message_id: r.get("provider_message_id"),
        }
    }

    pub(crate) async fn state(&self, delivery: DeliveryId) -> DeliveryState {
        self.see(delivery).await.state
    }

    /// State and holder of an identity.
    pub(crate) async fn send(&self, identity: Identity) -> Option<(String, DeliveryId)> {
        sqlx::query("SELECT state, delivery_id FROM sends WHERE tenant_id = $1 AND identity = $2")
            .bind(self.tenant.0)
            .bind(identity.0.as_slice())
            .fetch_optional(&self.db.pool)
            .await
            .unwrap()
            .map(|r| (r.get("state"), DeliveryId(r.get("delivery_id"))))
    }

    pub(crate) async fn attempt_outcome(&self, attempt: AttemptId) -> Option<String> {
        sqlx::query_scalar("SELECT outcome FROM attempts WHERE id = $1")
            .bind(attempt.0)
            .fetch_one(&self.db.pool)
            .await
            .unwrap()
    }
}

pub(crate) fn request(delivery: DeliveryId) -> ClaimRequest {
    ClaimRequest { delivery, token: Uuid::new_v4(), attempt: AttemptId(Uuid::now_v7()) }
}

pub(crate) fn sent(id: &str) -> Recorded {
    Recorded::Sent { provider: "ses".into(), provider_message_id: id.into() }
}

pub(crate) fn retry() -> Recorded {
    Recorded::Retry { delay: Duration::from_secs(30), attempts: 1, position: 0, detail: "429".into() }
}

pub(crate) fn unknown(hold: bool) -> Recorded {
    Recorded::Unknown { position: 1, window: WINDOW, hold, detail: "time-out".into() }
}

fn result_word(result: &Recorded) -> &'static str {
    match result {
        Recorded::Sent { .. } => "accepted",
        Recorded::Unknown { .. } => "unknown",
        Recorded::Retry { .. } | Recorded::Hold { .. } | Recorded::Failed { .. } => "unavailable",
    }
}
