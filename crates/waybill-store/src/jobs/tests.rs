use super::*;
use crate::testing::*;
use waybill_core::{
    ids::DeliveryId,
    state::{DeliveryState, Reason},
};

async fn stored(store: &Store, job: JobId) -> String {
    sqlx::query_scalar("SELECT state FROM jobs WHERE id = $1").bind(job.uuid()).fetch_one(store.pool()).await.unwrap()
}

/// Every pair and triple of states: 15 * 16 / 2 + 15 * 16 * 17 / 6 sets, and all singles.
fn sets() -> Vec<Vec<DeliveryState>> {
    let all = DeliveryState::ALL;
    let mut out = Vec::new();
    for (i, a) in all.iter().enumerate() {
        out.push(vec![*a]);
        for (j, b) in all.iter().enumerate().skip(i) {
            out.push(vec![*a, *b]);
            out.extend(all.iter().skip(j).map(|c| vec![*a, *b, *c]));
        }
    }
    out
}

#[tokio::test]
async fn the_status_in_sql_is_core_s_for_every_set_of_up_to_three_states() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let sets = sets();
    let events: Vec<_> = sets.iter().map(|_| new_job(tenant)).collect();
    store.accept(&events, &accept_options()).await.unwrap();
    let jobs: Vec<_> = sets.iter().zip(&events).map(|(s, e)| routed(tenant, e.id, s.len(), None)).collect();
    store.record_routing(&jobs, &routing_options()).await.unwrap();
    let ids: Vec<Uuid> = jobs.iter().flat_map(|j| j.delivery_ids.iter().map(|d| d.uuid())).collect();
    let states: Vec<&str> = sets.iter().flatten().map(|s| s.as_str()).collect();
    let open: Vec<bool> = sets.iter().flatten().map(|s| !s.is_final()).collect();
    sqlx::query(
        "UPDATE deliveries d SET state = i.state, due_at = CASE WHEN i.open THEN now() END
         FROM unnest($1::uuid[], $2::text[], $3::bool[]) AS i (id, state, open) WHERE d.id = i.id",
    )
    .bind(&ids)
    .bind(&states)
    .bind(&open)
    .execute(store.pool())
    .await
    .unwrap();
    let job_ids: Vec<JobId> = jobs.iter().map(|j| j.job).collect();
    let changed: std::collections::HashMap<JobId, JobState> =
        store.refresh_job_states(&job_ids).await.unwrap().into_iter().collect();
    assert_eq!(sets.len(), 15 + 120 + 680);
    for (set, job) in sets.iter().zip(&job_ids) {
        assert_eq!(changed.get(job).copied(), JobState::of(set.iter().copied()), "{set:?}");
        let view = store.find_job(None, *job).await.unwrap().unwrap();
        assert_eq!(view.status, JobState::of(set.iter().copied()).unwrap_or(JobState::Routed), "{set:?}");
    }
    assert_eq!(store.refresh_job_states(&job_ids).await.unwrap(), []);
    db.close().await;
}

#[tokio::test]
async fn feedback_after_the_end_changes_the_status_and_a_reopened_delivery_reopens_the_job() {
    let (db, store) = open().await;
    let job = routed_job(&store, tenant(&store).await, 1).await;
    for (state, status) in [
        (DeliveryState::Sent, JobState::Completed),
        (DeliveryState::Bounced, JobState::Failed),
        (DeliveryState::Pending, JobState::Routed),
    ] {
        force(&store, job.delivery_ids[0], state).await;
        assert_eq!(store.refresh_job_states(&[job.job]).await.unwrap(), [(job.job, status)]);
    }
    db.close().await;
}

#[tokio::test]
async fn the_sweep_refreshes_what_was_forgotten_and_nothing_else() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let (ended, open) = (routed_job(&store, tenant, 1).await, routed_job(&store, tenant, 2).await);
    force(&store, ended.delivery_ids[0], DeliveryState::Sent).await;
    force(&store, open.delivery_ids[0], DeliveryState::Sent).await;
    assert_eq!(store.refresh_routed_jobs(HOUR, 10).await.unwrap(), []);
    let swept = store.refresh_routed_jobs(Duration::ZERO, 10).await.unwrap();
    assert_eq!(swept, [(ended.job, JobState::Completed)]);
    db.close().await;
}

