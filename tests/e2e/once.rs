//! Once: repeats, edits, parallel posts, big events.

use crate::support::{World, books::states};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_purchase_order_reaches_three_people_with_a_pdf_each() {
    let world = World::new().await;
    let _process = world.start("all").await;
    let job = world.accept(&world.order("e1")).await;
    let finished = world.finished(&job).await;
    assert_eq!(finished["status"], "COMPLETED", "{finished:#}");
    world.all_sent_once(std::slice::from_ref(&job)).await;
    let mails = world.sink.mails();
    assert_eq!(mails.len(), 3);
    for mail in &mails {
        assert_eq!(mail.attachments.len(), 1);
        assert_eq!(mail.attachments[0].content_type, "application/pdf");
        assert!(mail.attachments[0].content.starts_with(b"%PDF-"));
        assert!(mail.subject.contains("PO-4711"), "{}", mail.subject);
        assert_eq!(mail.job_id(), Some(job.as_str()));
    }
    assert_eq!(
        world.count("SELECT count(*) FROM documents WHERE attempts = 1").await,
        1,
        "rendered once for all three"
    );
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_event_is_one_job_the_same_content_is_a_duplicate_and_a_changed_one_goes_out() {
    let world = World::new().await;
    let _process = world.start("all").await;
    let order = world.order("e1");
    let first = world.post(&order).await;
    assert_eq!(
        first.headers()["location"].to_str().unwrap(),
        format!("/jobs/{}", first.headers()["location"].to_str().unwrap().trim_start_matches("/jobs/"))
    );
    let job = first.json::<serde_json::Value>().await.unwrap()["job_id"].as_str().unwrap().to_owned();
    world.finished(&job).await;

    let again = world.post(&order).await;
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!(again.json::<serde_json::Value>().await.unwrap()["job_id"], json!(job));

    let other_event = world.accept(&world.order("e2")).await;
    assert_ne!(other_event, job);
    let duplicate = world.finished(&other_event).await;
    assert_eq!(states(&duplicate), ["DUPLICATE"; 3]);
    assert_eq!(world.sink.accepted(), 3, "the mailbox is unchanged");

    let mut changed = world.order("e3");
    changed["data"]["notes"] = json!("Please ring twice.");
    let edited = world.accept(&changed).await;
    assert_eq!(world.finished(&edited).await["status"], "COMPLETED");
    assert_eq!(world.sink.accepted(), 6);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pg_02_fifty_parallel_posts_with_one_key_are_one_job() {
    let world = World::new().await;
    let _process = world.start("all").await;
    let event = world.note("e1", "s1", 10);
    let post = || {
        world
            .http
            .post(format!("http://{}/events", world.api))
            .bearer_auth(&world.key)
            .header("Idempotency-Key", "\"one\"")
            .json(&event)
            .send()
    };
    let answers = futures::future::join_all((0..50).map(|_| post())).await;
    let mut jobs = Vec::new();
    for answer in answers {
        let answer = answer.unwrap();
        match answer.status().as_u16() {
            202 => jobs.push(answer.json::<serde_json::Value>().await.unwrap()["job_id"].as_str().unwrap().to_owned()),
            // Another one is being committed, or the machine is too busy for all: come again.
            409 | 503 => assert!(answer.headers().contains_key("retry-after")),
            other => panic!("{other}"),
        }
    }
    jobs.sort();
    jobs.dedup();
    assert_eq!(jobs.len(), 1);
    assert_eq!(world.count("SELECT count(*) FROM jobs").await, 1);
    let books = world.all_sent_once(&jobs).await;
    assert_eq!(books.deliveries, 10);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_recipients_in_one_event_are_all_final_and_none_twice() {
    let world = World::with(&[("WAYBILL_REQUEUE_AFTER_MS", "300000")]).await;
    let _process = world.start("all").await;
    // An emulator is much slower than SQS or a table.
    let recipients = if world.aws.is_some() { 2_000 } else { 10_000 };
    let job = world.accept(&world.note("e1", "s1", recipients)).await;
    world.finished_within(&job, std::time::Duration::from_secs(240)).await;
    let books = world.all_sent_once(&[job]).await;
    assert_eq!(books.deliveries, recipients as i64);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_revision_never_goes_out_after_a_newer_one() {
    let world = World::new().await;
    let mut first = world.note("e1", "s1", 2);
    first["revision"] = json!(1);
    let mut second = world.note("e2", "s1", 2);
    second["revision"] = json!(2);
    let process = world.start("all").await;
    let newer = world.accept(&second).await;
    world.finished(&newer).await;
    let older = world.accept(&first).await;
    let finished = world.finished(&older).await;
    assert_eq!(states(&finished), ["SUPERSEDED"; 2], "{finished:#}");
    assert_eq!(world.sink.accepted(), 2);
    drop(process);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rl_02_two_notifications_without_a_subject_both_go_out() {
    let world = World::new().await;
    let _process = world.start("all").await;
    let mut jobs = Vec::new();
    for id in ["e1", "e2"] {
        let mut event = world.note(id, "s", 1);
        event.as_object_mut().unwrap().remove("subject");
        jobs.push(world.accept(&event).await);
    }
    let books = world.all_sent_once(&jobs).await;
    assert_eq!(books.accepted, 2);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ses_02_one_recipient_that_can_t_be_served_fails_alone_and_says_why() {
    let world = World::new().await;
    let _process = world.start("all").await;
    let mut event = world.note("e1", "s1", 2);
    event["recipients"].as_array_mut().unwrap().push(json!({"email": "s\u{f8}ren@example.test"}));
    let job = world.accept(&event).await;
    let finished = world.finished(&job).await;
    assert_eq!(finished["status"], "PARTLY_FAILED");
    let failed: Vec<_> =
        finished["deliveries"]["data"].as_array().unwrap().iter().filter(|d| d["state"] == "FAILED").collect();
    assert_eq!((failed.len(), failed[0]["reason"].as_str()), (1, Some("unsupported_address")));
    assert_eq!(failed[0]["dead_lettered"], false, "a recipient's fault is no dead letter");
    assert_eq!(world.sink.accepted(), 2);
    world.close().await;
}
