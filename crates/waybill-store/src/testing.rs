//! Builders for this crate's own tests.
#![expect(clippy::disallowed_methods, reason = "tests take ids and times as they come")]

use crate::{AcceptOptions, Accepted, NewJob, RoutedJob, RoutingOptions, Store};
use std::time::Duration;
use uuid::Uuid;
use waybill_core::{
    address::Channel,
    identity::Identity,
    ids::{DeliveryId, DocumentId, JobId, RouteId, TenantId},
    mail::MailTemplate,
    route::{Plan, PlannedDelivery, PlannedDocument, RouteSpec},
    state::{DeliveryState, Reason},
};
use waybill_testkit::db::TestDb;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) async fn open() -> (TestDb, Store) {
    open_with(8).await
}

pub(crate) async fn open_with(connections: u32) -> (TestDb, Store) {
    let db = TestDb::with_connections(connections).await;
    let store = Store::from_pool(db.pool.clone());
    (db, store)
}

pub(crate) fn id() -> Uuid {
    Uuid::now_v7()
}

pub(crate) fn now() -> chrono::DateTime<chrono::Utc> {
    chrono::Utc::now()
}

pub(crate) fn hash() -> [u8; 32] {
    let mut out = [0; 32];
    out[..16].copy_from_slice(Uuid::new_v4().as_bytes());
    out[16..].copy_from_slice(Uuid::new_v4().as_bytes());
    out
}

pub(crate) async fn tenant(store: &Store) -> TenantId {
    let id = TenantId(id());
    assert!(store.create_tenant(id, &id.to_string(), None).await.unwrap());
    id
}

pub(crate) fn accept_options() -> AcceptOptions {
    AcceptOptions {
        outbox_grace: Duration::ZERO,
        requeue_after: HOUR,
        idempotency_ttl: HOUR,
        lock_timeout: Duration::from_secs(10),
    }
}

/// An event with one key of its own.
pub(crate) fn new_job(tenant: TenantId) -> NewJob {
    NewJob {
        id: JobId(id()),
        tenant,
        event_id: "e1".into(),
        source: "/orders".into(),
        event_type: "order.placed".into(),
        subject: Some("PO-1".into()),
        event_time: None,
        revision: "1".into(),
        revision_number: Some(1),
        revision_by_content: false,
        ordering_key: None,
        recipients: "[]".into(),
        data: r#"{"total":12345678901234567890.10}"#.into(),
        expires_at: None,
        trace: None,
        keys: vec![hash()],
        fingerprint: hash(),
    }
}

pub(crate) async fn accepted(store: &Store, tenant: TenantId) -> JobId {
    let job = new_job(tenant);
    assert_eq!(store.accept(std::slice::from_ref(&job), &accept_options()).await.unwrap(), [Accepted::New]);
    job.id
}

pub(crate) fn route_spec() -> RouteSpec {
    RouteSpec {
        channel: "email".into(),
        document: None,
        recipients: None,
        dedupe: true,
        on_unknown: None,
        mail: MailTemplate {
            from: "orders@shop.example".into(),
            from_name: "Shop".into(),
            subject: "Order {subject}".into(),
            text: "Hello".into(),
        },
    }
}

pub(crate) fn routing_options() -> RoutingOptions {
    RoutingOptions { requeue_after: HOUR, document_deadline: HOUR }
}

pub(crate) fn planned_document(subject: &str) -> PlannedDocument {
    PlannedDocument {
        document_type: "purchase_order".into(),
        subject: subject.into(),
        revision: "1".into(),
        template_version: 1,
    }
}

/// A decision: `recipients` deliveries, all with the document if there is one.
pub(crate) fn routed(tenant: TenantId, job: JobId, recipients: usize, document: Option<PlannedDocument>) -> RoutedJob {
    let deliveries = (0..recipients).map(|n| PlannedDelivery {
        route: RouteId(Uuid::nil()),
        route_version: 1,
        channel: Channel::Email,
        recipient: format!("R{n}@example.test"),
        recipient_name: format!("Person {n}"),
        recipient_key: format!("r{n}@example.test"),
        identity: Identity(hash()),
        lineage: Some(hash()),
        document: document.as_ref().map(|_| 0),
        failed: None,
    });
    let plan = Plan { deliveries: deliveries.collect(), documents: document.into_iter().collect(), nothing: None };
    RoutedJob {
        job,
        tenant,
        document_ids: plan.documents.iter().map(|_| DocumentId(id())).collect(),
        delivery_ids: plan.deliveries.iter().map(|_| DeliveryId(id())).collect(),
        plan,
    }
}

/// A routed job with so many PENDING deliveries.
pub(crate) async fn routed_job(store: &Store, tenant: TenantId, recipients: usize) -> RoutedJob {
    let job = routed(tenant, accepted(store, tenant).await, recipients, None);
    assert_eq!(store.record_routing(std::slice::from_ref(&job), &routing_options()).await.unwrap().jobs, [job.job]);
    job
}

/// Puts a delivery into a state by hand, as a legal row with its ledger entry.
pub(crate) async fn force(store: &Store, delivery: DeliveryId, state: DeliveryState) {
    let done = sqlx::query(
        "
        WITH moved AS (
            UPDATE deliveries SET state = $2, version = version + 1, due_at = CASE WHEN $3 THEN NULL ELSE now() + interval '1 hour' END
            WHERE id = $1 RETURNING id, version, state
        )
        INSERT INTO ledger (delivery_id, version, state) SELECT id, version, state FROM moved
        ",
    )
    .bind(delivery.uuid())
    .bind(state.as_str())
    .bind(state.is_final())
    .execute(store.pool())
    .await
    .unwrap();
    assert_eq!(done.rows_affected(), 1);
}

/// Makes a delivery a dead letter.
pub(crate) async fn kill(store: &Store, delivery: DeliveryId, reason: Reason) {
    force(store, delivery, DeliveryState::Failed).await;
    sqlx::query("UPDATE deliveries SET dead_lettered_at = now(), reason = $2, attempts = 3, crashes = 1 WHERE id = $1")
        .bind(delivery.uuid())
        .bind(reason.as_str())
        .execute(store.pool())
        .await
        .unwrap();
}

/// The delivery's state, after a look at its ledger: gap-free, and the last row is the delivery's own state and version.
pub(crate) async fn state(store: &Store, delivery: DeliveryId) -> DeliveryState {
    let ledger = store.list_ledger(&[delivery]).await.unwrap();
    let versions: Vec<u32> = ledger.iter().map(|e| e.version).collect();
    assert_eq!(versions, (1..=versions.len() as u32).collect::<Vec<_>>());
    let (state, version): (String, i32) = sqlx::query_as("SELECT state, version FROM deliveries WHERE id = $1")
        .bind(delivery.uuid())
        .fetch_one(store.pool())
        .await
        .unwrap();
    let last = ledger.last().unwrap();
    assert_eq!((last.state.as_str(), last.version as i32), (state.as_str(), version));
    last.state
}

pub(crate) async fn number(store: &Store, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(store.pool()).await.unwrap()
}

/// Waits until so many backends of this test's database wait for a lock.
pub(crate) async fn until_blocked(store: &Store, backends: i64) {
    for _ in 0..500 {
        let waiting = number(
            store,
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
        .await;
        if waiting >= backends {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody waits for a lock");
}
