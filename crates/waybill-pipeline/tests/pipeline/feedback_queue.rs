//! What providers tell us by queue.

use crate::{acts::Role, unknown::told, world::World};
use std::time::Duration;
use waybill_core::{
    ports::{FeedbackEvent, FeedbackKind, QueueName},
    state::DeliveryState,
};
use waybill_pipeline::feedback;

/// An adapter for the test: `delivered DELIVERY` and `bounced DELIVERY` are events, a sentence is none, the rest is unreadable.
fn parse(body: &str) -> Result<Vec<FeedbackEvent>, String> {
    if body.ends_with('.') {
        return Ok(Vec::new());
    }
    let kind = match body.split(' ').next() {
        Some("delivered") => FeedbackKind::Delivered,
        Some("bounced") => FeedbackKind::Bounced,
        Some(_) | None => return Err("the body is not JSON".into()),
    };
    let delivery = body.split(' ').nth(1).and_then(|id| id.parse().ok()).ok_or("no delivery")?;
    let event = FeedbackEvent { event_id: body.into(), detail: body[..4].into(), ..told(delivery, kind) };
    Ok(vec![event])
}

async fn soon() -> World {
    World::with(|setup| setup.settings.timings.visibility_timeout = Duration::from_millis(200)).await
}

fn consumer(w: &World) -> Role {
    Role::over(w.context.clone(), |context, life| feedback::consume(context, parse, life))
}

async fn take_in(w: &World) {
    let role = consumer(w);
    w.until_empty(QueueName::Feedback).await;
    role.stop().await;
}

#[tokio::test]
async fn ses_08_events_take_effect_sentences_are_acknowledged_and_garbage_is_dead_lettered_beside_them() {
    let w = World::new().await;
    let (one, two) = (w.delivery().await, w.delivery().await);
    w.work().await;
    for body in [
        &format!("delivered {one}"),
        "Successfully validated SNS topic for Amazon SES event publishing.",
        "garbage",
        &format!("bounced {two}"),
        &format!("delivered {two}"),
        &format!("delivered {one}"),
    ] {
        w.send(QueueName::Feedback, body).await;
    }
    take_in(&w).await;
    assert_eq!(w.state(one).await, DeliveryState::Delivered);
    assert_eq!(w.state(two).await, DeliveryState::Bounced, "whatever the order");
    assert_eq!(w.number("SELECT count(*) FROM provider_events").await, 3, "a repeat is none");
    let buried = w.buried(QueueName::FeedbackDead).await;
    assert_eq!(buried, [("garbage".into(), "unreadable_feedback".into(), "the body is not JSON".into())]);
    assert_eq!(w.alerts.raised().len(), 1, "{:?}", w.alerts.raised());
}

#[tokio::test]
async fn an_event_whose_deletion_was_lost_comes_again_and_changes_nothing() {
    let w = soon().await;
    let delivery = w.delivery().await;
    w.work().await;
    w.send(QueueName::Feedback, &format!("delivered {delivery}")).await;
    w.queue.fail_next_deletes(1);
    take_in(&w).await;
    assert_eq!(w.state(delivery).await, DeliveryState::Delivered);
    assert_eq!(w.number("SELECT count(*) FROM ledger WHERE state = 'DELIVERED'").await, 1);
}

#[tokio::test]
async fn a_database_that_is_away_uses_up_one_reception_and_loses_nothing() {
    let w = soon().await;
    let delivery = w.delivery().await;
    w.work().await;
    w.send(QueueName::Feedback, &format!("delivered {delivery}")).await;
    let role = Role::over(w.no_database().await, |context, life| feedback::consume(context, parse, life));
    w.until("it was received", async || w.queue.peek(QueueName::Feedback)[0].receive_count == 1).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    role.stop().await;
    assert_eq!(w.queue.peek(QueueName::Feedback)[0].receive_count, 1);
    assert_eq!(w.state(delivery).await, DeliveryState::Sent);
    take_in(&w).await;
    assert_eq!(w.state(delivery).await, DeliveryState::Delivered);
}

#[tokio::test]
async fn an_event_that_the_database_refuses_hurts_only_itself() {
    let w = soon().await;
    let (good, bad) = (w.delivery().await, w.delivery().await);
    w.work().await;
    w.sql("ALTER TABLE provider_events ADD CONSTRAINT refused CHECK (detail <> 'boun')", &[]).await;
    w.send(QueueName::Feedback, &format!("bounced {bad}")).await;
    w.send(QueueName::Feedback, &format!("delivered {good}")).await;
    let role = consumer(&w);
    w.until_state(good, DeliveryState::Delivered).await;
    w.until("the good one is deleted", async || w.queue.peek(QueueName::Feedback).len() == 1).await;
    assert_eq!(w.state(bad).await, DeliveryState::Sent);
    w.sql("ALTER TABLE provider_events DROP CONSTRAINT refused", &[]).await;
    w.until_state(bad, DeliveryState::Bounced).await;
    w.until_empty(QueueName::Feedback).await;
    role.stop().await;
}
