//! Nothing can get stuck unseen: one round finds every open row whose time has come.

use crate::world::World;
use std::time::Duration;
use waybill_core::{
    outcome::Outcome,
    ports::{AlertCause, QueueName},
    state::DeliveryState,
};
use waybill_pipeline::scheduler;

fn down() -> Option<Outcome> {
    Some(Outcome::Unavailable { detail: "connection refused".into() })
}

#[tokio::test]
async fn sqs_06_a_job_and_deliveries_whose_messages_were_lost_are_queued_again_in_one_round() {
    let w = World::new().await;
    w.need_documents().await;
    let waiting = w.delivery().await;
    w.put_route(&crate::world::plain()).await;
    // A READY document whose process died before it woke anybody.
    w.sql("UPDATE documents SET state = 'READY', due_at = NULL, size_bytes = 1, sha256 = '\\x00'", &[]).await;
    let pending = w.delivery().await;
    w.ses.otherwise(down());
    w.sendgrid.otherwise(down());
    let retrying = w.delivery().await;
    w.work_on_only(retrying).await;
    w.ses.otherwise(None);
    let crashed = w.delivery().await;
    w.claim(crashed).await;
    let unknown = w.delivery().await;
    w.crash(unknown).await;
    w.store.expire_claims(&w.expire_reconcile(unknown).await, 3).await.unwrap();
    let job = w.accept(&w.event(&["ana@example.test"])).await;
    w.published().await;
    for queue in [QueueName::Main, QueueName::Delivery] {
        w.lose_messages(queue).await;
    }
    let states = [
        (waiting, DeliveryState::WaitingDocument),
        (pending, DeliveryState::Pending),
        (retrying, DeliveryState::Retrying),
        (crashed, DeliveryState::Sending),
        (unknown, DeliveryState::Unknown),
    ];
    for (delivery, state) in states {
        assert_eq!(w.state(delivery).await, state);
    }
    w.round().await;
    assert_eq!(w.queue.peek(QueueName::Delivery).len(), 1, "only the one whose document is there: nothing else is due");
    w.lose_messages(QueueName::Delivery).await;
    w.sql("UPDATE deliveries SET due_at = now() - interval '1 hour', not_before = NULL WHERE due_at IS NOT NULL", &[])
        .await;
    w.sql("UPDATE jobs SET due_at = now() - interval '1 hour' WHERE due_at IS NOT NULL", &[]).await;
    w.sql("UPDATE sends SET claim_expires_at = now() - interval '1 hour' WHERE claim_expires_at IS NOT NULL", &[])
        .await;
    w.round().await;
    assert_eq!(w.queue.peek(QueueName::Main).len(), 1, "the job");
    assert_eq!(w.state(crashed).await, DeliveryState::Unknown, "its own window begins");
    let queued: Vec<String> = w.queue.peek(QueueName::Delivery).into_iter().map(|m| m.body).collect();
    for delivery in [waiting, pending, retrying, unknown] {
        assert_eq!(
            queued.iter().filter(|body| body.contains(&delivery.to_string())).count(),
            1,
            "{delivery}: {queued:?}"
        );
    }
    assert!(router_finishes(&w, job).await);
    let open = w.number("SELECT count(*) FROM deliveries WHERE due_at <= now()").await;
    assert_eq!(open, 0, "nothing is left overdue");
    w.check().await;
}

async fn router_finishes(w: &World, job: waybill_core::ids::JobId) -> bool {
    let router = w.router();
    w.until_empty(QueueName::Main).await;
    router.stop().await;
    w.job(job).await.0 == "ROUTED"
}

#[tokio::test]
async fn an_outbox_that_lags_and_rows_that_are_stuck_ring_once_in_the_quiet_time() {
    for (quiet, rings) in [(Duration::from_secs(3600), 1), (Duration::ZERO, 3)] {
        let w = World::with(|setup| setup.quiet = quiet).await;
        w.need_documents().await;
        // Documents that nobody renders.
        w.delivery().await;
        w.delivery().await;
        w.sql("UPDATE documents SET due_at = now() - interval '1 hour'", &[]).await;
        w.queue.set_down(true);
        w.accept(&w.event(&["ana@example.test"])).await;
        w.sql("UPDATE outbox SET created_at = now() - interval '2 minutes'", &[]).await;
        for _ in 0..3 {
            w.round().await;
        }
        let (stuck, lagging) = (w.alerts.of(AlertCause::RowsStuck), w.alerts.of(AlertCause::OutboxLagging));
        assert_eq!((stuck.len(), lagging.len()), (rings, rings), "{:?}", w.alerts.raised());
        assert_eq!((stuck[0].key.as_str(), stuck[0].count), ("document PENDING", 2));
    }
}

#[tokio::test]
async fn the_chores_end_jobs_and_forget_old_keys() {
    let w = World::new().await;
    let (job, _) = w.routed(&w.event(&["ana@example.test"])).await;
    w.work().await;
    w.until("the job is COMPLETED", async || w.job(job).await.0 == "COMPLETED").await;
    // A process died before it refreshed the job.
    w.sql("UPDATE jobs SET state = 'ROUTED', routed_at = now() - interval '1 hour'", &[]).await;
    w.sql("UPDATE idempotency SET expires_at = now() - interval '1 second'", &[]).await;
    scheduler::run_once(&w.context, 1).await.unwrap();
    assert_eq!((w.job(job).await.0.as_str(), w.number("SELECT count(*) FROM idempotency").await), ("ROUTED", 1));
    scheduler::run_once(&w.context, 10).await.unwrap();
    assert_eq!((w.job(job).await.0.as_str(), w.number("SELECT count(*) FROM idempotency").await), ("COMPLETED", 0));
}

#[tokio::test]
async fn many_schedulers_share_the_rows() {
    let w = World::new().await;
    for _ in 0..20 {
        w.delivery().await;
    }
    w.lose_messages(QueueName::Delivery).await;
    w.sql("UPDATE deliveries SET due_at = now() - interval '1 hour'", &[]).await;
    let rounds = futures::future::join_all((0..4).map(|_| scheduler::run_once(&w.context, 1))).await;
    assert!(rounds.iter().all(Result::is_ok), "{rounds:?}");
    assert_eq!(w.queue.peek(QueueName::Delivery).len(), 20, "each was queued by one of them");
    w.work().await;
    assert_eq!(w.accepted().len(), 20);
    w.check().await;
}

#[tokio::test]
async fn a_step_of_a_round_that_fails_does_not_keep_the_others_from_their_rows() {
    let w = World::new().await;
    let delivery = w.delivery().await;
    w.lose_messages(QueueName::Delivery).await;
    w.let_due(delivery).await;
    // The first steps can't do their work: a table that a migration holds, say, or one bad row.
    w.sql("ALTER TABLE outbox RENAME COLUMN publish_after TO published_after", &[]).await;
    w.sql("ALTER TABLE provider_events RENAME COLUMN settled_at TO done_at", &[]).await;
    assert!(scheduler::run_once(&w.context, 1).await.is_err(), "it is told");
    assert_eq!(w.queue.peek(QueueName::Delivery).len(), 1);
}
