//! Events with an ordering key: one after the other, whatever happens to the first.

use crate::world::World;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::time::Duration;
use waybill_core::{
    event::Event,
    ids::{DeliveryId, JobId},
    outcome::Outcome,
    policy::RetryPolicy,
    ports::{AlertCause, QueueName},
    state::{DeliveryState, Reason},
};
use waybill_pipeline::{context::Lifecycle, order, redrive, router, scheduler};
use waybill_testkit::fakes::Step;

fn unavailable() -> Outcome {
    Outcome::Unavailable { detail: "connection refused".into() }
}

impl World {
    fn keyed(&self, key: &str) -> Event {
        let mut event = self.event(&["ana@example.test"]);
        event.ordering_key = Some(key.into());
        event
    }

    async fn routed_keyed(&self, key: &str) -> (JobId, DeliveryId) {
        let (job, deliveries) = self.routed(&self.keyed(key)).await;
        (job, deliveries[0])
    }

    /// Both providers refuse the next mail once.
    fn fail_once(&self) {
        self.ses.script([unavailable()]);
        self.sendgrid.script([unavailable()]);
    }

    async fn waits(&self, delivery: DeliveryId) {
        let seen = self.see(delivery).await;
        assert!(seen.state == DeliveryState::Pending && seen.due_in.is_some_and(|due| due > 1000.0), "{seen:?}");
    }

    /// Every end so far was heard of.
    async fn lines_are_empty(&self) {
        let open = "SELECT count(*) FROM jobs WHERE ordering_due_at IS NOT NULL";
        self.until("nobody is in line", async || self.number(open).await == 0).await;
    }

    /// The scheduler's look at everybody in line.
    async fn look_at_lines(&self) {
        self.sql("UPDATE jobs SET ordering_due_at = now() WHERE ordering_due_at IS NOT NULL", &[]).await;
        self.round().await;
    }
}

#[tokio::test]
async fn a_retry_holds_back_the_later_ones_of_its_key_and_nobody_else() {
    let w = World::new().await;
    w.fail_once();
    let (a_job, a) = w.routed_keyed("k").await;
    w.work().await;
    let (b_job, b) = w.routed_keyed("k").await;
    let ((_, c), d) = (w.routed_keyed("other").await, w.delivery().await);
    w.work().await;
    assert_eq!((w.state(a).await, w.state(c).await), (DeliveryState::Retrying, DeliveryState::Sent));
    assert_eq!(w.state(d).await, DeliveryState::Sent);
    w.waits(b).await;
    let view = |job| w.store.find_job(Some(w.tenant), job);
    assert_eq!(view(b_job).await.unwrap().unwrap().waits_for, Some(a_job));
    assert_eq!(view(a_job).await.unwrap().unwrap().waits_for, None);
    // The retry is due. Its end wakes the next one at once, without a scheduler.
    w.let_due(a).await;
    w.round().await;
    let worker = w.worker();
    w.until_state(b, DeliveryState::Sent).await;
    worker.stop().await;
    assert_eq!(w.accepted()[2..], [a, b]);
    w.lines_are_empty().await;
    assert_eq!(view(b_job).await.unwrap().unwrap().waits_for, None);
    w.check().await;
}

#[tokio::test]
async fn a_job_that_is_routed_first_waits_for_the_one_that_was_accepted_first() {
    let w = World::new().await;
    let a_job = w.accept(&w.keyed("k")).await;
    let (_, b) = w.routed_keyed("k").await;
    w.work().await;
    w.waits(b).await;
    router::route(&w.context, &[a_job]).await.unwrap();
    let a = w.deliveries(a_job).await[0];
    let worker = w.worker();
    w.until_state(b, DeliveryState::Sent).await;
    worker.stop().await;
    assert_eq!(w.accepted(), [a, b]);
    w.check().await;
}

