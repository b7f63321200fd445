use super::*;
use crate::testing::*;
use sqlx::{Postgres, Transaction};

async fn one(store: &Store, job: &NewJob) -> Accepted {
    store.accept(std::slice::from_ref(job), &accept_options()).await.unwrap()[0]
}

async fn jobs(store: &Store) -> i64 {
    number(store, "SELECT count(*) FROM jobs").await
}

/// The same event posted again: same keys and content, a new id.
fn again(job: &NewJob) -> NewJob {
    NewJob { id: JobId(id()), ..job.clone() }
}

/// A transaction that has stored `job` and has not committed yet.
async fn holding(store: &Store, job: &NewJob) -> Transaction<'static, Postgres> {
    let mut transaction = store.pool().begin().await.unwrap();
    insert_by_hand(&mut transaction, job).await;
    transaction
}

async fn insert_by_hand(connection: &mut sqlx::PgConnection, job: &NewJob) {
    sqlx::query(
        "INSERT INTO jobs (id, tenant_id, event_id, source, type, revision, recipients, data, due_at)
         VALUES ($1, $2, 'e', '/s', 't', '1', '[]', '{}', now())",
    )
    .bind(job.id.uuid())
    .bind(job.tenant.uuid())
    .execute(&mut *connection)
    .await
    .unwrap();
    sqlx::query(
        "INSERT INTO idempotency (tenant_id, key_hash, fingerprint, job_id, expires_at) VALUES ($1, $2, $3, $4, now() + interval '1 day')",
    )
    .bind(job.tenant.uuid())
    .bind(job.keys[0])
    .bind(job.fingerprint)
    .bind(job.id.uuid())
    .execute(&mut *connection)
    .await
    .unwrap();
}

/// Posts the same event `count` times at once, from as many tasks.
fn posts(store: &Store, job: &NewJob, count: usize) -> tokio::task::JoinSet<Accepted> {
    let mut set = tokio::task::JoinSet::new();
    for _ in 0..count {
        let (store, job) = (store.clone(), again(job));
        set.spawn(async move { one(&store, &job).await });
    }
    set
}

#[tokio::test]
async fn a_slice_of_new_events_is_one_round_trip_and_keeps_every_digit() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let slice = [new_job(tenant), new_job(tenant), new_job(tenant)];
    let before = store.statements();
    let answers = store.accept(&slice, &accept_options()).await.unwrap();
    assert_eq!(store.statements() - before, 1);
    assert_eq!(answers, [Accepted::New; 3]);
    let data =
        number(&store, "SELECT count(*) FROM jobs WHERE data LIKE '%12345678901234567890.10}' AND state = 'PENDING'")
            .await;
    assert_eq!(data, 3);
    assert_eq!(number(&store, "SELECT count(*) FROM outbox o JOIN jobs j ON j.id = o.job_id").await, 3);
    assert_eq!(number(&store, "SELECT count(*) FROM idempotency").await, 3);
    db.close().await;
}

#[tokio::test]
async fn a_repeat_is_a_replay_and_other_content_under_the_same_key_is_refused() {
    let (db, store) = open().await;
    let job = new_job(tenant(&store).await);
    assert_eq!(one(&store, &job).await, Accepted::New);
    assert_eq!(one(&store, &again(&job)).await, Accepted::Replay { job: job.id });
    let other = NewJob { fingerprint: hash(), ..again(&job) };
    assert_eq!(one(&store, &other).await, Accepted::KeyReused { job: job.id });
    assert_eq!(jobs(&store).await, 1);
    db.close().await;
}

#[tokio::test]
async fn a_call_whose_answer_was_lost_can_be_repeated() {
    let (db, store) = open().await;
    let job = new_job(tenant(&store).await);
    assert_eq!(one(&store, &job).await, Accepted::New);
    assert_eq!(one(&store, &job).await, Accepted::New);
    assert_eq!(jobs(&store).await, 1);
    db.close().await;
}

#[tokio::test]
async fn either_of_two_keys_finds_the_job_and_keys_of_two_jobs_are_refused() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let (k1, k2, k3) = (hash(), hash(), hash());
    let a = NewJob { keys: vec![k1, k2], ..new_job(tenant) };
    let b = NewJob { keys: vec![k3], fingerprint: a.fingerprint, ..new_job(tenant) };
    assert_eq!(store.accept(&[a.clone(), b.clone()], &accept_options()).await.unwrap(), [Accepted::New; 2]);
    for keys in [vec![k1], vec![k2], vec![k2, k1], vec![hash(), k2]] {
        assert_eq!(one(&store, &NewJob { keys, ..again(&a) }).await, Accepted::Replay { job: a.id });
    }
    assert!(matches!(one(&store, &NewJob { keys: vec![k1, k3], ..again(&a) }).await, Accepted::KeyReused { .. }));
    assert_eq!(jobs(&store).await, 2);
    db.close().await;
}

