//! One test per row of the crash table in docs/protocol.md: the real binary, killed with SIGKILL at that step, started again, and then
//! the books are balanced from three sides (posted, database, sink).
//!
//! `cargo xtask crash --times 20` runs each of them twenty times.

#![allow(clippy::disallowed_methods, reason = "tests run on the real clock")]

mod support;

use serde_json::json;
use std::time::{Duration, Instant};
use support::{World, books::states, gate::Gate, queue_gate::QueueGate};
use waybill_core::ports::QueueName;
use waybill_sink::{Fault, FaultKind, Provider};

const RECIPIENTS: usize = 3;

/// Rounds of each test; `cargo xtask crash` sets it.
fn times() -> usize {
    std::env::var("WAYBILL_CRASH_TIMES").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

macro_rules! row {
    ($(#[$doc:meta])* $name:ident, $body:path) => {
        $(#[$doc])*
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            for _ in 0..times() {
                $body().await;
            }
        }
    };
}

row!(/// After commit, before publish: the outbox relay publishes.
    row_01_after_commit_before_publish, after_commit_before_publish);
row!(/// Router after some delivery messages: redelivery decides nothing new and sends the rest.
    row_02_router_after_some_delivery_messages, router_after_some_messages);
row!(/// Worker after the lock, before the claim: the same delivery re-enters its own lock.
    row_03_worker_after_the_lock_before_the_claim, after_lock_before_claim);
row!(/// After the claim, before the provider has it: reconciled, then sent.
    row_04_after_the_claim_before_the_provider_call, after_claim_before_call);
row!(/// After acceptance, before recording: the provider's event settles it without a second mail.
    row_05_after_acceptance_before_recording, after_acceptance_before_recording);
row!(/// The same at Resend, without any event: its idempotency key settles it without a second mail.
    row_05_after_acceptance_before_recording_at_resend, after_acceptance_at_resend);
row!(/// After recording, before delete: redelivery sees SENT.
    row_06_after_recording_before_delete, after_recording_before_delete);
row!(/// Redis flushed: the claim still refuses the second sender.
    row_07_redis_flushed, redis_flushed);
row!(/// Postgres down: nothing is sent, the API answers 503, everything goes on afterwards.
    row_08_postgres_down, postgres_down);
row!(/// A queue message lost: the scheduler queues the row again.
    row_09_queue_message_lost, message_lost);
row!(/// Writing "sent" fails for long after acceptance: never a blind re-send.
    row_10_writing_sent_fails_after_acceptance, writing_sent_fails);
row!(/// A group commit with a bad and a repeated request: each has its own answer.
    row_11_group_commit_with_a_bad_and_a_repeated_request, group_commit);
row!(/// A worker frozen past its claim, then resumed: its late result is counted and sends nothing.
    row_12_worker_frozen_past_its_claim, frozen_worker);
row!(/// The same delivery kills its worker three times: dead letter, the rest goes on.
    row_13_the_same_delivery_kills_its_worker_three_times, poisonous_delivery);

async fn after_commit_before_publish() {
    let world = World::new().await;
    let mut process = world.start("all").await;
    let mut gate = QueueGate::on_sends(&world, QueueName::Main, 0).await;
    let job = world.accept(&world.note("e1", "s1", RECIPIENTS)).await;
    gate.somebody_waits().await;
    process.kill();
    gate.open_after_death().await;
    assert_eq!(world.queue.depth(QueueName::Main).await, 0, "it was not published");
    assert_eq!(world.count("SELECT count(*) FROM outbox").await, 1, "the outbox remembers");
    let _again = world.start("all").await;
    world.all_sent_once(&[job]).await;
    world.close().await;
}

async fn router_after_some_messages() {
    let world = World::new().await;
    let mut process = world.start("all").await;
    // 25 recipients are three requests of ten; the second one stands at the gate.
    let mut gate = QueueGate::on_sends(&world, QueueName::Delivery, 10).await;
    let job = world.accept(&world.note("e1", "s1", 25)).await;
    gate.somebody_waits().await;
    process.kill();
    let decided = world.count("SELECT count(*) FROM deliveries").await;
    assert_eq!(decided, 25, "the decision is one transaction");
    gate.open_after_death().await;
    let _again = world.start("all").await;
    let books = world.all_sent_once(&[job]).await;
    assert_eq!(books.deliveries, 25, "nothing new was decided");
    world.close().await;
}

async fn after_lock_before_claim() {
    let world = World::new().await;
    let mut process = world.start("all").await;
    let mut gate = Gate::close(&world, "INSERT", "sends", "true").await;
    let job = world.accept(&world.note("e1", "s1", RECIPIENTS)).await;
    gate.somebody_waits().await;
    process.kill();
    gate.open_after_death("sends").await;
    assert_eq!((world.count("SELECT count(*) FROM sends").await, world.sink.accepted()), (0, 0));
    let _again = world.start("all").await;
    world.all_sent_once(&[job]).await;
    world.close().await;
}

async fn after_claim_before_call() {
    let world = World::new().await;
    let mut process = world.start("all").await;
    world.sink.set_faults(vec![Fault::new(Provider::Ses, FaultKind::TimeoutBeforeAccept)]);
    let job = world.accept(&world.note("e1", "s1", RECIPIENTS)).await;
    world.until("claims", "SELECT count(*) FROM sends WHERE state = 'claimed'", |n| n > 0).await;
    process.kill();
    world.sink.set_faults(Vec::new());
    assert_eq!(world.sink.accepted(), 0);
    let _again = world.start("all").await;
    world.all_sent_once(std::slice::from_ref(&job)).await;
    assert!(
        world.count("SELECT count(*) FROM attempts WHERE outcome = 'crashed'").await > 0,
        "the attempt that never ended is on record"
    );
    world.close().await;
}

async fn after_acceptance_before_recording() {
    let world = World::new().await;
    let mut process = world.start("all").await;
    world.sink.set_faults(vec![Fault::new(Provider::Ses, FaultKind::TimeoutAfterAccept)]);
    let job = world.accept(&world.note("e1", "s1", RECIPIENTS)).await;
    let started = Instant::now();
    while world.sink.accepted() == 0 {
        assert!(started.elapsed() < Duration::from_secs(20), "nothing was accepted");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    process.kill();
    world.sink.set_faults(Vec::new());
    let _again = world.start("all").await;
    world.all_sent_once(&[job]).await;
    world.close().await;
}

async fn after_acceptance_at_resend() {
    let world = World::with(&[("WAYBILL_PROVIDERS", "resend,sendgrid"), ("WAYBILL_RESEND_TIMEOUT_MS", "500")]).await;
    world.sink.set_events_target(None);
    let mut process = world.start("all").await;
    world.sink.set_faults(vec![Fault::new(Provider::Resend, FaultKind::TimeoutAfterAccept)]);
    let job = world.accept(&world.note("e1", "s1", RECIPIENTS)).await;
    let started = Instant::now();
    while world.sink.accepted() == 0 {
        assert!(started.elapsed() < Duration::from_secs(20), "nothing was accepted");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    process.kill();
    world.sink.set_faults(Vec::new());
    let accepted = world.sink.accepted();
    let _again = world.start("all").await;
    world.all_sent_once(&[job]).await;
    assert!(world.sink.requests("resend") >= RECIPIENTS as u64 + accepted, "it was asked again");
    assert_eq!(world.sink.requests("sendgrid"), 0, "nobody else was asked");
    world.close().await;
}

async fn after_recording_before_delete() {
    let world = World::new().await;
    let mut process = world.start("all").await;
    let mut gate = QueueGate::on_deletes(&world, QueueName::Delivery).await;
    let job = world.accept(&world.note("e1", "s1", RECIPIENTS)).await;
    gate.somebody_waits().await;
    world.until("sent", "SELECT count(*) FROM deliveries WHERE sent_at IS NOT NULL", |n| n == RECIPIENTS as i64).await;
    process.kill();
    gate.open_after_death().await;
    assert_eq!(world.queue.depth(QueueName::Delivery).await, RECIPIENTS as u64);
    let _again = world.start("all").await;
    world.queue.until("messages", QueueName::Delivery, 0).await;
    world.all_sent_once(&[job]).await;
    world.close().await;
}

async fn redis_flushed() {
    let redis = support::own_redis();
    let world = World::with(&[("REDIS_URL", &redis.url())]).await;
    let _process = world.start("all").await;
    world.sink.set_faults(vec![Fault::new(Provider::Ses, FaultKind::Slow).delay(Duration::from_millis(700))]);
    let first = world.accept(&world.note("e1", "s1", RECIPIENTS)).await;
    world.until("claims", "SELECT count(*) FROM sends WHERE state = 'claimed'", |n| n == RECIPIENTS as i64).await;
    support::flush(&redis).await;
    // The same content again while the first is being sent and no lock is left.
    let second = world.accept(&world.note("e2", "s1", RECIPIENTS)).await;
    let books = world.balanced(&[first, second.clone()]).await;
    assert_eq!((books.accepted, books.doubled), (RECIPIENTS as u64, 0));
    assert!(states(&world.job(&second).await).iter().all(|s| *s == "DUPLICATE"));
    world.close().await;
}

async fn postgres_down() {
    let mut server = support::own_postgres().await;
    let world = World::on_server(server.url()).await;
    let _process = world.start("all").await;
    let first = world.accept(&world.note("e1", "s1", RECIPIENTS)).await;
    world.finished(&first).await;
    let before = world.sink.accepted();
    let mut server = tokio::task::spawn_blocking(move || {
        server.stop().expect("stops PostgreSQL");
        server
    })
    .await
    .expect("stops");
    let refused = world.post(&world.note("e2", "s2", RECIPIENTS)).await;
    assert_eq!(refused.status().as_u16(), 503);
    assert!(refused.headers().contains_key("retry-after"));
    assert_eq!(world.sink.accepted(), before, "nothing is sent while the authority is away");
    let server = tokio::task::spawn_blocking(move || {
        server.restart().expect("starts PostgreSQL");
        server
    })
    .await
    .expect("starts");
    let second = world.accept(&world.note("e2", "s2", RECIPIENTS)).await;
    world.all_sent_once(&[first, second]).await;
    world.close().await;
    drop(server);
}

async fn message_lost() {
    let world = World::new().await;
    // No worker yet: the messages are there to be lost.
    let mut api = world.start("api").await;
    let mut router = world.start("router").await;
    let job = world.accept(&world.note("e1", "s1", RECIPIENTS)).await;
    world.queue.until("messages", QueueName::Delivery, RECIPIENTS as u64).await;
    world.queue.until("the router's last step", QueueName::Main, 0).await;
    assert_eq!(world.queue.lose(QueueName::Delivery).await, RECIPIENTS);
    router.kill();
    api.kill();
    let _again = world.start("all").await;
    world.all_sent_once(&[job]).await;
    assert!(world.count("SELECT count(*) FROM deliveries WHERE requeues > 0").await > 0, "found by their due time");
    world.close().await;
}

async fn writing_sent_fails() {
    let world = World::new().await;
    let _process = world.start("all").await;
    let mut gate = Gate::close(&world, "UPDATE", "deliveries", "NEW.state = 'SENT'").await;
    let job = world.accept(&world.note("e1", "s1", RECIPIENTS)).await;
    gate.somebody_waits().await;
    // Longer than the claim and the reconcile window together.
    tokio::time::sleep(Duration::from_millis(4_500)).await;
    let accepted = world.sink.accepted();
    assert_eq!(accepted, RECIPIENTS as u64, "nothing was sent again");
    gate.open_after_death("deliveries").await;
    world.all_sent_once(&[job]).await;
    world.close().await;
}

async fn group_commit() {
    let world = World::new().await;
    let _process = world.start("all").await;
    let bad = json!({"id": "bad", "source": "/tests", "type": "note.posted", "data": {"name": "Ana\u{0}"}});
    let repeated = world.note("same", "of the repeated one", 1);
    let other = {
        let mut other = repeated.clone();
        other["data"]["text"] = json!("changed");
        other
    };
    let good: Vec<_> = (0..20).map(|i| world.note(&format!("e{i}"), &format!("s{i}"), 1)).collect();
    let events = [&bad, &repeated, &repeated, &repeated].into_iter().chain(&good);
    let posts = events.map(|event| world.post_patiently(event));
    let answers = futures::future::join_all(posts).await;
    let codes: Vec<u16> = answers.iter().map(|a| a.status().as_u16()).collect();
    assert_eq!(codes[0], 400, "{codes:?}");
    assert!(codes[1..].iter().all(|c| *c == 202), "{codes:?}");
    assert_eq!(world.post(&other).await.status().as_u16(), 422);
    let mut jobs = Vec::new();
    for answer in answers.into_iter().skip(1) {
        let body: serde_json::Value = answer.json().await.expect("JSON");
        jobs.push(body["job_id"].as_str().expect("an id").to_owned());
    }
    jobs.sort();
    jobs.dedup();
    assert_eq!(jobs.len(), 21, "the repeated one is one job");
    let books = world.all_sent_once(&jobs).await;
    assert_eq!(books.deliveries, 21);
    world.close().await;
}

async fn frozen_worker() {
    let world = World::new().await;
    let _api = world.start("api").await;
    let _router = world.start("router").await;
    let _scheduler = world.start("scheduler").await;
    let frozen = world.start("worker").await;
    world.sink.set_faults(vec![Fault::new(Provider::Ses, FaultKind::Slow).delay(Duration::from_millis(850))]);
    let job = world.accept(&world.note("e1", "s1", RECIPIENTS)).await;
    // Frozen with its requests at the provider. A process frozen between its last look at the clock and the socket write is the window
    // that no protocol closes; it is counted (`frozen`), and it is not this row.
    let started = Instant::now();
    while world.sink.requests("ses") < RECIPIENTS as u64 {
        assert!(started.elapsed() < Duration::from_secs(20), "no requests arrived");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    frozen.signal("STOP");
    world.sink.set_faults(Vec::new());
    // The claims expire while it sleeps; another worker takes over what is to be taken over.
    let _second = world.start("worker").await;
    world.until("expired claims", "SELECT count(*) FROM sends WHERE state = 'claimed'", |n| n == 0).await;
    world.finished(&job).await;
    let late_before = world.count("SELECT count(*) FROM late_results").await;
    frozen.signal("CONT");
    world.until("late results", "SELECT count(*) FROM late_results", |n| n > late_before).await;
    world.all_sent_once(&[job]).await;
    world.close().await;
}

async fn poisonous_delivery() {
    let world = World::new().await;
    let _api = world.start("api").await;
    let _router = world.start("router").await;
    let _scheduler = world.start("scheduler").await;
    // One address makes its worker hang in the call, where it is killed; the others are served.
    world.sink.set_faults(vec![
        Fault::new(Provider::Ses, FaultKind::TimeoutBeforeAccept).for_recipient("r0@"),
        Fault::new(Provider::SendGrid, FaultKind::TimeoutBeforeAccept).for_recipient("r0@"),
    ]);
    let job = world.accept(&world.note("e1", "s1", RECIPIENTS)).await;
    for crash in 0..3 {
        let mut worker = world.start("worker").await;
        world.until("a claim by this worker", "SELECT count(*) FROM attempts a JOIN deliveries d ON d.id = a.delivery_id WHERE d.recipient LIKE 'r0@%' AND a.ended_at IS NULL", |n| n == 1).await;
        // Its neighbours are recorded before it dies, but for the first round.
        world
            .until(
                "the neighbours",
                "SELECT count(*) FROM deliveries WHERE recipient NOT LIKE 'r0@%' AND sent_at IS NOT NULL",
                |n| n == RECIPIENTS as i64 - 1,
            )
            .await;
        worker.kill();
        world
            .until("the crash on record", "SELECT crashes::bigint FROM deliveries WHERE recipient LIKE 'r0@%'", |n| {
                n == crash + 1
            })
            .await;
    }
    let _worker = world.start("worker").await;
    let finished = world.finished(&job).await;
    assert_eq!(finished["status"], "PARTLY_FAILED", "{finished:#}");
    let books = world.balanced(&[job]).await;
    assert_eq!((books.sent, books.accepted, books.doubled), (RECIPIENTS as i64 - 1, RECIPIENTS as u64 - 1, 0));
    assert_eq!(world.count("SELECT count(*) FROM deliveries WHERE state = 'FAILED' AND reason = 'worker_crashed' AND dead_lettered_at IS NOT NULL").await, 1);
    world.close().await;
}
