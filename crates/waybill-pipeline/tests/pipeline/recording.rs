//! PG-07: writing down what came of a call fails for a while. It is kept in memory; nothing is sent again.

use crate::world::World;
use std::time::Duration;
use waybill_core::{outcome::Outcome, ports::QueueName, state::DeliveryState};
use waybill_testkit::fakes::Step;

fn accepted() -> Outcome {
    Outcome::Accepted { provider_message_id: "m".into() }
}

async fn impatient() -> World {
    World::with(|setup| setup.lock_timeout = Duration::from_millis(50)).await
}

#[tokio::test]
async fn pg_07_a_result_that_can_t_be_recorded_is_kept_and_its_neighbour_is_recorded() {
    let w = impatient().await;
    w.ses.then(Step::Hang(accepted()));
    w.ses.then(Step::Hang(accepted()));
    let (_, deliveries) = w.routed(&w.event(&["ana@example.test", "ben@example.test"])).await;
    let worker = w.worker();
    w.until("both calls", async || w.ses.calls().len() == 2).await;
    let held = w.hold_row(deliveries[0]).await;
    w.ses.release();
    w.ses.release();
    w.until_state(deliveries[1], DeliveryState::Sent).await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(w.state(deliveries[0]).await, DeliveryState::Sending);
    held.rollback().await.unwrap();
    w.until_state(deliveries[0], DeliveryState::Sent).await;
    w.until_empty(QueueName::Delivery).await;
    worker.stop().await;
    assert_eq!(w.calls(), (2, 0), "never a blind re-send");
    w.check().await;
}

#[tokio::test]
async fn pg_07_a_late_acceptance_that_can_t_be_recorded_is_kept_too() {
    let w = impatient().await;
    w.ses.then(Step::Hang(accepted()));
    let delivery = w.delivery().await;
    let worker = w.worker();
    w.until("the call", async || w.ses.calls().len() == 1).await;
    w.let_claim_end(delivery).await;
    w.round().await;
    let mut other = w.db.pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE late_results").execute(&mut *other).await.unwrap();
    w.ses.release();
    tokio::time::sleep(Duration::from_millis(600)).await;
    other.rollback().await.unwrap();
    w.until("it is recorded", async || w.number("SELECT count(*) FROM late_results").await == 1).await;
    worker.stop().await;
    assert_eq!((w.state(delivery).await, w.calls()), (DeliveryState::Sent, (1, 0)));
    w.check().await;
}

#[tokio::test]
async fn rows_of_a_newer_build_hurt_only_themselves() {
    let w = World::new().await;
    let (_, deliveries) = w.routed(&w.event(&["ana@example.test", "ben@example.test", "eva@example.test"])).await;
    // One has a state that this build doesn't know, one a route that it can't read.
    w.sql("ALTER TABLE deliveries DROP CONSTRAINT deliveries_state_check, DROP CONSTRAINT deliveries_open_is_due", &[])
        .await;
    w.sql("UPDATE deliveries SET state = 'TELEPORTED' WHERE id = $1", &[deliveries[0].0]).await;
    w.sql(
        r#"INSERT INTO routes (id, version, tenant_id, event_type, spec, active)
           SELECT id, 99, tenant_id, event_type, spec || '{"of_a_newer_build": true}', false FROM routes"#,
        &[],
    )
    .await;
    w.sql("UPDATE deliveries SET route_version = 99 WHERE id = $1", &[deliveries[1].0]).await;
    let worker = w.worker();
    w.until_state(deliveries[2], DeliveryState::Sent).await;
    worker.stop().await;
    assert_eq!(w.state(deliveries[1]).await, DeliveryState::Pending, "nothing was claimed that can't be composed");
    assert_eq!(w.accepted(), [deliveries[2]]);
}
