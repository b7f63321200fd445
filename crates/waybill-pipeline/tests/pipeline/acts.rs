//! What tests do in their world.

use crate::world::{World, event};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use waybill_core::{
    event::Event,
    ids::{DeliveryId, JobId},
    message::{DeliveryMessage, encode},
    ports::{OutgoingMessage, Queue, QueueName},
};
use waybill_pipeline::{
    accept::AcceptAnswer,
    context::{Context, Lifecycle},
    deliver, documents, intake, router, scheduler,
};

/// How long a test waits for something that should happen at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// A role of a process.
pub(crate) struct Role {
    pub(crate) life: Lifecycle,
    task: tokio::task::JoinHandle<()>,
}

impl Role {
    fn start<F: Future<Output = ()> + Send + 'static>(
        world: &World,
        run: impl Fn(Arc<Context>, Lifecycle) -> F,
    ) -> Role {
        Self::over(world.context.clone(), run)
    }

    /// Over a context of the test's own.
    pub(crate) fn over<F: Future<Output = ()> + Send + 'static>(
        context: Arc<Context>,
        run: impl Fn(Arc<Context>, Lifecycle) -> F,
    ) -> Role {
        let life = Lifecycle::default();
        Role { task: tokio::spawn(run(context, life.clone())), life }
    }

    /// Soft: what was begun is finished.
    pub(crate) async fn stop(self) {
        self.life.soft.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.expect("a role stops").expect("a role does not panic");
    }
}

impl World {
    /// An event with an id and a subject of its own.
    pub(crate) fn event(&self, recipients: &[&str]) -> Event {
        self.event_about(&format!("PO-{}", self.count.load(Ordering::Relaxed)), recipients)
    }

    pub(crate) fn event_about(&self, subject: &str, recipients: &[&str]) -> Event {
        let id = format!("e{}", self.count.fetch_add(1, Ordering::Relaxed));
        let recipients: Vec<_> = recipients.iter().map(|r| serde_json::json!({"email": r, "name": "Ana"})).collect();
        event(&serde_json::json!({
            "id": id, "source": "/orders", "type": "order.created", "subject": subject, "recipients": recipients,
            "data": {"number": subject},
        }))
    }

    pub(crate) async fn accept(&self, event: &Event) -> JobId {
        match self.acceptor.accept(self.tenant, event, None).await {
            Ok(AcceptAnswer::New(job)) => job,
            other => panic!("not accepted: {other:?}"),
        }
    }

    /// One accepted and routed job; its deliveries, in the order of its recipients.
    pub(crate) async fn routed(&self, event: &Event) -> (JobId, Vec<DeliveryId>) {
        let job = self.accept(event).await;
        let finished = router::route(&self.context, &[job]).await.unwrap();
        assert!(finished.contains(&job), "the queue took all messages");
        (job, self.deliveries(job).await)
    }

    /// One routed delivery to one recipient.
    pub(crate) async fn delivery(&self) -> DeliveryId {
        let (_, deliveries) = self.routed(&self.event(&["ana@example.test"])).await;
        let [delivery] = deliveries[..] else { panic!("{deliveries:?}") };
        delivery
    }

    /// Two deliveries of one identity: two employees triggered the same order.
    pub(crate) async fn twins(&self) -> (DeliveryId, DeliveryId) {
        let (first, second) =
            (self.event_about("PO-twin", &["ana@example.test"]), self.event_about("PO-twin", &["Ana@Example.test"]));
        ((self.routed(&first).await).1[0], (self.routed(&second).await).1[0])
    }

    pub(crate) async fn round(&self) {
        scheduler::run_once(&self.context, 0).await.unwrap();
    }

    pub(crate) fn worker(&self) -> Role {
        Role::start(self, deliver::worker::run)
    }

    pub(crate) fn renderers(&self) -> Role {
        Role::start(self, documents::run)
    }

    pub(crate) fn router(&self) -> Role {
        Role::start(self, router::run)
    }

    pub(crate) fn intake(&self) -> Role {
        Role::start(self, |context, life| intake::run(context, self.acceptor.clone(), life))
    }

    /// Works until the delivery queue is empty and everything in flight is recorded.
    pub(crate) async fn work(&self) {
        let worker = self.worker();
        self.until_empty(QueueName::Delivery).await;
        worker.stop().await;
    }

    /// One repeated message for a delivery, and the work that it makes.
    pub(crate) async fn work_on(&self, delivery: DeliveryId) {
        self.send(QueueName::Delivery, &encode(&DeliveryMessage::new(delivery))).await;
        self.work().await;
    }

