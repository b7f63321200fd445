//! Dead letters put back, selectively, and never what has been sent since.

use crate::world::World;
use std::time::Duration;
use waybill_core::{
    ids::{DeliveryId, TenantId},
    outcome::Outcome,
    ports::{Queue, QueueName, RenderFailure},
    state::{DeliveryState, Reason},
};
use waybill_pipeline::redrive::{self, RedriveSummary};
use waybill_store::DeadLetterFilter;

/// `n` dead letters with this reason.
async fn dead(w: &World, n: usize, reason: Reason) -> Vec<DeliveryId> {
    let down = || Some(Outcome::Unavailable { detail: "connection refused".into() });
    w.ses.otherwise(down());
    w.sendgrid.otherwise(down());
    let mut all = Vec::new();
    for _ in 0..n {
        all.push(w.delivery().await);
    }
    w.work().await;
    for _ in 0..2 {
        w.sql("UPDATE deliveries SET due_at = now(), not_before = NULL WHERE state = 'RETRYING'", &[]).await;
        w.round().await;
        w.work().await;
    }
    w.ses.otherwise(None);
    w.sendgrid.otherwise(None);
    for delivery in &all {
        assert!(w.see(*delivery).await.dead);
        sqlx::query("UPDATE deliveries SET reason = $2 WHERE id = $1")
            .bind(delivery.0)
            .bind(reason.as_str())
            .execute(&w.db.pool)
            .await
            .unwrap();
    }
    all
}

async fn run(w: &World, filter: DeadLetterFilter) -> RedriveSummary {
    redrive::run(&w.context, &filter, 500, |_| {}).await.unwrap()
}

#[tokio::test]
async fn only_what_matches_is_put_back_and_only_its_entries_leave_the_dead_letter_queue() {
    let w = World::new().await;
    let exhausted = dead(&w, 2, Reason::ProvidersExhausted).await;
    let crashed = dead(&w, 1, Reason::WorkerCrashed).await;
    assert_eq!(w.dead_entries(), 3);
    w.send(QueueName::DeliveryDead, "poison").await;
    let nobody = DeadLetterFilter { tenant: Some(TenantId(uuid::Uuid::now_v7())), ..Default::default() };
    let later = chrono::Utc::now() + chrono::TimeDelta::hours(1);
    let none = [
        nobody,
        DeadLetterFilter { since: Some(later), ..Default::default() },
        DeadLetterFilter { until: Some(later - chrono::TimeDelta::hours(2)), ..Default::default() },
        DeadLetterFilter { reason: Some(Reason::DocumentMissing), ..Default::default() },
    ];
    for filter in none {
        assert_eq!(run(&w, filter).await, RedriveSummary::default());
    }
    let filter = DeadLetterFilter {
        reason: Some(Reason::ProvidersExhausted),
        tenant: Some(w.tenant),
        until: Some(later),
        ..Default::default()
    };
    let summary = run(&w, filter.clone()).await;
    assert_eq!(summary, RedriveSummary { matched: 2, queued: 2, entries_removed: 2, ..Default::default() });
    assert_eq!(w.dead_entries(), 2, "the other reason's entry and the poison");
    assert!(w.queue.peek(QueueName::DeliveryDead).iter().all(|m| !m.hidden), "visible for the next one");
    assert_eq!(run(&w, filter).await, RedriveSummary::default(), "a second run finds nothing");
    w.work().await;
    for delivery in exhausted {
        assert_eq!(w.state(delivery).await, DeliveryState::Sent);
    }
    assert!(w.see(crashed[0]).await.dead);
    w.check().await;
}

#[tokio::test]
async fn what_has_been_sent_since_is_skipped() {
    let w = World::new().await;
    let letters = dead(&w, 1, Reason::ProvidersExhausted).await;
    let subject: String = sqlx::query_scalar("SELECT subject FROM jobs").fetch_one(&w.db.pool).await.unwrap();
    let again = (w.routed(&w.event_about(&subject, &["ana@example.test"])).await).1[0];
    w.work().await;
    assert_eq!(w.state(again).await, DeliveryState::Sent, "somebody triggered the order once more");
    let summary = run(&w, DeadLetterFilter::default()).await;
    assert_eq!(summary, RedriveSummary { matched: 1, already_sent: 1, entries_removed: 1, ..Default::default() });
    let seen = w.see(letters[0]).await;
    assert_eq!((seen.state, seen.dead, seen.other), (DeliveryState::Failed, false, Some(again)));
    w.work().await;
    assert_eq!(w.accepted(), [again]);
    w.check().await;
}

