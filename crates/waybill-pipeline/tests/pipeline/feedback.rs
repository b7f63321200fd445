//! What providers tell us, also before we know ourselves.

use crate::{unknown::told, world::World};
use waybill_core::{outcome::Outcome, ports::FeedbackKind, state::DeliveryState};
use waybill_pipeline::feedback;
use waybill_testkit::fakes::Step;

#[tokio::test]
async fn pv_07_an_event_before_the_result_takes_effect_in_the_scheduler_s_round() {
    let w = World::new().await;
    w.ses.then(Step::Hang(Outcome::Accepted { provider_message_id: "m".into() }));
    let (job, deliveries) = w.routed(&w.event(&["ana@example.test"])).await;
    let worker = w.worker();
    w.until("the call", async || w.ses.calls().len() == 1).await;
    let event = told(deliveries[0], FeedbackKind::Bounced);
    let summary = feedback::record(&w.context, std::slice::from_ref(&event)).await.unwrap();
    assert_eq!((summary.new, summary.matched, summary.moved.len()), (1, 1, 0), "kept, and too early");
    w.round().await;
    assert_eq!(w.state(deliveries[0]).await, DeliveryState::Sending);
    w.ses.release();
    worker.stop().await;
    assert_eq!(w.state(deliveries[0]).await, DeliveryState::Sent);
    w.round().await;
    assert_eq!(w.state(deliveries[0]).await, DeliveryState::Bounced);
    assert_eq!(w.job(job).await.0, "FAILED", "a mail that bounced does not count as good");
    assert_eq!(feedback::record(&w.context, &[event]).await.unwrap().new, 0, "a repeat changes nothing");
    w.check().await;
}

#[tokio::test]
async fn an_event_before_an_unknown_result_settles_it_at_once() {
    let w = World::new().await;
    w.ses.then(Step::Hang(Outcome::Unknown { detail: "timed out".into() }));
    let delivery = w.delivery().await;
    let worker = w.worker();
    w.until("the call", async || w.ses.calls().len() == 1).await;
    feedback::record(&w.context, &[told(delivery, FeedbackKind::Accepted)]).await.unwrap();
    w.ses.release();
    worker.stop().await;
    assert_eq!((w.state(delivery).await, w.calls()), (DeliveryState::Sent, (1, 0)));
}

#[tokio::test]
async fn an_event_about_a_dead_letter_makes_it_sent_and_a_redrive_leaves_it_alone() {
    let w = World::new().await;
    let (job, deliveries) = w.routed(&w.event(&["ana@example.test"])).await;
    for _ in 0..3 {
        w.crash(deliveries[0]).await;
        w.round().await;
        w.let_due(deliveries[0]).await;
        w.round().await;
    }
    assert_eq!(w.state(deliveries[0]).await, DeliveryState::Failed);
    feedback::record(&w.context, &[told(deliveries[0], FeedbackKind::Delivered)]).await.unwrap();
    assert_eq!((w.state(deliveries[0]).await, w.job(job).await.0.as_str()), (DeliveryState::Delivered, "COMPLETED"));
    let summary = waybill_pipeline::redrive::run(&w.context, &Default::default(), 100, |_| {}).await.unwrap();
    assert_eq!((summary.matched, summary.entries_removed), (0, 1));
    w.work().await;
    assert_eq!(w.calls(), (0, 0));
}
