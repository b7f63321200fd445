//! One decision per job, one message per recipient, and the main message deleted last.

use crate::world::{World, plain};
use std::{collections::HashSet, time::Duration};
use waybill_core::{
    message::{JobMessage, encode},
    ports::{EntryError, QueueName},
    route::RouteSpec,
    state::DeliveryState,
};
use waybill_pipeline::router;
use waybill_testkit::fakes::SendFault;

const TEN: [&str; 10] = [
    "a@example.test",
    "b@example.test",
    "c@example.test",
    "d@example.test",
    "e@example.test",
    "f@example.test",
    "g@example.test",
    "h@example.test",
    "i@example.test",
    "j@example.test",
];

/// A main message that comes back soon after it was not deleted.
async fn soon() -> World {
    World::with(|setup| setup.settings.timings.visibility_timeout = Duration::from_millis(400)).await
}

fn temporary() -> EntryError {
    EntryError::Temporary("InternalError".into())
}

#[tokio::test]
async fn entries_that_fail_once_are_tried_again_at_once_and_alone() {
    let w = World::new().await;
    let job = w.accept(&w.event(&TEN)).await;
    w.published().await;
    w.queue.script_sends([SendFault::Failed(vec![(3, temporary()), (7, temporary())])]);
    assert!(router::route(&w.context, &[job]).await.unwrap().contains(&job));
    assert_eq!(w.queue.peek(QueueName::Delivery).len(), 10, "no repeats either");
}

