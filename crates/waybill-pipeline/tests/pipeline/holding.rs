//! Messages in hand stay in hand: by the clock that a test drives, and by that of the wall for each role.

use crate::{acts::Role, world::World};
use async_trait::async_trait;
use bytes::Bytes;
use std::{future::pending, sync::Arc, time::Duration};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};
use waybill_core::{
    outcome::Outcome,
    ports::{ObjectError, ObjectInfo, ObjectStore, OutgoingMessage, PutOutcome, Queue, QueueName, ReceivedMessage},
    state::DeliveryState,
};
use waybill_pipeline::{
    holding::{Holder, LONGEST},
    intake,
};
use waybill_testkit::fakes::{FakeQueue, Step};

const VISIBILITY: Duration = Duration::from_secs(180);

async fn received(queue: &FakeQueue, messages: usize) -> Vec<ReceivedMessage> {
    let message = |n: usize| OutgoingMessage { body: n.to_string(), ..OutgoingMessage::default() };
    let messages: Vec<_> = (0..messages).map(message).collect();
    assert!(queue.send_batch(QueueName::Main, &messages).await.unwrap().iter().all(Result::is_ok));
    let mut out = Vec::new();
    while out.len() < messages.len() {
        out.extend(visible(queue).await);
    }
    out
}

async fn visible(queue: &FakeQueue) -> Vec<ReceivedMessage> {
    queue.receive(QueueName::Main, 10, Duration::ZERO, VISIBILITY).await.unwrap()
}

fn holder(queue: &FakeQueue) -> Holder {
    Holder::start(Arc::new(queue.clone()), QueueName::Main, VISIBILITY)
}

#[tokio::test(start_paused = true)]
async fn what_takes_many_visibility_timeouts_is_received_by_nobody_else_and_afterwards_by_somebody() {
    let queue = FakeQueue::new(5);
    let holder = holder(&queue);
    let messages = received(&queue, 1).await;
    let others = async {
        for _ in 0..100 {
            sleep(Duration::from_secs(9)).await;
            assert!(visible(&queue).await.is_empty());
        }
    };
    assert_eq!(holder.hold(&messages, others).await, Some(()), "fifteen minutes");
    sleep(VISIBILITY).await;
    assert_eq!(visible(&queue).await.len(), 1, "it was given up, so it comes back");
}

#[tokio::test(start_paused = true)]
async fn what_is_quick_costs_no_request_and_what_is_slow_one_for_ten_messages() {
    let queue = FakeQueue::new(5);
    let holder = holder(&queue);
    let messages = received(&queue, 25).await;
    let before = queue.requests();
    for _ in 0..20 {
        holder.hold(&messages, sleep(Duration::from_secs(85))).await.unwrap();
    }
    assert_eq!(queue.requests(), before);
    holder.hold(&messages, sleep(Duration::from_secs(150))).await.unwrap();
    assert_eq!(queue.requests(), before + 3);
}

