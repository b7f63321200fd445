use super::*;
use crate::testing::*;
use std::collections::HashMap;

async fn late_row(store: &Store, tenant: TenantId) -> (sqlx::Transaction<'static, sqlx::Postgres>, JobId) {
    let (mut transaction, job) = (store.pool().begin().await.unwrap(), id());
    sqlx::query(
        "WITH j AS (INSERT INTO jobs (id, tenant_id, event_id, source, type, revision, recipients, data, due_at)
                    VALUES ($1, $2, 'e', '/s', 't', '1', '[]', '{}', now()))
         INSERT INTO outbox (job_id, tenant_id, publish_after) VALUES ($1, $2, now())",
    )
    .bind(job)
    .bind(tenant.uuid())
    .execute(&mut *transaction)
    .await
    .unwrap();
    (transaction, job.into())
}

async fn claim(store: &Store) -> Vec<JobId> {
    store.claim_outbox(100, HOUR).await.unwrap().into_iter().map(|r| r.job).collect()
}

#[tokio::test]
async fn pg_01_a_row_that_commits_late_is_published() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let (first, job) = late_row(&store, tenant).await;
    let second = accepted(&store, tenant).await;
    assert!(second > job);
    assert_eq!(claim(&store).await, [second]);
    first.commit().await.unwrap();
    assert_eq!(claim(&store).await, [job]);
    assert_eq!(claim(&store).await, []);
    db.close().await;
}

#[tokio::test]
async fn pg_01_a_rollback_leaves_no_gap_to_wait_for() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let (first, _) = late_row(&store, tenant).await;
    first.rollback().await.unwrap();
    let second = accepted(&store, tenant).await;
    assert_eq!(claim(&store).await, [second]);
    db.close().await;
}

#[tokio::test]
async fn pg_01_two_relays_beside_two_hundred_writers_take_each_row_once() {
    let (db, store) = open_with(12).await;
    let tenant = tenant(&store).await;
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let store = store.clone();
        writers.spawn(async move { accepted(&store, tenant).await });
    }
    let mut relays = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let store = store.clone();
        relays.spawn(async move {
            let mut taken = Vec::new();
            for _ in 0..200 {
                taken.extend(store.claim_outbox(7, HOUR).await.unwrap().into_iter().map(|r| r.job));
                if number(&store, "SELECT count(*) FROM outbox WHERE attempts > 0").await == 200 {
                    break;
                }
            }
            taken
        });
    }
    let mut written = writers.join_all().await;
    let mut taken = relays.join_all().await.concat();
    taken.extend(claim(&store).await);
    written.sort_unstable();
    taken.sort_unstable();
    assert_eq!(taken, written);
    db.close().await;
}

#[tokio::test]
async fn a_claimed_row_comes_back_unless_it_is_deleted() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let (a, b) = (accepted(&store, tenant).await, accepted(&store, tenant).await);
    assert_eq!(store.claim_outbox(100, Duration::ZERO).await.unwrap().len(), 2);
    store.delete_published(&[a]).await.unwrap();
    let rows = store.claim_outbox(100, HOUR).await.unwrap();
    let seen: HashMap<JobId, i32> = rows.into_iter().map(|r| (r.job, r.attempts)).collect();
    assert_eq!(seen, HashMap::from([(b, 2)]));
    assert_eq!(store.outbox_count().await.unwrap(), 1);
    assert!(store.outbox_lag().await.unwrap().unwrap() < HOUR);
    store.delete_published(&[a, b]).await.unwrap();
    assert_eq!(store.outbox_lag().await.unwrap(), None);
    db.close().await;
}

#[tokio::test]
async fn the_relay_leaves_a_fresh_row_to_the_api() {
    let (db, store) = open().await;
    let job = new_job(tenant(&store).await);
    let options = crate::AcceptOptions { outbox_grace: SECOND, ..accept_options() };
    store.accept(std::slice::from_ref(&job), &options).await.unwrap();
    assert_eq!(claim(&store).await, []);
    tokio::time::sleep(SECOND).await;
    assert_eq!(claim(&store).await, [job.id]);
    db.close().await;
}