#[tokio::test]
async fn of_twins_in_one_slice_the_first_wins() {
    let (db, store) = open().await;
    let job = new_job(tenant(&store).await);
    let odd = NewJob { fingerprint: hash(), ..again(&job) };
    let neighbour = new_job(job.tenant);
    let slice = [job.clone(), again(&job), odd, neighbour, again(&job)];
    let replay = Accepted::Replay { job: job.id };
    let before = store.statements();
    let answers = store.accept(&slice, &accept_options()).await.unwrap();
    assert_eq!(answers, [Accepted::New, replay, Accepted::KeyReused { job: job.id }, Accepted::New, replay]);
    assert_eq!(store.statements() - before, 1);
    assert_eq!(jobs(&store).await, 2);
    db.close().await;
}

#[tokio::test]
async fn the_twin_of_an_event_that_was_no_new_job_is_judged_by_itself() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let (held, free) = (hash(), hash());
    let old = NewJob { keys: vec![held], ..new_job(tenant) };
    assert_eq!(one(&store, &old).await, Accepted::New);
    let repeat = NewJob { keys: vec![held, free], ..again(&old) };
    let twin = NewJob { keys: vec![free], ..new_job(tenant) };
    let answers = store.accept(&[repeat, twin.clone(), again(&twin)], &accept_options()).await.unwrap();
    assert_eq!(answers, [Accepted::Replay { job: old.id }, Accepted::New, Accepted::Replay { job: twin.id }]);
    db.close().await;
}

#[tokio::test]
async fn pg_02_fifty_posts_at_once_make_one_job() {
    let (db, store) = open_with(12).await;
    let job = new_job(tenant(&store).await);
    let answers = posts(&store, &job, 50).join_all().await;
    assert_eq!(answers.iter().filter(|a| **a == Accepted::New).count(), 1);
    assert_eq!(answers.iter().filter(|a| matches!(a, Accepted::Replay { .. })).count(), 49);
    assert_eq!((jobs(&store).await, number(&store, "SELECT count(*) FROM outbox").await), (1, 1));
    db.close().await;
}

#[tokio::test]
async fn pg_02_losers_wait_for_a_winner_that_commits_late() {
    let (db, store) = open_with(12).await;
    let job = new_job(tenant(&store).await);
    let winner = holding(&store, &job).await;
    let losers = posts(&store, &job, 49);
    // The losers hold every connection of their pool.
    until_blocked(&Store::connect(&db.url, 1, HOUR).await.unwrap(), 5).await;
    winner.commit().await.unwrap();
    assert_eq!(losers.join_all().await, vec![Accepted::Replay { job: job.id }; 49]);
    assert_eq!(jobs(&store).await, 1);
    db.close().await;
}

#[tokio::test]
async fn pg_02_when_the_winner_rolls_back_one_loser_succeeds() {
    let (db, store) = open_with(12).await;
    let job = new_job(tenant(&store).await);
    let winner = holding(&store, &job).await;
    let losers = posts(&store, &job, 49);
    // The losers hold every connection of their pool.
    until_blocked(&Store::connect(&db.url, 1, HOUR).await.unwrap(), 5).await;
    winner.rollback().await.unwrap();
    let answers = losers.join_all().await;
    assert_eq!(answers.iter().filter(|a| **a == Accepted::New).count(), 1);
    assert_eq!(answers.iter().filter(|a| matches!(a, Accepted::Replay { .. })).count(), 48);
    assert_eq!(jobs(&store).await, 1);
    db.close().await;
}

#[tokio::test]
async fn pg_02_the_same_key_of_two_tenants_is_two_keys() {
    let (db, store) = open().await;
    let a = new_job(tenant(&store).await);
    let b = NewJob { tenant: tenant(&store).await, ..again(&a) };
    let winner = holding(&store, &a).await;
    assert_eq!(one(&store, &b).await, Accepted::New);
    winner.rollback().await.unwrap();
    assert_eq!(
        store.accept(&[a, again(&b)], &accept_options()).await.unwrap(),
        [Accepted::New, Accepted::Replay { job: b.id }]
    );
    db.close().await;
}

#[tokio::test]
async fn pg_02_a_key_that_stays_held_is_busy_alone_and_a_conflict_in_a_slice() {
    let (db, store) = open().await;
    let job = new_job(tenant(&store).await);
    let neighbour = new_job(job.tenant);
    let winner = holding(&store, &job).await;
    let options = AcceptOptions { lock_timeout: Duration::from_millis(50), ..accept_options() };
    let slice = [again(&job), neighbour.clone()];
    assert!(matches!(store.accept(&slice, &options).await, Err(StoreError::Conflict { .. })));
    assert_eq!(store.accept(&slice[..1], &options).await.unwrap(), [Accepted::Busy]);
    assert_eq!(store.accept(&slice[1..], &options).await.unwrap(), [Accepted::New]);
    winner.commit().await.unwrap();
    // The time-out was that statement's own: the connections of the pool do not keep it.
    for _ in 0..8 {
        assert_eq!(sqlx::query_scalar::<_, String>("SHOW lock_timeout").fetch_one(store.pool()).await.unwrap(), "0");
    }
    db.close().await;
}

