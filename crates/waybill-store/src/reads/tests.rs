use super::*;
use crate::{Store, testing::*};
use waybill_core::{
    ids::{DeliveryId, JobId},
    state::{DeliveryState, JobState},
};

async fn listed(store: &Store, filter: &JobFilter) -> Vec<JobId> {
    store.list_jobs(None, filter, None, 100).await.unwrap().into_iter().map(|j| j.id).collect()
}

#[tokio::test]
async fn the_status_is_right_before_anybody_refreshed_the_row() {
    let (db, store) = open().await;
    let job = routed_job(&store, tenant(&store).await, 3).await;
    let statuses = [JobState::Routed, JobState::Routed, JobState::PartlyFailed];
    let states = [DeliveryState::Sent, DeliveryState::Sent, DeliveryState::Bounced];
    for ((delivery, state), status) in job.delivery_ids.iter().zip(states).zip(statuses) {
        force(&store, *delivery, state).await;
        assert_eq!(store.find_job(None, job.job).await.unwrap().unwrap().status, status);
    }
    let view = store.list_jobs(Some(job.tenant), &JobFilter::default(), None, 10).await.unwrap().remove(0);
    assert_eq!(view.deliveries, [(DeliveryState::Bounced, 1), (DeliveryState::Sent, 2)]);
    assert_eq!(view.status, JobState::PartlyFailed);
    db.close().await;
}

#[tokio::test]
async fn another_tenant_s_job_is_not_found() {
    let (db, store) = open().await;
    let (ours, theirs) = (tenant(&store).await, tenant(&store).await);
    let job = accepted(&store, ours).await;
    assert!(store.find_job(Some(theirs), job).await.unwrap().is_none());
    assert!(store.find_job_payload(Some(theirs), job).await.unwrap().is_none());
    assert!(store.list_jobs(Some(theirs), &JobFilter::default(), None, 10).await.unwrap().is_empty());
    assert!(store.find_job(Some(ours), job).await.unwrap().is_some());
    assert_eq!(store.find_job_payload(None, job).await.unwrap().unwrap().data, new_job(ours).data);
    db.close().await;
}

#[tokio::test]
async fn jobs_are_listed_newest_first_in_pages_and_by_filter() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let (a, b) = (routed_job(&store, tenant, 1).await.job, routed_job(&store, tenant, 2).await.job);
    let odd = crate::NewJob { event_type: "other".into(), subject: Some("PO-2".into()), ..new_job(tenant) };
    store.accept(std::slice::from_ref(&odd), &accept_options()).await.unwrap();
    let none = JobFilter::default;
    assert_eq!(listed(&store, &none()).await, [odd.id, b, a]);
    let page = store.list_jobs(Some(tenant), &none(), Some(odd.id), 1).await.unwrap();
    assert_eq!(page.iter().map(|j| j.id).collect::<Vec<_>>(), [b]);
    assert_eq!(listed(&store, &JobFilter { status: Some(JobState::Routed), ..none() }).await, [b, a]);
    assert_eq!(listed(&store, &JobFilter { event_type: Some("other".into()), ..none() }).await, [odd.id]);
    assert_eq!(listed(&store, &JobFilter { subject: Some("PO-2".into()), ..none() }).await, [odd.id]);
    let recipient = |key: &str| JobFilter { recipient_key: Some(key.into()), ..none() };
    assert_eq!(listed(&store, &recipient("r1@example.test")).await, [b]);
    assert_eq!(listed(&store, &recipient("r0@example.test")).await, [b, a]);
    assert_eq!(listed(&store, &recipient("")).await, []);
    let today = now();
    assert_eq!(listed(&store, &JobFilter { since: Some(today + HOUR), ..none() }).await, []);
    assert_eq!(
        listed(&store, &JobFilter { since: Some(today - HOUR), until: Some(today + HOUR), ..none() }).await.len(),
        3
    );
    db.close().await;
}