#[tokio::test]
async fn a_job_that_blocks_for_too_long_is_dead_lettered_and_the_line_goes_on() {
    let w = World::with(|setup| setup.settings.timings.order_block = Duration::ZERO).await;
    w.fail_once();
    let (_, a) = w.routed_keyed("k").await;
    w.work().await;
    let (_, b) = w.routed_keyed("k").await;
    w.work().await;
    // The first look notes since when it is first in line.
    w.look_at_lines().await;
    w.work().await;
    assert_eq!(w.state(a).await, DeliveryState::Retrying);
    w.waits(b).await;
    w.look_at_lines().await;
    let seen = w.see(a).await;
    assert_eq!((seen.state, seen.reason, seen.dead), (DeliveryState::Failed, Some(Reason::OrderingTimeout), true));
    let alerts = w.alerts.of(AlertCause::DeadLetter);
    assert_eq!((w.dead_entries(), alerts[0].key.as_str()), (1, "ordering_timeout"));
    w.work().await;
    assert_eq!(w.state(b).await, DeliveryState::Sent);
    w.lines_are_empty().await;
    // Put back, it goes, and nobody waits for it.
    w.fail_once();
    let filter = waybill_store::DeadLetterFilter::default();
    assert_eq!(redrive::run(&w.context, &filter, 500, |_| {}).await.unwrap().queued, 1);
    w.work().await;
    assert_eq!(w.state(a).await, DeliveryState::Retrying);
    let (_, c) = w.routed_keyed("k").await;
    w.work().await;
    w.let_due(a).await;
    w.round().await;
    w.work().await;
    assert_eq!(w.accepted(), [b, c, a]);
    w.check().await;
}

#[tokio::test]
async fn what_a_provider_may_have_is_waited_for_after_the_time_is_over() {
    let w = World::with(|setup| setup.settings.timings.order_block = Duration::ZERO).await;
    w.ses.then(Step::Hang(unavailable()));
    w.sendgrid.script([unavailable()]);
    let (_, a) = w.routed_keyed("k").await;
    let worker = w.worker();
    w.until("the call", async || w.ses.calls().len() == 1).await;
    let (_, b) = w.routed_keyed("k").await;
    w.until("its message is handled", async || w.queue.peek(QueueName::Delivery).len() == 1).await;
    for _ in 0..3 {
        w.look_at_lines().await;
    }
    assert_eq!((w.state(a).await, w.calls()), (DeliveryState::Sending, (1, 0)));
    w.waits(b).await;
    w.ses.release();
    w.until_state(a, DeliveryState::Retrying).await;
    // A repeated message finds that its time is over before the scheduler does.
    w.let_due(a).await;
    w.send(QueueName::Delivery, &waybill_core::message::encode(&waybill_core::message::DeliveryMessage::new(a))).await;
    w.until_state(a, DeliveryState::Failed).await;
    assert_eq!(w.see(a).await.reason, Some(Reason::OrderingTimeout));
    w.until_state(b, DeliveryState::Sent).await;
    worker.stop().await;
    assert_eq!((w.accepted(), w.dead_entries()), (vec![b], 1));
    w.check().await;
}

#[tokio::test]
async fn a_job_that_nobody_routes_blocks_no_longer_than_any_other_and_is_not_sent_late() {
    let w = World::with(|setup| setup.settings.timings.order_block = Duration::ZERO).await;
    let a_job = w.accept(&w.keyed("k")).await;
    let (_, b) = w.routed_keyed("k").await;
    w.work().await;
    w.look_at_lines().await;
    w.look_at_lines().await;
    w.work().await;
    assert_eq!(w.state(b).await, DeliveryState::Sent);
    router::route(&w.context, &[a_job]).await.unwrap();
    w.work().await;
    let a = w.deliveries(a_job).await[0];
    assert_eq!((w.state(a).await, w.see(a).await.reason), (DeliveryState::Failed, Some(Reason::OrderingTimeout)));
    assert_eq!(w.accepted(), [b]);
    w.check().await;
}

#[tokio::test]
async fn when_the_worker_dies_with_the_first_the_next_waits_for_the_recovery() {
    let w = World::new().await;
    let (_, a) = w.routed_keyed("k").await;
    w.lose_messages(QueueName::Delivery).await;
    w.crash(a).await;
    let (_, b) = w.routed_keyed("k").await;
    w.work().await;
    w.waits(b).await;
    w.round().await;
    assert_eq!(w.state(a).await, DeliveryState::Unknown);
    w.work_on(b).await;
    w.waits(b).await;
    w.let_due(a).await;
    w.round().await;
    w.let_due(a).await;
    w.round().await;
    let worker = w.worker();
    w.until_state(b, DeliveryState::Sent).await;
    worker.stop().await;
    assert_eq!(w.accepted(), [a, b]);
    w.check().await;
}

