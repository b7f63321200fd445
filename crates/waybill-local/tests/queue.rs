//! The queue on Postgres against the contract, and what only it promises.

#![allow(clippy::disallowed_methods, reason = "tests run on the real clock")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};
use waybill_core::ports::{EntryError, OutgoingMessage, Queue, QueueName, ReceivedMessage};
use waybill_local::{LocalQueue, LocalQueueConfig};
use waybill_testkit::{contract, db::TestDb};

const NO_WAIT: Duration = Duration::ZERO;
const MINUTE: Duration = Duration::from_secs(60);

fn queue(db: &TestDb) -> LocalQueue {
    LocalQueue::new(db.pool.clone(), LocalQueueConfig { max_receive_count: 3 })
}

fn message(group: &str, body: &str) -> OutgoingMessage {
    OutgoingMessage { body: body.into(), group: Some(group.into()), ..Default::default() }
}

async fn send(queue: &LocalQueue, messages: &[OutgoingMessage]) {
    let results = queue.send_batch(QueueName::Delivery, messages).await.unwrap();
    assert_eq!(results, vec![Ok(()); messages.len()]);
}

async fn take(queue: &LocalQueue, max: usize) -> Vec<ReceivedMessage> {
    queue.receive(QueueName::Delivery, max, NO_WAIT, MINUTE).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_keeps_the_contract_of_the_queue() {
    let db = TestDb::new().await;
    let queue = queue(&db);
    contract::queue::run(contract::queue::Subject {
        queue: &queue,
        max_receive_count: 3,
        tick: Duration::from_millis(500),
        reports_stale_receipts: true,
        forgives_second_delete: true,
        refuses_not_in_flight: true,
        oldest_age: true,
        fair: true,
    })
    .await;
    db.close().await;
}

#[tokio::test]
async fn sqs_09_one_message_does_not_wait_for_ten_thousand_of_another_tenant() {
    let db = TestDb::new().await;
    let queue = queue(&db);
    let backlog: Vec<_> = (0..10_000).map(|n| message("noisy", &format!("{n}"))).collect();
    send(&queue, &backlog).await;
    // So many tenants that wait for later, between the two in the order of names.
    let hour = Duration::from_secs(800);
    let sleepers: Vec<_> =
        (0..300).map(|n| OutgoingMessage { delay: hour, ..message(&format!("p{n}"), "later") }).collect();
    send(&queue, &sleepers).await;
    take(&queue, 10).await;
    send(&queue, &[message("quiet", "b")]).await;
    let (first, second) = (take(&queue, 10).await, take(&queue, 10).await);
    assert_eq!((first.len(), second.len()), (10, 10), "fairness leaves no batch half empty");
    assert!(first.iter().any(|m| m.body == "b"), "served by the next reception");
    db.close().await;
}

#[tokio::test]
async fn every_group_gets_its_turn_even_when_there_are_more_groups_than_a_batch_holds() {
    let db = TestDb::new().await;
    let queue = queue(&db);
    let messages: Vec<_> =
        (0..25).flat_map(|g| (0..20).map(move |n| message(&format!("g{g:02}"), &format!("{g:02} {n}")))).collect();
    send(&queue, &messages).await;
    let mut seen = HashSet::new();
    for _ in 0..3 {
        seen.extend(take(&queue, 10).await.into_iter().map(|m| m.body[..2].to_owned()));
    }
    assert_eq!(seen.len(), 25, "three receptions of ten reach all 25");
    for max in [1, 1, 1] {
        assert_eq!(take(&queue, max).await.len(), 1);
    }
    db.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn receivers_side_by_side_share_a_backlog_and_leave_nothing() {
    let db = TestDb::with_connections(8).await;
    let queue = Arc::new(queue(&db));
    let messages: Vec<_> = (0..2000).map(|n| message(&format!("g{}", n % 3), &format!("{n}"))).collect();
    send(&queue, &messages).await;
    let receivers: Vec<_> = (0..8)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut ids = Vec::new();
                for _ in 0..1000 {
                    let got = queue.receive(QueueName::Delivery, 10, Duration::from_millis(300), MINUTE).await.unwrap();
                    if got.is_empty() {
                        break;
                    }
                    let receipts: Vec<_> = got.iter().map(|m| m.receipt.clone()).collect();
                    ids.extend(got.into_iter().map(|m| m.id));
                    let deleted = queue.delete_batch(QueueName::Delivery, &receipts).await.unwrap();
                    assert_eq!(deleted, vec![Ok(()); receipts.len()]);
                }
                ids
            })
        })
        .collect();
    let mut ids = Vec::new();
    for receiver in receivers {
        ids.extend(receiver.await.unwrap());
    }
    assert_eq!((ids.len(), ids.iter().collect::<HashSet<_>>().len()), (2000, 2000));
    assert!(queue.peek(QueueName::Delivery, 10).await.unwrap().is_empty());
    db.close().await;
}

