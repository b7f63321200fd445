//! Starting, stopping, and configurations that can't be started with.

use crate::support::World;
use std::{process::Command, time::Duration};

/// What the providers' folders want to see before anything starts.
const ACCOUNTS: [(&str, &str); 2] = [("AWS_REGION", "eu-central-1"), ("WAYBILL_SENDGRID_API_KEY", "SG.test")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_03_a_stop_under_load_finishes_what_was_begun_and_loses_nothing() {
    let world = World::new().await;
    let mut process = world.start("all").await;
    let mut jobs = Vec::new();
    for i in 0..30 {
        jobs.push(world.accept(&world.note(&format!("e{i}"), &format!("s{i}"), 5)).await);
    }
    process.signal("TERM");
    let status = process.wait(Duration::from_secs(10)).await;
    assert_eq!(status.and_then(|s| s.code()), Some(0), "{}", process.log());
    assert_eq!(world.count("SELECT count(*) FROM sends WHERE state = 'claimed'").await, 0, "no claim is left behind");
    let _again = world.start("all").await;
    let books = world.all_sent_once(&jobs).await;
    assert_eq!(books.deliveries, 150);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqs_04_three_rolling_restarts_deliver_once_and_leave_no_dead_letters() {
    let world = World::new().await;
    let _api = world.start("api").await;
    let _router = world.start("router").await;
    let _scheduler = world.start("scheduler").await;
    let mut jobs = Vec::new();
    for round in 0..3 {
        let mut worker = world.start("worker").await;
        for i in 0..10 {
            jobs.push(world.accept(&world.note(&format!("e{round}-{i}"), &format!("s{round}-{i}"), 3)).await);
        }
        worker.signal("TERM");
        assert!(worker.wait(Duration::from_secs(10)).await.is_some_and(|s| s.success()), "{}", worker.log());
    }
    let _worker = world.start("worker").await;
    let books = world.all_sent_once(&jobs).await;
    assert_eq!(books.deliveries, 90);
    assert_eq!(world.queue.dead_letters().await, 0);
    world.close().await;
}

#[test]
fn a_wrong_configuration_refuses_to_start_and_names_every_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_waybill"))
        .env_clear()
        .arg("worker")
        .env("WAYBILL_CLAIM_TTL_MS", "1000")
        .env("WAYBILL_API_LISTEN", "nonsense")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    for wanted in ["DATABASE_URL", "WAYBILL_API_LISTEN", "claim's expiry"] {
        assert!(words.contains(wanted), "{wanted} in {words}");
    }
}

#[test]
fn a_database_that_does_not_answer_is_one_clear_line() {
    let output = Command::new(env!("CARGO_BIN_EXE_waybill"))
        .env_clear()
        .arg("worker")
        .envs(ACCOUNTS)
        .env("DATABASE_URL", "postgres://x@127.0.0.1:9/x")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && words.contains("PostgreSQL (DATABASE_URL) can't be reached"), "{words}");
}

#[tokio::test]
async fn a_taken_port_is_one_clear_line() {
    let world = World::new().await;
    let _taken = tokio::net::TcpListener::bind(world.api).await.unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_waybill"))
        .arg("api")
        .envs(ACCOUNTS)
        .env("DATABASE_URL", &world.db.url)
        .env("WAYBILL_API_LISTEN", world.api.to_string())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(words.contains("WAYBILL_API_LISTEN") && words.contains("another waybill running?"), "{words}");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_log_of_a_whole_run_holds_an_address_a_key_or_a_body() {
    let world = World::with(&[("RUST_LOG", "debug")]).await;
    let process = world.start("all").await;
    let job = world.accept(&world.order("e1")).await;
    world.all_sent_once(&[job]).await;
    let log = process.log();
    assert!(log.len() > 1_000, "there is a log");
    for mail in world.sink.mails() {
        assert!(!log.contains(&mail.to), "an address is in the log");
    }
    for secret in [world.key.as_str(), "SG.test", "inbound-secret-of-the-tests", "%PDF-"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
    world.close().await;
}