#[tokio::test]
async fn an_end_that_nobody_heard_of_is_found_by_the_scheduler() {
    let w = World::new().await;
    let (_, a) = w.routed_keyed("k").await;
    w.lose_messages(QueueName::Delivery).await;
    let (_, b) = w.routed_keyed("k").await;
    w.work().await;
    w.waits(b).await;
    // Its worker died between the record and the wake.
    w.sent_elsewhere(a).await;
    w.look_at_lines().await;
    w.work().await;
    assert_eq!(w.state(b).await, DeliveryState::Sent);
    w.check().await;
}

#[tokio::test]
async fn a_cancelled_job_and_one_that_leads_to_nothing_are_in_nobody_s_way() {
    let w = World::new().await;
    w.fail_once();
    let (a_job, a) = w.routed_keyed("k").await;
    w.work().await;
    let mut nothing = w.keyed("k");
    nothing.event_type = "nobody.listens".into();
    let nothing = w.accept(&nothing).await;
    router::route(&w.context, &[nothing]).await.unwrap();
    let (_, b) = w.routed_keyed("k").await;
    w.work().await;
    w.waits(b).await;
    assert_eq!(w.job(nothing).await.0, "FAILED");
    w.store.cancel_job(w.tenant, a_job).await.unwrap().unwrap();
    order::advance(&w.context, &[a_job]).await.unwrap();
    w.work().await;
    assert_eq!((w.state(a).await, w.state(b).await), (DeliveryState::Cancelled, DeliveryState::Sent));
    w.check().await;
}

#[tokio::test]
async fn two_hundred_events_of_one_key_arrive_in_order_through_random_faults() {
    const EVENTS: usize = 200;
    let w = World::with(|setup| {
        let ms = Duration::from_millis;
        setup.settings.retry = RetryPolicy { max_attempts: 1_000, base: ms(1), cap: ms(2), hold_delay: ms(2) };
        setup.settings.timings.reconcile_window = ms(20);
        setup.settings.sweep_interval = ms(20);
    })
    .await;
    let mut rng = StdRng::seed_from_u64(7);
    for provider in [&w.ses, &w.sendgrid] {
        for _ in 0..EVENTS {
            provider.script([match rng.random_range(0..10) {
                0 => Outcome::Unknown { detail: "time-out".into() },
                1 => Outcome::Throttled { retry_after: None, detail: "429".into() },
                2..6 => unavailable(),
                _ => Outcome::Accepted { provider_message_id: "m".into() },
            }]);
        }
    }
    let mut jobs = Vec::new();
    for _ in 0..EVENTS {
        jobs.push(w.accept(&w.keyed("k")).await);
    }
    let life = Lifecycle::default();
    let (one, two, router) = (w.worker(), w.worker(), w.router());
    let scheduler = tokio::spawn(scheduler::run(w.context.clone(), life.clone()));
    let deadline = tokio::time::Instant::now() + Duration::from_secs(120);
    while w.number("SELECT count(*) FROM deliveries WHERE state = 'SENT'").await < EVENTS as i64 {
        assert!(tokio::time::Instant::now() < deadline, "{} sent", w.accepted().len());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for role in [one, two, router] {
        role.stop().await;
    }
    life.soft.cancel();
    scheduler.await.unwrap();
    // Every attempt of a job ended before the first one of the next job began.
    let overlaps = "SELECT count(*) FROM attempts a JOIN deliveries d ON d.id = a.delivery_id JOIN jobs j ON j.id = d.job_id
        JOIN attempts b ON b.started_at < a.ended_at JOIN deliveries e ON e.id = b.delivery_id JOIN jobs k ON k.id = e.job_id
        WHERE k.seq > j.seq";
    assert_eq!(w.number(overlaps).await, 0);
    let retried = w.number("SELECT count(*) FROM deliveries WHERE attempts > 1 OR provider_position > 0").await;
    assert!(retried > 20, "{retried}");
    let mut in_order = Vec::new();
    for job in &jobs {
        in_order.extend(w.deliveries(*job).await);
    }
    for provider in [&w.ses, &w.sendgrid] {
        let place = |d: DeliveryId| in_order.iter().position(|x| *x == d).unwrap();
        let places: Vec<_> = provider.accepted().into_iter().map(|mail| place(mail.delivery)).collect();
        assert!(places.is_sorted() && places.len() > 10, "{places:?}");
    }
    w.check().await;
}