#[tokio::test]
async fn a_receiver_in_another_process_is_told() {
    let db = TestDb::new().await;
    let (here, there) = (queue(&db), queue(&db));
    // The listener needs a moment to connect; until then a look per second finds messages too.
    there.receive(QueueName::Delivery, 1, Duration::from_millis(1500), MINUTE).await.unwrap();
    let mut fastest = MINUTE;
    for _ in 0..3 {
        let (sent, got) = tokio::join!(
            async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                send(&here, &[message("a", "x")]).await;
                Instant::now()
            },
            there.receive(QueueName::Delivery, 10, Duration::from_secs(10), MINUTE)
        );
        assert_eq!(got.unwrap().len(), 1);
        fastest = fastest.min(sent.elapsed());
    }
    assert!(fastest < Duration::from_millis(250), "told, not found by the look per second: {fastest:?}");
    db.close().await;
}

#[tokio::test]
async fn without_notifications_messages_are_found_within_about_a_second() {
    let db = TestDb::new().await;
    let queue = queue(&db);
    let insert = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        sqlx_insert(&db).await;
        Instant::now()
    };
    let (sent, got) = tokio::join!(insert, queue.receive(QueueName::Delivery, 10, Duration::from_secs(15), MINUTE));
    assert_eq!(got.unwrap()[0].body, "silent");
    assert!(sent.elapsed() < Duration::from_secs(5), "{:?}", sent.elapsed());
    db.close().await;
}

/// As a process does that dies between its INSERT and its NOTIFY.
async fn sqlx_insert(db: &TestDb) {
    sqlx::query("INSERT INTO queue_messages (queue, body) VALUES ('delivery', 'silent')")
        .execute(&db.pool)
        .await
        .unwrap();
}

#[tokio::test]
async fn requests_are_counted_as_sqs_would_and_statements_are_fewer() {
    let db = TestDb::new().await;
    let queue = queue(&db);
    send(&queue, &(0..101).map(|n| message("a", &format!("{n}"))).collect::<Vec<_>>()).await;
    assert_eq!((queue.requests(), queue.statements()), (11, 1));
    let mut got = take(&queue, 10).await;
    got.extend(take(&queue, 10).await);
    assert_eq!((queue.requests(), queue.statements()), (13, 3));
    let receipts: Vec<_> = got.iter().map(|m| m.receipt.clone()).collect();
    queue.delete_batch(QueueName::Delivery, &receipts).await.unwrap();
    queue.depth(QueueName::Delivery).await.unwrap();
    assert_eq!((queue.requests(), queue.statements()), (16, 5));
    let refused = queue.send_batch(QueueName::Delivery, &[message("a", "\0")]).await.unwrap();
    assert!(matches!(refused[0], Err(EntryError::Permanent(_))));
    assert_eq!(queue.requests(), 16, "refused before anything is asked");
    db.close().await;
}

#[tokio::test]
async fn looking_receives_nothing() {
    let db = TestDb::new().await;
    let queue = queue(&db);
    let attributes = vec![("v".to_owned(), "1".to_owned())];
    send(&queue, &[OutgoingMessage { attributes: attributes.clone(), ..message("a", "first") }]).await;
    send(&queue, &[OutgoingMessage { body: "second".into(), delay: MINUTE, ..Default::default() }]).await;
    let shown = queue.peek(QueueName::Delivery, 10).await.unwrap();
    assert_eq!(
        (shown[0].body.as_str(), &shown[0].attributes, shown[0].group.as_deref()),
        ("first", &attributes, Some("a"))
    );
    assert_eq!((shown[1].group.as_deref(), shown[1].in_flight, shown[1].receive_count), (None, false, 0));
    let got = take(&queue, 10).await;
    assert_eq!((got.len(), got[0].receive_count), (1, 1));
    let shown = queue.peek(QueueName::Delivery, 1).await.unwrap();
    assert_eq!((shown.len(), shown[0].in_flight, shown[0].receive_count), (1, true, 1));
    db.close().await;
}