    pub(crate) async fn send(&self, queue: QueueName, body: &str) {
        let message = OutgoingMessage { body: body.into(), ..OutgoingMessage::default() };
        assert_eq!(self.queue.send_batch(queue, &[message]).await.unwrap(), [Ok(())]);
    }

    /// What is on a dead-letter queue: body, reason and detail, by body.
    pub(crate) async fn buried(&self, queue: QueueName) -> Vec<(String, String, String)> {
        let mut found = Vec::new();
        loop {
            let got = self.queue.receive(queue, 10, Duration::ZERO, Duration::from_secs(60)).await.unwrap();
            if got.is_empty() {
                found.sort();
                return found;
            }
            found.extend(got.into_iter().map(|m| {
                let of = |name: &str| m.attributes.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
                (m.body.clone(), of("reason").unwrap_or_default(), of("detail").unwrap_or_default())
            }));
        }
    }

    pub(crate) async fn until_empty(&self, queue: QueueName) {
        self.until("the queue is empty", async || self.queue.peek(queue).is_empty()).await;
    }

    pub(crate) async fn until(&self, what: &str, is: impl AsyncFn() -> bool) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !is().await {
            assert!(tokio::time::Instant::now() < deadline, "waited in vain: {what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Everything accepted so far is on the main queue.
    pub(crate) async fn published(&self) {
        self.until("the outbox is empty", async || self.number("SELECT count(*) FROM outbox").await == 0).await;
    }

    /// Waits until this many statements wait for a lock.
    pub(crate) async fn until_blocked(&self, statements: i64) {
        let blocked =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        self.until("statements wait for a lock", async || self.number(blocked).await >= statements).await;
    }

    /// Receives and deletes all that is visible: an outage, an expiry, or somebody's purge.
    pub(crate) async fn lose_messages(&self, queue: QueueName) {
        loop {
            let got = self.queue.receive(queue, 10, Duration::ZERO, Duration::from_secs(60)).await.unwrap();
            if got.is_empty() {
                return;
            }
            let receipts: Vec<_> = got.into_iter().map(|m| m.receipt).collect();
            assert!(self.queue.delete_batch(queue, &receipts).await.unwrap().iter().all(Result::is_ok));
        }
    }

    /// Somebody else's transaction that holds a delivery's row until it is dropped.
    pub(crate) async fn hold_row(&self, delivery: DeliveryId) -> sqlx::Transaction<'static, sqlx::Postgres> {
        let mut transaction = self.db.pool.begin().await.unwrap();
        sqlx::query("SELECT FROM deliveries WHERE id = $1 FOR UPDATE")
            .bind(delivery.0)
            .execute(&mut *transaction)
            .await
            .unwrap();
        transaction
    }

    /// Work on one more message for a delivery, while an older one of it may still be invisible.
    pub(crate) async fn work_on_hidden(&self, delivery: DeliveryId) {
        let before = self.queue.peek(QueueName::Delivery).len();
        self.send(QueueName::Delivery, &encode(&DeliveryMessage::new(delivery))).await;
        let worker = self.worker();
        self.until("the message is handled", async || self.queue.peek(QueueName::Delivery).len() == before).await;
        worker.stop().await;
    }

    pub(crate) async fn until_sent_by_worker(&self, delivery: DeliveryId) {
        let worker = self.worker();
        self.until_state(delivery, waybill_core::state::DeliveryState::Sent).await;
        worker.stop().await;
    }

    /// Work on one delivery; the messages of the others are lost.
    pub(crate) async fn work_on_only(&self, delivery: DeliveryId) {
        self.lose_messages(QueueName::Delivery).await;
        self.work_on(delivery).await;
    }

    pub(crate) async fn expire_reconcile(&self, delivery: DeliveryId) -> Vec<waybill_store::ExpireDecision> {
        let claims = self.store.find_expired_claims(&[delivery]).await.unwrap();
        let decide = |claim: waybill_store::ExpiredClaim| waybill_store::ExpireDecision {
            delivery: claim.delivery,
            token: claim.token,
            policy: waybill_core::outcome::OnUnknown::Reconcile,
            window: Duration::from_secs(15),
        };
        claims.into_iter().map(decide).collect()
    }

    /// The queue's requests after a pause in which every long poll ends.
    pub(crate) async fn settled_requests(&self) -> u64 {
        tokio::time::sleep(self.context.settings.queue_wait * 2).await;
        self.queue.requests()
    }
}