#[tokio::test(start_paused = true)]
async fn whoever_hangs_is_let_go_and_somebody_else_has_the_message() {
    let queue = FakeQueue::new(5);
    let holder = holder(&queue);
    let messages = received(&queue, 1).await;
    let started = Instant::now();
    assert_eq!(holder.hold(&messages, pending::<()>()).await, None);
    assert_eq!(started.elapsed().as_secs(), LONGEST.as_secs());
    assert!(visible(&queue).await.is_empty(), "to the end");
    sleep(VISIBILITY).await;
    assert_eq!(visible(&queue).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_its_holder_forgot_is_let_go_as_well() {
    let queue = FakeQueue::new(5);
    let holder = holder(&queue);
    let messages = received(&queue, 1).await;
    let _forgotten = holder.take(messages[0].receipt.clone());
    sleep(LONGEST).await;
    assert!(visible(&queue).await.is_empty());
    sleep(VISIBILITY + Duration::from_secs(30)).await;
    assert_eq!(visible(&queue).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_away_for_a_moment_is_asked_again_in_time() {
    let queue = FakeQueue::new(5);
    let holder = holder(&queue);
    let messages = received(&queue, 2).await;
    let others = async {
        sleep(Duration::from_secs(80)).await;
        queue.set_down(true);
        sleep(Duration::from_secs(60)).await;
        queue.set_down(false);
        sleep(Duration::from_secs(100)).await;
        visible(&queue).await.len()
    };
    assert_eq!(holder.hold(&messages, others).await, Some(0));
}

#[tokio::test(start_paused = true)]
async fn what_is_done_with_is_not_asked_for_any_longer() {
    let queue = FakeQueue::new(5);
    let holder = holder(&queue);
    let messages = received(&queue, 2).await;
    let before = queue.requests();
    let (deleted, dropped) = (holder.take(messages[0].receipt.clone()), holder.take(messages[1].receipt.clone()));
    drop(dropped);
    queue.delete_batch(QueueName::Main, &[deleted.receipt().clone()]).await.unwrap();
    sleep(VISIBILITY * 5).await;
    assert_eq!(queue.requests(), before + 2, "the deletion, and one request that finds the receipt stale");
}

/// Visibility timeouts shorter than what the test makes slow.
async fn short() -> World {
    World::with(|setup| setup.settings.timings.visibility_timeout = Duration::from_millis(400)).await
}

const SLOW: Duration = Duration::from_millis(1_500);

#[tokio::test]
async fn a_worker_holds_the_message_of_a_call_that_takes_long() {
    let w = short().await;
    w.ses.then(Step::Hang(Outcome::Accepted { provider_message_id: "m".into() }));
    let delivery = w.delivery().await;
    let (one, two) = (w.worker(), w.worker());
    w.until("the call", async || w.ses.calls().len() == 1).await;
    sleep(SLOW).await;
    assert_eq!(w.queue.peek(QueueName::Delivery)[0].receive_count, 1);
    w.ses.release();
    w.until_empty(QueueName::Delivery).await;
    one.stop().await;
    two.stop().await;
    assert_eq!((w.state(delivery).await, w.calls()), (DeliveryState::Sent, (1, 0)));
    w.check().await;
}

#[tokio::test]
async fn a_router_holds_the_message_of_a_decision_that_takes_long() {
    let w = short().await;
    let job = w.accept(&w.event(&["ana@example.test"])).await;
    w.published().await;
    let mut transaction = w.db.pool.begin().await.unwrap();
    sqlx::query("SELECT FROM jobs FOR UPDATE").execute(&mut *transaction).await.unwrap();
    let (one, two) = (w.router(), w.router());
    w.until_blocked(1).await;
    sleep(SLOW).await;
    assert_eq!(w.queue.peek(QueueName::Main)[0].receive_count, 1);
    transaction.rollback().await.unwrap();
    w.until_empty(QueueName::Main).await;
    one.stop().await;
    two.stop().await;
    assert_eq!(w.deliveries(job).await.len(), 1);
}

/// Objects that nobody gets before the test says so.
pub(crate) struct Slow {
    pub(crate) inner: Arc<dyn ObjectStore>,
    pub(crate) gate: Semaphore,
}

#[async_trait]
impl ObjectStore for Slow {
    async fn put_if_absent(&self, key: &str, bytes: Bytes, content_type: &str) -> Result<PutOutcome, ObjectError> {
        self.inner.put_if_absent(key, bytes, content_type).await
    }

    async fn get(&self, key: &str) -> Result<Option<Bytes>, ObjectError> {
        let _open = self.gate.acquire().await.unwrap();
        self.inner.get(key).await
    }

    async fn head(&self, key: &str) -> Result<Option<ObjectInfo>, ObjectError> {
        self.inner.head(key).await
    }
}

#[tokio::test]
async fn intake_holds_its_batch_while_an_object_is_fetched() {
    let w = short().await;
    assert!(w.store.allow_intake_source(w.tenant, "shop").await.unwrap());
    let body = r#"{"id":"1","source":"/s","type":"order.created","data":{"a":1}}"#;
    w.objects.plant("intake/1", body);
    let detail = serde_json::json!({"payload": {"key": "intake/1", "size": body.len(),
        "sha256": "7d4153e9e3604a9d5da025f915fda5b5dd99a3235cc7ca4c7643c03c3c2149e0"}});
    let slow = Arc::new(Slow { inner: w.objects.clone(), gate: Semaphore::new(0) });
    w.send(QueueName::Intake, &serde_json::json!({"source": "shop", "detail": detail}).to_string()).await;
    let context = w.context_with(w.store.clone(), slow.clone());
    let run = |context, life| intake::run(context, w.acceptor.clone(), life);
    let (one, two) = (Role::over(context.clone(), run), Role::over(context, run));
    w.until("it was received", async || w.queue.peek(QueueName::Intake)[0].receive_count == 1).await;
    sleep(SLOW).await;
    assert_eq!(w.queue.peek(QueueName::Intake)[0].receive_count, 1);
    slow.gate.add_permits(1);
    w.until_empty(QueueName::Intake).await;
    one.stop().await;
    two.stop().await;
    assert_eq!(w.number("SELECT count(*) FROM jobs").await, 1);
}
