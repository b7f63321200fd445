//! Events that come by queue.

use crate::{
    acts::Role,
    world::{Setup, World},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use sqlx::Row;
use std::{collections::BTreeSet, time::Duration};
use uuid::Uuid;
use waybill_core::{
    ids::TenantId,
    ports::{AlertCause, Queue, QueueName},
};
use waybill_pipeline::{
    accept::{AcceptAnswer, Acceptor},
    intake,
};
use waybill_testkit::fakes::{ObjectCall, ObjectFault};

const SOURCE: &str = "com.acme.orders";

async fn open(change: impl FnOnce(&mut Setup)) -> World {
    let w = World::with(change).await;
    assert!(w.store.allow_intake_source(w.tenant, SOURCE).await.unwrap());
    w
}

/// Messages that were not deleted come back soon.
async fn soon() -> World {
    open(|setup| setup.settings.timings.visibility_timeout = Duration::from_millis(200)).await
}

fn order(id: &str) -> Value {
    json!({"id": id, "source": "/orders", "type": "order.created", "subject": format!("PO-{id}"),
           "recipients": [{"email": "ana@example.test", "name": "Ana"}], "data": {"number": id}})
}

fn envelope(source: &str, detail: &Value) -> String {
    json!({"version": "0", "id": Uuid::now_v7(), "detail-type": "order.created", "source": source,
           "account": "111122223333", "time": "2026-11-30T12:00:00Z", "region": "eu-central-1", "resources": [],
           "detail": detail})
    .to_string()
}

fn claim_check(key: &str, bytes: &[u8]) -> Value {
    let hash: String = Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
    json!({"payload": {"key": key, "size": bytes.len(), "sha256": hash}})
}

async fn send(w: &World, detail: &Value) {
    w.send(QueueName::Intake, &envelope(SOURCE, detail)).await;
}

async fn jobs(w: &World) -> i64 {
    w.number("SELECT count(*) FROM jobs").await
}

async fn take_in(w: &World) {
    let role = w.intake();
    w.until_empty(QueueName::Intake).await;
    role.stop().await;
}

#[tokio::test]
async fn a_batch_of_ten_of_two_tenants_is_one_commit_and_each_event_is_delivered_as_if_it_were_posted() {
    let w = open(|_| {}).await;
    let other = TenantId(Uuid::now_v7());
    assert!(w.store.create_tenant(other, "other", None).await.unwrap());
    assert!(w.store.allow_intake_source(other, "other.shop").await.unwrap());
    for n in 0..10 {
        let source = if n < 7 { SOURCE } else { "other.shop" };
        w.send(QueueName::Intake, &envelope(source, &order(&n.to_string()))).await;
    }
    take_in(&w).await;
    assert_eq!(jobs(&w).await, 10);
    assert_eq!(w.number("SELECT count(DISTINCT xmin::text) FROM jobs").await, 1, "one commit");
    assert_eq!(
        w.number("SELECT count(*) FROM jobs j JOIN tenants t ON t.id = tenant_id WHERE name = 'other'").await,
        3
    );
    w.published().await;
    let router = w.router();
    w.until_empty(QueueName::Main).await;
    router.stop().await;
    w.work().await;
    assert_eq!(w.accepted().len(), 7, "the other tenant has no route");
    assert!(w.buried(QueueName::IntakeDead).await.is_empty());
    w.check().await;
}

#[tokio::test]
async fn repeats_and_archive_replays_and_a_post_of_the_same_event_are_one_job() {
    let w = open(|_| {}).await;
    let event = crate::world::event(&order("1"));
    assert!(matches!(w.acceptor.accept(w.tenant, &event, None).await, Ok(AcceptAnswer::New(_))));
    // The envelope's id is another each time.
    send(&w, &order("1")).await;
    send(&w, &order("2")).await;
    send(&w, &order("2")).await;
    let mut replay: Value = serde_json::from_str(&envelope(SOURCE, &order("2"))).unwrap();
    replay["replay-name"] = "2026-11".into();
    take_in(&w).await;
    w.send(QueueName::Intake, &replay.to_string()).await;
    take_in(&w).await;
    assert_eq!(jobs(&w).await, 2);
    assert!(w.buried(QueueName::IntakeDead).await.is_empty());
    assert!(w.alerts.raised().is_empty());
}

#[tokio::test]
async fn a_consumer_that_dies_between_commit_and_deletion_leaves_a_message_that_is_found_to_be_a_repeat() {
    let w = soon().await;
    send(&w, &order("1")).await;
    w.queue.fail_next_deletes(1);
    let role = w.intake();
    w.until("it came twice", async || w.queue.peek(QueueName::Intake).first().is_none_or(|m| m.receive_count == 2))
        .await;
    w.until_empty(QueueName::Intake).await;
    role.stop().await;
    assert_eq!(jobs(&w).await, 1);
    assert!(w.buried(QueueName::IntakeDead).await.is_empty());
}

#[tokio::test]
async fn sqs_08_what_can_never_be_accepted_is_dead_lettered_with_its_reason_and_its_neighbours_go_on() {
    let w = open(|setup| setup.settings.limits.max_recipients = 2).await;
    send(&w, &order("used")).await;
    take_in(&w).await;
    let mut other_content = order("used");
    other_content["data"] = json!({"number": "another"});
    let mut too_many = order("3");
    too_many["recipients"] = json!(["a@example.test", "b@example.test", "c@example.test"]);
    let cases = [
        ("{\"detail\":".to_owned(), "not_json", "line 1"),
        (order("1").to_string(), "not_an_envelope", "detail"),
        (envelope("somebody.else", &order("1")), "unknown_source", "source"),
        (envelope("Com.Acme.Orders", &order("1")), "unknown_source", "source"),
        (envelope("a\0b", &order("1")), "unknown_source", "source"),
        (envelope(SOURCE, &too_many), "invalid_event", "/recipients: 3 recipients; the limit max_recipients is 2"),
        (envelope(SOURCE, &json!({"payload": {"key": "documents/a"}})), "invalid_claim_check", "/payload/key"),
        (envelope(SOURCE, &other_content), "idempotency_key_reused", "job_"),
    ];
    for (body, _, _) in &cases {
        w.send(QueueName::Intake, body).await;
    }
    send(&w, &order("good")).await;
    take_in(&w).await;
    assert_eq!(jobs(&w).await, 2, "the good one, and the one before");
    let buried = w.buried(QueueName::IntakeDead).await;
    assert_eq!(buried.len(), cases.len());
    for (body, reason, words) in &cases {
        let Some((_, why, detail)) = buried.iter().find(|(b, _, _)| b == body) else { panic!("{reason}: not there") };
        assert_eq!(why, reason);
        assert!(detail.contains(words), "{reason}: {detail}");
    }
    let alerts = w.alerts.of(AlertCause::DeadLetter);
    let keys: BTreeSet<&str> = alerts.iter().map(|alert| alert.key.as_str()).collect();
    assert_eq!((alerts.len(), keys.len()), (6, 6), "one for each cause: {alerts:?}");
}

#[tokio::test]
async fn a_source_that_was_removed_is_closed_again() {
    let w = open(|_| {}).await;
    assert!(w.store.remove_intake_source(w.tenant, SOURCE).await.unwrap());
    send(&w, &order("1")).await;
    take_in(&w).await;
    assert_eq!((jobs(&w).await, w.buried(QueueName::IntakeDead).await[0].1.as_str()), (0, "unknown_source"));
}

#[tokio::test]
async fn the_event_of_a_claim_check_is_fetched_and_held_against_it() {
    let w = open(|_| {}).await;
    let good = order("1").to_string();
    w.objects.plant("intake/2026/1.json", good.clone());
    w.objects.plant("intake/changed.json", good.replace("PO-1", "PO-2"));
    w.objects.plant("intake/longer.json", good.clone() + " ");
    w.objects.plant("intake/bad.json", "{\"id\":1}");
    send(&w, &claim_check("intake/2026/1.json", good.as_bytes())).await;
    send(&w, &claim_check("intake/changed.json", good.as_bytes())).await;
    send(&w, &claim_check("intake/longer.json", good.as_bytes())).await;
    send(&w, &claim_check("intake/bad.json", b"{\"id\":1}")).await;
    take_in(&w).await;
    let data = "SELECT count(*) FROM jobs WHERE event_id = '1' AND subject = 'PO-1'";
    assert_eq!((jobs(&w).await, w.number(data).await), (1, 1));
    let reasons: BTreeSet<_> = w.buried(QueueName::IntakeDead).await.into_iter().map(|(_, reason, _)| reason).collect();
    let wanted = ["invalid_event", "payload_hash_mismatch", "payload_size_mismatch"];
    assert_eq!(reasons, wanted.map(String::from).into());
}

#[tokio::test]
async fn an_object_that_is_too_large_is_refused_before_it_is_asked_for() {
    let w = open(|setup| setup.settings.max_body_bytes = 1_000).await;
    send(&w, &json!({"payload": {"key": "intake/a", "size": 1_001, "sha256": "00".repeat(32)}})).await;
    take_in(&w).await;
    let buried = w.buried(QueueName::IntakeDead).await;
    assert_eq!((buried[0].1.as_str(), w.objects.calls()), ("event_too_large", 0));
    assert!(buried[0].2.contains("max_body_bytes is 1000"), "{buried:?}");
}

#[tokio::test]
async fn an_object_that_comes_after_its_message_or_is_away_for_a_while_is_waited_for() {
    let w = soon().await;
    let body = order("1").to_string();
    w.objects.fail_next(ObjectCall::Head, ObjectFault::Denied);
    w.objects.fail_next(ObjectCall::Get, ObjectFault::Unavailable);
    send(&w, &claim_check("intake/1.json", body.as_bytes())).await;
    let role = w.intake();
    w.until("denied", async || w.objects.calls() == 1).await;
    w.until("missing", async || w.objects.calls() == 2).await;
    w.objects.plant("intake/1.json", body);
    w.until_empty(QueueName::Intake).await;
    role.stop().await;
    assert_eq!(jobs(&w).await, 1);
    assert!(w.buried(QueueName::IntakeDead).await.is_empty());
}

#[tokio::test]
async fn an_object_that_never_comes_is_a_dead_letter_with_its_reason_when_the_receptions_are_used_up() {
    let w = open(|setup| {
        setup.settings.timings.visibility_timeout = Duration::from_millis(100);
        setup.settings.timings.max_receive_count = 3;
        setup.max_receive_count = 3;
    })
    .await;
    send(&w, &claim_check("intake/1.json", b"{}")).await;
    take_in(&w).await;
    assert_eq!((w.objects.calls(), w.buried(QueueName::IntakeDead).await[0].1.as_str()), (3, "payload_missing"));
}

#[tokio::test]
async fn an_event_whose_key_another_transaction_holds_comes_back_soon() {
    let w = open(|_| {}).await;
    send(&w, &order("1")).await;
    take_in(&w).await;
    let row = sqlx::query("DELETE FROM idempotency RETURNING tenant_id, key_hash, fingerprint, job_id");
    let row = row.fetch_one(&w.db.pool).await.unwrap();
    let mut transaction = w.db.pool.begin().await.unwrap();
    sqlx::query("INSERT INTO idempotency VALUES ($1, $2, $3, $4, now() + interval '1 day')")
        .bind(row.get::<Uuid, _>(0))
        .bind(row.get::<Vec<u8>, _>(1))
        .bind(row.get::<Vec<u8>, _>(2))
        .bind(row.get::<Uuid, _>(3))
        .execute(&mut *transaction)
        .await
        .unwrap();
    send(&w, &order("1")).await;
    send(&w, &order("2")).await;
    let role = w.intake();
    w.until("its neighbour is accepted", async || jobs(&w).await == 2).await;
    w.until("its neighbour is deleted", async || w.queue.peek(QueueName::Intake).len() == 1).await;
    transaction.commit().await.unwrap();
    // Long before the visibility timeout, which is minutes.
    w.until_empty(QueueName::Intake).await;
    role.stop().await;
    assert_eq!(jobs(&w).await, 2);
    assert!(w.buried(QueueName::IntakeDead).await.is_empty());
}

#[tokio::test]
async fn a_database_that_is_away_uses_up_one_reception_and_loses_nothing() {
    let w = soon().await;
    let away = w.no_database().await;
    send(&w, &order("1")).await;
    let acceptor = Acceptor::start(away.clone());
    let role = Role::over(away, |context, life| intake::run(context, acceptor.clone(), life));
    w.until("it was received", async || w.queue.peek(QueueName::Intake)[0].receive_count == 1).await;
    // Many visibility timeouts.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    role.stop().await;
    assert_eq!(w.queue.peek(QueueName::Intake)[0].receive_count, 1, "nobody asks for what nobody can handle");
    take_in(&w).await;
    assert_eq!(jobs(&w).await, 1);
}

#[tokio::test]
async fn sqs_04_a_message_received_while_stopping_is_put_back_at_once() {
    let w = open(|setup| setup.settings.queue_wait = Duration::from_secs(3)).await;
    let role = w.intake();
    tokio::time::sleep(Duration::from_millis(100)).await;
    role.life.soft.cancel();
    send(&w, &order("1")).await;
    role.stop().await;
    let shown = w.queue.peek(QueueName::Intake);
    assert_eq!((shown.len(), shown[0].hidden, shown[0].receive_count), (1, false, 1));
    assert_eq!(jobs(&w).await, 0);
    let again = w.queue.receive(QueueName::Intake, 10, Duration::ZERO, Duration::from_secs(1)).await.unwrap();
    assert_eq!(again.len(), 1, "somebody else takes it");
}