#[tokio::test]
async fn a_database_that_does_not_answer_is_a_temporary_failure() {
    let db = TestDb::new().await;
    let queue = queue(&db);
    send(&queue, &[message("a", "x")]).await;
    let got = take(&queue, 1).await;
    let receipt = got[0].receipt.clone();
    db.pool.close().await;
    let results = queue.send_batch(QueueName::Delivery, &[message("a", "y"), message("a", "")]).await.unwrap();
    assert!(matches!(results[..], [Err(EntryError::Temporary(_)), Err(EntryError::Permanent(_))]), "{results:?}");
    assert!(queue.receive(QueueName::Delivery, 1, NO_WAIT, MINUTE).await.is_err());
    assert!(queue.depth(QueueName::Delivery).await.is_err());
    let deleted = queue.delete_batch(QueueName::Delivery, std::slice::from_ref(&receipt)).await.unwrap();
    assert!(matches!(deleted[..], [Err(EntryError::Temporary(_))]), "{deleted:?}");
    let changed = queue.change_visibility_batch(QueueName::Delivery, &[(receipt, NO_WAIT)]).await.unwrap();
    assert!(matches!(changed[..], [Err(EntryError::Temporary(_))]), "{changed:?}");
    db.close().await;
}

/// Poison in front of everything else: it is moved away, and the same reception goes on to what is good.
#[tokio::test]
async fn sqs_08_a_batch_of_poison_does_not_hold_back_the_good_ones() {
    let db = TestDb::new().await;
    let queue = queue(&db);
    send(&queue, &(0..20).map(|n| message("a", &format!("poison {n}"))).collect::<Vec<_>>()).await;
    for _ in 0..6 {
        let got = take(&queue, 10).await;
        assert_eq!(got.len(), 10);
        let back: Vec<_> = got.into_iter().map(|m| (m.receipt, NO_WAIT)).collect();
        queue.change_visibility_batch(QueueName::Delivery, &back).await.unwrap();
    }
    send(&queue, &[message("a", "good")]).await;
    let got = take(&queue, 10).await;
    assert_eq!(got.iter().map(|m| m.body.as_str()).collect::<Vec<_>>(), ["good"]);
    assert_eq!(queue.peek(QueueName::DeliveryDead, 100).await.unwrap().len(), 20);
    assert_eq!(queue.depth(QueueName::DeliveryDead).await.unwrap().visible, 20);
    db.close().await;
}

/// How the commits of a step were asked to be written, by table row touched.
async fn commits(db: &TestDb) -> Vec<String> {
    let seen = sqlx::query_scalar("DELETE FROM seen_commits RETURNING setting").fetch_all(&db.pool).await.unwrap();
    let mut seen: Vec<String> = seen;
    seen.dedup();
    seen
}

/// docs/decisions/0009: what a row remembers does not wait for the disk; what only the queue has does.
#[tokio::test]
async fn only_messages_that_nothing_else_remembers_wait_for_the_disk() {
    let db = TestDb::new().await;
    let queue = queue(&db);
    sqlx::raw_sql(
        "CREATE TABLE seen_commits (setting text NOT NULL);
         CREATE FUNCTION note_commit() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO seen_commits SELECT current_setting('synchronous_commit'); RETURN NULL; END $$;
         CREATE TRIGGER note_commit AFTER INSERT OR UPDATE OR DELETE ON queue_messages FOR EACH ROW EXECUTE FUNCTION note_commit();",
    )
    .execute(&db.pool)
    .await
    .unwrap();
    for name in QueueName::ALL {
        let remembered = matches!(name, QueueName::Main | QueueName::Delivery);
        assert_eq!(queue.send_batch(name, &[message("a", "x")]).await.unwrap(), [Ok(())]);
        assert_eq!(commits(&db).await, [if remembered { "off" } else { "on" }], "{name:?}");
        let got = queue.receive(name, 1, NO_WAIT, MINUTE).await.unwrap();
        assert_eq!(commits(&db).await, ["off"], "{name:?}");
        let receipt = got[0].receipt.clone();
        assert_eq!(queue.change_visibility_batch(name, &[(receipt.clone(), MINUTE)]).await.unwrap(), [Ok(())]);
        assert_eq!(commits(&db).await, ["off"], "{name:?}");
        assert_eq!(queue.delete_batch(name, &[receipt]).await.unwrap(), [Ok(())]);
        assert_eq!(commits(&db).await, ["off"], "{name:?}");
    }
    // The setting is of the statement, not of the pool's connection.
    let rest: String =
        sqlx::query_scalar("SELECT current_setting('synchronous_commit')").fetch_one(&db.pool).await.unwrap();
    assert_eq!(rest, "on");
    db.close().await;
}