#[tokio::test]
async fn keys_are_taken_in_their_order_so_that_two_slices_wait_and_do_not_deadlock() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let small = NewJob { keys: vec![[1; 32]], ..new_job(tenant) };
    let large = NewJob { keys: vec![[2; 32]], ..new_job(tenant) };
    let mut other = holding(&store, &small).await;
    let slice = tokio::spawn({
        let (store, slice) = (store.clone(), [again(&large), again(&small)]);
        async move { store.accept(&slice, &accept_options()).await }
    });
    until_blocked(&store, 1).await;
    // The slice waits for the small key and has not touched the large one.
    insert_by_hand(&mut other, &large).await;
    other.commit().await.unwrap();
    let answers = slice.await.unwrap().unwrap();
    assert_eq!(answers, [Accepted::Replay { job: large.id }, Accepted::Replay { job: small.id }]);
    db.close().await;
}

#[tokio::test]
async fn slices_that_race_for_the_same_keys_accept_each_once() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    for _ in 0..10 {
        let slice: Vec<NewJob> = (0..10).map(|_| new_job(tenant)).collect();
        let reversed: Vec<NewJob> = slice.iter().rev().map(again).collect();
        let options = accept_options();
        let (a, b) = tokio::join!(store.accept(&slice, &options), store.accept(&reversed, &options));
        let new = a.unwrap().into_iter().chain(b.unwrap()).filter(|x| *x == Accepted::New).count();
        assert_eq!(new, 10);
    }
    assert_eq!(jobs(&store).await, 100);
    db.close().await;
}

#[tokio::test]
async fn pg_04_a_nul_spoils_its_slice_once_and_its_neighbours_never() {
    let (db, store) = open().await;
    let good = new_job(tenant(&store).await);
    let bad = NewJob { data: "{\"name\":\"Ana\0\"}".into(), ..new_job(good.tenant) };
    // The six characters of an escape are text like any other.
    let escaped = NewJob { data: r#"{"name":"Ana\\u0000"}"#.into(), ..new_job(good.tenant) };
    let slice = [good, bad, escaped];
    assert!(matches!(store.accept(&slice, &accept_options()).await, Err(StoreError::Database { .. })));
    assert_eq!(jobs(&store).await, 0);
    let mut alone = Vec::new();
    for job in &slice {
        alone.push(store.accept(std::slice::from_ref(job), &accept_options()).await.ok());
    }
    assert_eq!(alone, [Some(vec![Accepted::New]), None, Some(vec![Accepted::New])]);
    assert_eq!(number(&store, "SELECT count(*) FROM idempotency").await, 2);
    db.close().await;
}

#[tokio::test]
async fn a_key_counts_until_it_is_swept() {
    let (db, store) = open().await;
    let job = new_job(tenant(&store).await);
    let options = AcceptOptions { idempotency_ttl: Duration::ZERO, ..accept_options() };
    assert_eq!(store.accept(std::slice::from_ref(&job), &options).await.unwrap(), [Accepted::New]);
    let kept = new_job(job.tenant);
    assert_eq!(one(&store, &kept).await, Accepted::New);
    assert_eq!(one(&store, &again(&job)).await, Accepted::Replay { job: job.id });
    assert_eq!(store.delete_expired_idempotency(10).await.unwrap(), 1);
    assert_eq!(one(&store, &again(&job)).await, Accepted::New);
    assert_eq!(one(&store, &again(&kept)).await, Accepted::Replay { job: kept.id });
    db.close().await;
}

#[tokio::test]
async fn the_order_of_acceptance_is_that_of_the_slice_and_of_the_calls() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let keyed = || NewJob { ordering_key: Some("k".into()), ..new_job(tenant) };
    let slice = [keyed(), keyed(), keyed(), new_job(tenant)];
    store.accept(&slice, &accept_options()).await.unwrap();
    let later = keyed();
    assert_eq!(one(&store, &later).await, Accepted::New);
    let mut wanted: Vec<uuid::Uuid> = slice.iter().map(|job| job.id.uuid()).collect();
    wanted.push(later.id.uuid());
    let by_seq: Vec<uuid::Uuid> =
        sqlx::query_scalar("SELECT id FROM jobs ORDER BY seq").fetch_all(store.pool()).await.unwrap();
    assert_eq!(by_seq, wanted);
    let in_line =
        "SELECT count(*) FROM jobs WHERE ordering_key = 'k' AND ordering_due_at > now() AND ordering_head_at IS NULL";
    assert_eq!(number(&store, in_line).await, 4);
    assert_eq!(number(&store, "SELECT count(*) FROM jobs WHERE ordering_due_at IS NOT NULL").await, 4);
    db.close().await;
}