#[tokio::test]
async fn a_refresh_with_an_older_view_does_not_overwrite_a_newer_one() {
    let (db, store) = open().await;
    let job = routed_job(&store, tenant(&store).await, 1).await;
    force(&store, job.delivery_ids[0], DeliveryState::Sent).await;
    // Somebody with a newer view holds the row; ours has looked already and waits.
    let mut newer = store.pool().begin().await.unwrap();
    sqlx::query("UPDATE jobs SET state = 'FAILED'").execute(&mut *newer).await.unwrap();
    let older = tokio::spawn({
        let (store, id) = (store.clone(), job.job);
        async move { store.refresh_job_states(&[id]).await.unwrap() }
    });
    until_blocked(&store, 1).await;
    newer.commit().await.unwrap();
    assert_eq!(older.await.unwrap(), []);
    assert_eq!(stored(&store, job.job).await, "FAILED");
    db.close().await;
}

#[tokio::test]
async fn a_refresh_does_not_close_a_job_that_is_being_redriven() {
    let (db, store) = open().await;
    let job = routed_job(&store, tenant(&store).await, 1).await;
    force(&store, job.delivery_ids[0], DeliveryState::Failed).await;
    let mut redrive = store.pool().begin().await.unwrap();
    sqlx::query("UPDATE jobs SET state = 'ROUTED', routed_at = clock_timestamp()")
        .execute(&mut *redrive)
        .await
        .unwrap();
    let refresh = tokio::spawn({
        let (store, id) = (store.clone(), job.job);
        async move { store.refresh_job_states(&[id]).await.unwrap() }
    });
    until_blocked(&store, 1).await;
    redrive.commit().await.unwrap();
    assert_eq!(refresh.await.unwrap(), []);
    assert_eq!(stored(&store, job.job).await, "ROUTED");
    db.close().await;
}

#[tokio::test]
async fn sqs_06_a_job_whose_message_expired_is_published_again_until_it_is_routed() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let (lost, fresh) = (accepted(&store, tenant).await, accepted(&store, tenant).await);
    // Published and confirmed, so the outbox has forgotten it; then the queue lost it.
    store.delete_published(&[lost, fresh]).await.unwrap();
    assert_eq!(store.release_due_jobs(10, HOUR).await.unwrap(), []);
    let late = "UPDATE jobs SET due_at = now() WHERE id = $1";
    sqlx::query(late).bind(lost.uuid()).execute(store.pool()).await.unwrap();
    assert_eq!(store.release_due_jobs(10, HOUR).await.unwrap(), [(lost, tenant)]);
    assert_eq!(store.release_due_jobs(10, HOUR).await.unwrap(), []);
    sqlx::query(late).bind(lost.uuid()).execute(store.pool()).await.unwrap();
    assert_eq!(store.release_due_jobs(10, HOUR).await.unwrap(), [(lost, tenant)]);
    assert_eq!(number(&store, "SELECT max(requeues)::bigint FROM jobs").await, 2);
    store.record_routing(&[routed(tenant, lost, 1, None)], &routing_options()).await.unwrap();
    assert_eq!(number(&store, "SELECT count(*) FROM jobs WHERE due_at IS NOT NULL").await, 1);
    db.close().await;
}

#[tokio::test]
async fn a_pending_job_is_cancelled_at_once_and_no_router_takes_it_up() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let job = accepted(&store, tenant).await;
    let none = CancelSummary { cancelled: 0, already_final: 0, in_progress: 0 };
    assert_eq!(store.cancel_job(tenant, job).await.unwrap(), Some(none));
    assert_eq!(store.record_routing(&[routed(tenant, job, 2, None)], &routing_options()).await.unwrap().jobs, []);
    let view = store.find_job(Some(tenant), job).await.unwrap().unwrap();
    assert_eq!((view.status, view.reason), (JobState::Cancelled, Some(Reason::Cancelled)));
    assert_eq!(store.cancel_job(tenant, job).await.unwrap(), Some(none));
    db.close().await;
}