#[tokio::test]
async fn bad_rows_among_ten_jobs_hurt_only_themselves() {
    let w = World::new().await;
    let mut jobs = Vec::new();
    for n in 0..10 {
        let recipient = if n == 7 { "refused@example.test" } else { "ana@example.test" };
        jobs.push(w.accept(&w.event(&[recipient])).await);
    }
    w.published().await;
    w.sql("UPDATE jobs SET data = '{' WHERE id = $1", &[jobs[3].0]).await;
    w.sql(r#"UPDATE jobs SET recipients = '[{"email": "no address"}]' WHERE id = $1"#, &[jobs[5].0]).await;
    w.sql("ALTER TABLE deliveries ADD CONSTRAINT refused CHECK (recipient <> 'refused@example.test')", &[]).await;
    let router = w.router();
    w.until("nine are done", async || w.queue.peek(QueueName::Main).len() == 1).await;
    router.stop().await;
    for (n, job) in jobs.iter().enumerate() {
        let (state, reason) = w.job(*job).await;
        match n {
            3 | 5 => assert_eq!((state.as_str(), reason.as_deref()), ("FAILED", Some("no_recipients")), "{n}"),
            7 => assert_eq!(state, "PENDING", "its message comes back"),
            _ => assert_eq!(state, "ROUTED", "{n}"),
        }
    }
    w.work().await;
    assert_eq!(w.accepted().len(), 7);
    w.sql("ALTER TABLE deliveries DROP CONSTRAINT refused", &[]).await;
    assert!(router::route(&w.context, &jobs).await.unwrap().contains(&jobs[7]));
    w.work().await;
    assert_eq!(w.accepted().len(), 8);
    w.check().await;
}

#[tokio::test]
async fn a_route_of_a_newer_build_leaves_its_jobs_to_that_build() {
    let w = World::new().await;
    let (waits, neighbour) = (w.accept(&w.event(&TEN)).await, w.accept(&w.event(&TEN)).await);
    w.sql("UPDATE jobs SET type = 'order.later' WHERE id = $1", &[waits.0]).await;
    w.sql(
        r#"INSERT INTO routes (id, version, tenant_id, event_type, spec)
           SELECT gen_random_uuid(), 1, tenant_id, 'order.later', spec || '{"of_a_newer_build": true}' FROM routes"#,
        &[],
    )
    .await;
    let finished = router::route(&w.context, &[waits, neighbour]).await.unwrap();
    assert_eq!(finished, HashSet::from([neighbour]), "the other's message stays");
    assert_eq!(w.job(waits).await.0, "PENDING", "not decided without it");
    assert_eq!(w.deliveries(waits).await, []);
    w.check().await;
}

#[tokio::test]
async fn a_route_edited_between_the_decision_and_the_redelivery_can_t_mix_two_decisions() {
    let w = soon().await;
    let job = w.accept(&w.event(&TEN)).await;
    w.published().await;
    w.queue.script_sends([SendFault::Refused, SendFault::Refused]);
    assert!(!router::route(&w.context, &[job]).await.unwrap().contains(&job), "the main message is kept");
    let decided = w.deliveries(job).await;
    let mut edited = RouteSpec { dedupe: false, ..plain() };
    edited.mail.subject = "Edited".into();
    assert_eq!(w.put_route(&edited).await, 2);
    assert!(router::route(&w.context, &[job]).await.unwrap().contains(&job));
    assert_eq!(w.deliveries(job).await, decided);
    w.work().await;
    let mails = w.ses.accepted();
    assert_eq!(mails.len(), 10);
    assert!(mails.iter().all(|m| m.subject.starts_with("Order PO-")), "{:?}", mails[0].subject);
    assert_eq!(w.number("SELECT count(*) FROM deliveries WHERE route_version <> 1").await, 0);
    w.check().await;
}

#[tokio::test]
async fn sqs_08_poison_goes_to_the_dead_letter_queue_a_newer_version_waits_and_the_good_one_goes_on() {
    let w = World::new().await;
    let job = w.accept(&w.event(&TEN[..1])).await;
    w.published().await;
    for body in ["{\"job\":", "null", "[]", "{\"v\":999,\"what\":[]}"] {
        w.send(QueueName::Main, body).await;
    }
    // For a job that is not there (a restored database) nothing can be done.
    w.send(QueueName::Main, &encode(&JobMessage::new(waybill_core::ids::JobId(uuid::Uuid::now_v7())))).await;
    let router = w.router();
    w.until("one is left", async || w.queue.peek(QueueName::Main).len() == 1).await;
    router.stop().await;
    assert_eq!(w.job(job).await.0, "ROUTED");
    let dead: HashSet<String> = w.queue.peek(QueueName::MainDead).into_iter().map(|m| m.body).collect();
    assert_eq!(dead, HashSet::from(["{\"job\":", "null", "[]"].map(String::from)));
    let left = &w.queue.peek(QueueName::Main)[0];
    assert!(left.body.contains("999") && left.hidden, "it comes back for a build that understands it");

    for body in ["{\"delivery\":", "null", "[]", "{\"v\":999,\"what\":[]}"] {
        w.send(QueueName::Delivery, body).await;
    }
    let worker = w.worker();
    w.until("one is left", async || w.queue.peek(QueueName::Delivery).len() == 1).await;
    worker.stop().await;
    assert_eq!(w.dead_entries(), 3);
    assert_eq!(w.state(w.deliveries(job).await[0]).await, DeliveryState::Sent);
    assert_eq!(w.alerts.raised().len(), 1, "one cause, one alert: {:?}", w.alerts.raised());
    w.check().await;
}

/// A copy with these characters would be refused for good, and the message would come back until the end of its days.
#[tokio::test]
async fn sqs_03_poison_with_forbidden_characters_reaches_the_dead_letter_queue() {
    let w = World::new().await;
    w.queue.plant(QueueName::Main, "{\"name\":\"Ana\u{ffff}\"}");
    w.queue.plant(QueueName::Main, "a\0b");
    let router = w.router();
    w.until("all are moved", async || w.queue.peek(QueueName::Main).is_empty()).await;
    router.stop().await;
    let dead: HashSet<String> = w.queue.peek(QueueName::MainDead).into_iter().map(|m| m.body).collect();
    assert_eq!(dead, HashSet::from(["{\"name\":\"Ana\\uffff\"}", "a\\u0000b"].map(String::from)));
}

#[tokio::test]
async fn a_job_that_two_routers_decide_at_once_is_decided_once() {
    let w = World::new().await;
    for _ in 0..10 {
        let job = w.accept(&w.event(&TEN)).await;
        let jobs = [job];
        let (one, two) = tokio::join!(router::route(&w.context, &jobs), router::route(&w.context, &jobs));
        assert!(one.unwrap().contains(&job) && two.unwrap().contains(&job));
        assert_eq!(w.deliveries(job).await.len(), 10);
    }
    w.work().await;
    assert_eq!(w.accepted().len(), 100);
    w.check().await;
}

#[tokio::test]
async fn sqs_01_the_main_message_is_deleted_only_when_all_are_sent_and_nothing_new_is_decided() {
    let permanent = EntryError::Permanent("InvalidMessageContents".into());
    let cases = [
        // a: entries that failed; entry 3 fails again when it is tried alone.
        vec![SendFault::Failed(vec![(3, temporary()), (7, permanent)]), SendFault::Failed(vec![(0, temporary())])],
        // b: an entry that the answer does not mention, stored and not.
        vec![
            SendFault::Unaccounted { positions: vec![4], stored: false },
            SendFault::Unaccounted { positions: vec![0], stored: true },
        ],
        // c: the connection fails after everything was stored.
        vec![SendFault::AnswerLost, SendFault::AnswerLost],
        vec![SendFault::Refused, SendFault::Refused],
    ];
    for faults in cases {
        let w = soon().await;
        let job = w.accept(&w.event(&TEN)).await;
        w.published().await;
        w.queue.script_sends(faults.clone());
        let router = w.router();
        w.until("the job is routed", async || w.job(job).await.0 == "ROUTED").await;
        let decided = w.deliveries(job).await;
        w.until("the messages were tried", async || w.queue.requests() > 4).await;
        assert_eq!(w.queue.peek(QueueName::Main).len(), 1, "{faults:?}: kept, for a message is missing");
        w.until_empty(QueueName::Main).await;
        router.stop().await;
        assert_eq!(w.deliveries(job).await, decided, "{faults:?}: nothing new was decided");
        let bodies: HashSet<String> = w.queue.peek(QueueName::Delivery).into_iter().map(|m| m.body).collect();
        assert_eq!(bodies.len(), 10, "{faults:?}: every recipient has a message");
        w.work().await;
        assert_eq!(w.accepted().len(), 10, "{faults:?}: each is sent once");
        w.check().await;
    }
}

#[tokio::test]
async fn duplicates_of_a_main_message_decide_nothing_twice() {
    let w = World::new().await;
    let job = w.accept(&w.event(&TEN)).await;
    w.published().await;
    w.queue.duplicate_next(1);
    let (one, two) = (w.router(), w.router());
    w.until_empty(QueueName::Main).await;
    one.stop().await;
    two.stop().await;
    assert_eq!(w.deliveries(job).await.len(), 10);
    w.queue.duplicate_next(10);
    w.work().await;
    assert_eq!(w.accepted().len(), 10);
    w.check().await;
}

#[tokio::test]
async fn a_job_row_that_can_t_be_read_hurts_only_itself() {
    let w = World::new().await;
    let (good, bad) = (w.accept(&w.event(&TEN)).await, w.accept(&w.event(&TEN)).await);
    w.published().await;
    w.sql("ALTER TABLE jobs DROP CONSTRAINT jobs_state_check, DROP CONSTRAINT jobs_pending_is_due", &[]).await;
    w.sql("UPDATE jobs SET state = 'ARCHIVED' WHERE id = $1", &[bad.0]).await;
    let router = w.router();
    w.until("the good one is routed", async || w.job(good).await.0 == "ROUTED").await;
    w.until("its message is deleted", async || w.queue.peek(QueueName::Main).len() == 1).await;
    router.stop().await;
    assert_eq!(w.deliveries(good).await.len(), 10);
}