#[tokio::test]
async fn two_redrives_at_once_put_each_back_once() {
    let w = World::new().await;
    let letters = dead(&w, 30, Reason::ProvidersExhausted).await;
    let filter = DeadLetterFilter::default();
    let (one, two) = tokio::join!(run(&w, filter.clone()), run(&w, filter));
    assert_eq!(one.queued + two.queued, 30, "{one:?} {two:?}");
    assert_eq!(w.queue.peek(QueueName::Delivery).len(), 30);
    w.work().await;
    assert_eq!(w.accepted().len(), letters.len());
    // What the two kept from each other's eyes, a later run removes.
    run(&w, DeadLetterFilter::default()).await;
    assert_eq!(w.dead_entries(), 0);
    w.check().await;
}

#[tokio::test]
async fn the_rate_is_kept() {
    let w = World::new().await;
    dead(&w, 5, Reason::ProvidersExhausted).await;
    let started = tokio::time::Instant::now();
    let mut steps = Vec::new();
    redrive::run(&w.context, &DeadLetterFilter::default(), 2, |summary| steps.push(summary.queued)).await.unwrap();
    assert_eq!(steps, [2, 4, 5, 5]);
    assert!(started.elapsed() >= Duration::from_secs(2), "five at two a second: {:?}", started.elapsed());
}

#[tokio::test]
async fn a_queue_that_is_down_during_a_redrive_loses_nothing() {
    let w = World::new().await;
    let letters = dead(&w, 1, Reason::ProvidersExhausted).await;
    w.queue.set_down(true);
    assert_eq!(run(&w, DeadLetterFilter::default()).await.queued, 1);
    w.queue.set_down(false);
    assert_eq!(w.state(letters[0]).await, DeliveryState::Pending);
    w.let_due(letters[0]).await;
    w.round().await;
    w.work().await;
    assert_eq!(w.state(letters[0]).await, DeliveryState::Sent);
    w.check().await;
}

#[tokio::test]
async fn a_document_that_failed_is_rendered_again_and_its_deliveries_wait_for_it() {
    let w = World::new().await;
    w.need_documents().await;
    w.renderer.fail_next(RenderFailure::Permanent("a font is missing".into()));
    let (_, deliveries) = w.routed(&w.event(&["ana@example.test", "ben@example.test"])).await;
    let renderers = w.renderers();
    w.until("two dead letters", async || w.dead_entries() == 2).await;
    let filter = DeadLetterFilter { reason: Some(Reason::DocumentRenderFailed), ..Default::default() };
    assert_eq!(run(&w, filter).await.queued, 2);
    let worker = w.worker();
    for delivery in &deliveries {
        w.until_state(*delivery, DeliveryState::Sent).await;
    }
    renderers.stop().await;
    worker.stop().await;
    assert_eq!((w.renderer.requests().len(), w.dead_entries()), (2, 0));
    w.check().await;
}

#[tokio::test]
async fn an_entry_that_the_queue_moved_there_by_itself_leaves_it_while_its_delivery_lives() {
    let w = World::with(|setup| setup.max_receive_count = 1).await;
    let delivery = w.delivery().await;
    // Received once by a worker that died.
    w.queue.receive(QueueName::Delivery, 10, Duration::ZERO, Duration::ZERO).await.unwrap();
    assert!(w.queue.receive(QueueName::Delivery, 10, Duration::ZERO, Duration::ZERO).await.unwrap().is_empty());
    assert_eq!(w.dead_entries(), 1);
    w.let_due(delivery).await;
    w.round().await;
    w.work().await;
    assert_eq!(w.state(delivery).await, DeliveryState::Sent, "the sweeper reconciles the row");
    assert_eq!(run(&w, DeadLetterFilter::default()).await, RedriveSummary { entries_removed: 1, ..Default::default() });
    w.check().await;
}
