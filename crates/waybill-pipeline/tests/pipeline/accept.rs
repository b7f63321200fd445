//! Accepting and publishing.

use crate::world::{World, event};
use sqlx::Row;
use uuid::Uuid;
use waybill_core::{
    ids::{JobId, TenantId},
    ports::{EntryError, QueueName},
};
use waybill_pipeline::{
    accept::{AcceptAnswer, AcceptError},
    relay,
};
use waybill_testkit::fakes::SendFault;

const ANA: &[&str] = &["ana@example.test"];

#[tokio::test]
async fn pg_04_a_post_that_can_t_be_stored_and_a_repeated_one_have_their_own_answers_and_their_neighbours_commit() {
    let w = World::new().await;
    let (first, second, third) = (w.event(ANA), w.event(ANA), w.event(ANA));
    let other = event(&serde_json::json!({
        "id": first.id, "source": "/orders", "type": "order.created", "recipients": [], "data": {"other": true},
    }));
    let nobody = TenantId(Uuid::now_v7());
    let posts = [
        (w.tenant, &first),
        (w.tenant, &second),
        (w.tenant, &second),
        (nobody, &third),
        (w.tenant, &other),
        (w.tenant, &third),
    ];
    let answers = futures::future::join_all(posts.map(|(tenant, event)| w.acceptor.accept(tenant, event, None))).await;
    let new = |n: usize| matches!(answers[n], Ok(AcceptAnswer::New(_)));
    let (replay, reused) = (
        |n: usize| matches!(answers[n], Ok(AcceptAnswer::Replay(_))),
        |n: usize| matches!(answers[n], Ok(AcceptAnswer::KeyReused(_))),
    );
    // They came at the same moment, so either of two may have been the first.
    assert!(new(1) && replay(2) || new(2) && replay(1), "{answers:?}");
    assert!(new(0) && reused(4) || new(4) && reused(0), "{answers:?}");
    assert_eq!((&answers[3], new(5)), (&Err(AcceptError::Internal), true), "{answers:?}");
    assert_eq!(w.number("SELECT count(*) FROM jobs").await, 3);
    w.published().await;
    assert_eq!(w.queue.peek(QueueName::Main).len(), 3);
    w.check().await;
}

#[tokio::test]
async fn pg_02_fifty_posts_with_one_key_at_once_make_one_job() {
    let w = World::new().await;
    let event = w.event(ANA);
    let posts = (0..50).map(|_| w.acceptor.accept(w.tenant, &event, Some("k-1")));
    let answers = futures::future::join_all(posts).await;
    let new: Vec<JobId> =
        answers.iter().filter_map(|a| if let Ok(AcceptAnswer::New(job)) = a { Some(*job) } else { None }).collect();
    let [job] = new[..] else { panic!("{answers:?}") };
    let others =
        answers.iter().filter(|a| **a == Ok(AcceptAnswer::Replay(job)) || **a == Ok(AcceptAnswer::Busy)).count();
    assert_eq!(others, 49, "{answers:?}");
    assert_eq!(w.number("SELECT count(*) FROM jobs").await, 1);
}

#[tokio::test]
async fn pg_02_a_post_whose_key_another_transaction_holds_is_busy_and_its_neighbour_commits() {
    for winner_commits in [false, true] {
        let w = World::new().await;
        let (contested, neighbour) = (w.event(ANA), w.event(ANA));
        // Another process is in the middle of accepting the same event.
        let theirs = w.accept(&contested).await;
        w.published().await;
        let row =
            sqlx::query("DELETE FROM idempotency RETURNING key_hash, fingerprint").fetch_one(&w.db.pool).await.unwrap();
        let mut transaction = w.db.pool.begin().await.unwrap();
        sqlx::query("INSERT INTO idempotency VALUES ($1, $2, $3, $4, now() + interval '1 day')")
            .bind(w.tenant.0)
            .bind(row.get::<Vec<u8>, _>("key_hash"))
            .bind(row.get::<Vec<u8>, _>("fingerprint"))
            .bind(theirs.0)
            .execute(&mut *transaction)
            .await
            .unwrap();
        let (ours, next) =
            tokio::join!(w.acceptor.accept(w.tenant, &contested, None), w.acceptor.accept(w.tenant, &neighbour, None));
        assert_eq!(ours, Ok(AcceptAnswer::Busy));
        assert!(matches!(next, Ok(AcceptAnswer::New(_))), "{next:?}");
        let again = if winner_commits {
            transaction.commit().await.unwrap();
            w.acceptor.accept(w.tenant, &contested, None).await == Ok(AcceptAnswer::Replay(theirs))
        } else {
            transaction.rollback().await.unwrap();
            matches!(w.acceptor.accept(w.tenant, &contested, None).await, Ok(AcceptAnswer::New(_)))
        };
        assert!(again, "winner_commits: {winner_commits}");
        w.check().await;
    }
}

#[tokio::test]
async fn a_queue_that_is_down_at_publication_loses_nothing_and_the_relay_publishes_later() {
    let w = World::new().await;
    w.queue.set_down(true);
    w.accept(&w.event(ANA)).await;
    w.until("a publication was tried", async || w.queue.requests() > 0).await;
    assert_eq!(relay::run_once(&w.context).await.unwrap(), 0, "still down");
    assert_eq!(w.number("SELECT count(*) FROM outbox").await, 1);
    w.queue.set_down(false);
    assert_eq!(relay::run_once(&w.context).await.unwrap(), 0, "not due yet: another relay may be at it");
    w.sql("UPDATE outbox SET publish_after = now()", &[]).await;
    assert_eq!(relay::run_once(&w.context).await.unwrap(), 1);
    assert_eq!((w.queue.peek(QueueName::Main).len(), w.number("SELECT count(*) FROM outbox").await), (1, 0));
}

#[tokio::test]
async fn sqs_01_only_the_entries_that_the_queue_confirmed_leave_the_outbox() {
    let w = World::new().await;
    let faults = [
        SendFault::Failed(vec![(1, EntryError::Temporary("InternalError".into()))]),
        SendFault::Unaccounted { positions: vec![0], stored: false },
    ];
    w.queue.script_sends(faults);
    let events: Vec<_> = (0..20).map(|_| w.event(ANA)).collect();
    let answers = w.acceptor.accept_all(w.tenant, &events).await;
    assert!(answers.iter().all(|a| matches!(a, Ok(AcceptAnswer::New(_)))), "{answers:?}");
    w.until("two entries are left", async || w.number("SELECT count(*) FROM outbox").await == 2).await;
    assert_eq!(relay::run_once(&w.context).await.unwrap(), 2);
    let mut bodies: Vec<_> = w.queue.peek(QueueName::Main).into_iter().map(|m| m.body).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!((bodies.len(), w.number("SELECT count(*) FROM outbox").await), (20, 0));
}

#[tokio::test]
async fn a_database_that_is_away_answers_unavailable_and_a_later_post_goes_through() {
    let w = World::new().await;
    let event = w.event(ANA);
    sqlx::query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
        .execute(&w.db.pool)
        .await
        .unwrap();
    // Some of the pool's connections are broken now; each answer is honest, and soon one is good.
    for _ in 0..20 {
        match w.acceptor.accept(w.tenant, &event, None).await {
            Err(AcceptError::Unavailable) => {}
            Ok(AcceptAnswer::New(_) | AcceptAnswer::Replay(_)) => return w.check().await,
            other => panic!("{other:?}"),
        }
    }
    panic!("never accepted");
}