#[tokio::test]
async fn deliveries_are_listed_in_pages_with_what_people_ask_about() {
    let (db, store) = open().await;
    let job = routed_job(&store, tenant(&store).await, 3).await;
    let [first, second, third] = job.delivery_ids[..] else { panic!() };
    force(&store, first, DeliveryState::Retrying).await;
    force(&store, second, DeliveryState::Unknown).await;
    let views = store.list_deliveries(job.job, None, 2).await.unwrap();
    assert_eq!(views.iter().map(|v| v.id).collect::<Vec<_>>(), [first, second]);
    assert_eq!(views[0].recipient, "R0@example.test");
    assert!(views[0].next_attempt_at.is_some() && views[0].reconcile_until.is_none());
    assert!(views[1].next_attempt_at.is_none() && views[1].reconcile_until.is_some());
    let rest = store.list_deliveries(job.job, Some(second), 10_000).await.unwrap();
    assert_eq!(rest.iter().map(|v| (v.id, v.next_attempt_at)).collect::<Vec<_>>(), [(third, None)]);
    db.close().await;
}

#[tokio::test]
async fn history_is_listed_per_delivery_in_order() {
    let (db, store) = open().await;
    let job = routed_job(&store, tenant(&store).await, 2).await;
    force(&store, job.delivery_ids[1], DeliveryState::Sending).await;
    let ledger = store.list_ledger(&job.delivery_ids).await.unwrap();
    let seen: Vec<(DeliveryId, u32, DeliveryState)> = ledger.iter().map(|e| (e.delivery, e.version, e.state)).collect();
    let (a, b) = (job.delivery_ids[0], job.delivery_ids[1]);
    assert_eq!(seen, [(a, 1, DeliveryState::Pending), (b, 1, DeliveryState::Pending), (b, 2, DeliveryState::Sending)]);
    sqlx::query("INSERT INTO attempts (id, delivery_id, number, claim_token, outcome) VALUES ($1, $2, 1, $1, 'sent')")
        .bind(id())
        .bind(b.uuid())
        .execute(store.pool())
        .await
        .unwrap();
    let attempts = store.list_attempts(&job.delivery_ids).await.unwrap();
    let seen: Vec<_> = attempts.iter().map(|a| (a.delivery, a.number, a.outcome.as_deref())).collect();
    assert_eq!(seen, [(b, 1, Some("sent"))]);
    db.close().await;
}

#[tokio::test]
async fn the_ledger_refuses_every_change() {
    let (db, store) = open().await;
    routed_job(&store, tenant(&store).await, 1).await;
    for sql in ["UPDATE ledger SET state = 'SENT'", "DELETE FROM ledger"] {
        assert!(sqlx::query(sql).execute(store.pool()).await.is_err(), "{sql}");
    }
    db.close().await;
}

#[tokio::test]
async fn counts_tell_open_from_final_and_late_from_due() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let job = routed_job(&store, tenant, 3).await;
    force(&store, job.delivery_ids[0], DeliveryState::Sent).await;
    accepted(&store, tenant).await;
    let pairs = |counts: Vec<StateCount>| {
        // The order is that of the database's collation.
        counts
            .into_iter()
            .map(|c| (c.state, c.count))
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    };
    let row = |state: &str, n: i64| (state.to_owned(), n);
    assert_eq!(pairs(store.delivery_state_counts().await.unwrap()), [row("PENDING", 2), row("SENT", 1)]);
    assert_eq!(pairs(store.open_delivery_counts().await.unwrap()), [row("PENDING", 2)]);
    assert_eq!(pairs(store.open_document_counts().await.unwrap()), []);
    assert_eq!(store.pending_job_count().await.unwrap().count, 1);
    assert_eq!(pairs(store.stuck_counts(SECOND).await.unwrap()), []);
    sqlx::query("UPDATE deliveries SET due_at = now() - interval '1 minute' WHERE id = $1")
        .bind(job.delivery_ids[1].uuid())
        .execute(store.pool())
        .await
        .unwrap();
    sqlx::query("UPDATE jobs SET due_at = now() - interval '1 minute' WHERE state = 'PENDING'")
        .execute(store.pool())
        .await
        .unwrap();
    let stuck = store.stuck_counts(SECOND).await.unwrap();
    assert!(stuck.iter().all(|s| s.oldest_age >= HOUR / 70), "{stuck:?}");
    assert_eq!(pairs(stuck), [row("PENDING", 1), row("job PENDING", 1)]);
    db.close().await;
}