#[tokio::test]
async fn cancelling_stops_what_no_provider_can_have_and_says_what_it_could_not_stop() {
    use DeliveryState::*;
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let states = [Pending, WaitingDocument, Retrying, Sending, Unknown, Unknown, Sent, Failed];
    let job = routed_job(&store, tenant, states.len()).await;
    for (delivery, state) in job.delivery_ids.iter().zip(states) {
        if state != Pending {
            force(&store, *delivery, state).await;
        }
    }
    let held = job.delivery_ids[5];
    sqlx::query(
        "WITH h AS (UPDATE deliveries SET held = true WHERE id = $1 RETURNING *)
         INSERT INTO sends (tenant_id, identity, state, delivery_id, job_created_at) SELECT tenant_id, identity, 'unknown', id, now() FROM h",
    )
    .bind(held.uuid())
    .execute(store.pool())
    .await
    .unwrap();
    let summary = store.cancel_job(tenant, job.job).await.unwrap();
    assert_eq!(summary, Some(CancelSummary { cancelled: 4, already_final: 2, in_progress: 2 }));
    let mut after = Vec::new();
    for delivery in &job.delivery_ids {
        after.push(state(&store, *delivery).await);
    }
    assert_eq!(after, [Cancelled, Cancelled, Cancelled, Sending, Unknown, Cancelled, Sent, Failed]);
    assert_eq!(number(&store, "SELECT count(*) FROM sends WHERE state = 'released'").await, 1);
    assert_eq!(number(&store, "SELECT count(*) FROM jobs WHERE cancel_requested_at IS NOT NULL").await, 1);
    assert_eq!(store.find_job(None, job.job).await.unwrap().unwrap().status, JobState::Routed);
    db.close().await;
}

#[tokio::test]
async fn a_job_that_has_ended_is_not_marked_and_another_tenant_s_is_not_found() {
    let (db, store) = open().await;
    let job = routed_job(&store, tenant(&store).await, 1).await;
    force(&store, job.delivery_ids[0], DeliveryState::Sent).await;
    let ended = CancelSummary { cancelled: 0, already_final: 1, in_progress: 0 };
    assert_eq!(store.cancel_job(job.tenant, job.job).await.unwrap(), Some(ended));
    assert_eq!(store.cancel_job(tenant(&store).await, job.job).await.unwrap(), None);
    assert_eq!(number(&store, "SELECT count(*) FROM jobs WHERE cancel_requested_at IS NOT NULL").await, 0);
    db.close().await;
}

#[tokio::test]
async fn a_cancel_that_meets_the_router_cancels_what_the_router_just_inserted() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let job = accepted(&store, tenant).await;
    let delivery = DeliveryId(id());
    let mut router = store.pool().begin().await.unwrap();
    sqlx::query(
        "WITH j AS (UPDATE jobs SET state = 'ROUTED', routed_at = now(), due_at = NULL WHERE id = $1),
              l AS (INSERT INTO ledger (delivery_id, version, state) VALUES ($2, 1, 'PENDING'))
         INSERT INTO deliveries (id, tenant_id, job_id, route_id, route_version, channel, recipient, recipient_name, identity, state, due_at)
         VALUES ($2, $3, $1, $2, 1, 'email', 'a@example.test', '', $4, 'PENDING', now())",
    )
    .bind(job.uuid())
    .bind(delivery.uuid())
    .bind(tenant.uuid())
    .bind(hash())
    .execute(&mut *router)
    .await
    .unwrap();
    let cancel = tokio::spawn({
        let store = store.clone();
        async move { store.cancel_job(tenant, job).await.unwrap() }
    });
    until_blocked(&store, 1).await;
    router.commit().await.unwrap();
    assert_eq!(cancel.await.unwrap(), Some(CancelSummary { cancelled: 1, already_final: 0, in_progress: 0 }));
    assert_eq!(state(&store, delivery).await, DeliveryState::Cancelled);
    assert_eq!(stored(&store, job).await, "CANCELLED");
    db.close().await;
}
