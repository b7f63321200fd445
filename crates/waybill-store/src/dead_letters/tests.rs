use super::*;
use crate::{RoutedJob, testing::*};
use waybill_core::state::{DeliveryState, DocumentState, JobState};

fn all() -> DeadLetterFilter {
    DeadLetterFilter::default()
}

/// A job whose deliveries are all dead.
async fn dead_job(store: &Store, tenant: TenantId, deliveries: usize) -> RoutedJob {
    let job = routed_job(store, tenant, deliveries).await;
    for delivery in &job.delivery_ids {
        kill(store, *delivery, Reason::ProvidersExhausted).await;
    }
    store.refresh_job_states(&[job.job]).await.unwrap();
    job
}

/// Says that the delivery's identity was sent by another delivery.
async fn sent_by(store: &Store, delivery: DeliveryId, other: DeliveryId) {
    sqlx::query(
        "INSERT INTO sends (tenant_id, identity, state, delivery_id, job_created_at)
         SELECT tenant_id, identity, 'sent', $2, now() FROM deliveries WHERE id = $1",
    )
    .bind(delivery.uuid())
    .bind(other.uuid())
    .execute(store.pool())
    .await
    .unwrap();
}

async fn ids(store: &Store, filter: &DeadLetterFilter) -> Vec<DeliveryId> {
    let listed: Vec<_> =
        store.list_dead_letters(filter, None, 100).await.unwrap().into_iter().map(|d| d.delivery).collect();
    assert_eq!(store.count_dead_letters(filter).await.unwrap(), listed.len() as i64);
    listed
}

#[tokio::test]
async fn dead_letters_are_filtered_and_listed_in_pages() {
    let (db, store) = open().await;
    let (ours, theirs) = (tenant(&store).await, tenant(&store).await);
    let (a, b) = (dead_job(&store, ours, 2).await, dead_job(&store, theirs, 1).await);
    kill(&store, a.delivery_ids[1], Reason::WorkerCrashed).await;
    // Failed, but by its recipient's fault: no dead letter.
    let c = routed_job(&store, ours, 1).await;
    force(&store, c.delivery_ids[0], DeliveryState::Failed).await;
    let (first, second, third) = (a.delivery_ids[0], a.delivery_ids[1], b.delivery_ids[0]);
    assert_eq!(ids(&store, &all()).await, [first, second, third]);
    assert_eq!(ids(&store, &DeadLetterFilter { tenant: Some(ours), ..all() }).await, [first, second]);
    assert_eq!(ids(&store, &DeadLetterFilter { reason: Some(Reason::WorkerCrashed), ..all() }).await, [second]);
    assert_eq!(ids(&store, &DeadLetterFilter { job: Some(b.job), ..all() }).await, [third]);
    assert_eq!(ids(&store, &DeadLetterFilter { delivery: Some(first), ..all() }).await, [first]);
    let (past, future) = (Some(now() - HOUR), Some(now() + HOUR));
    assert_eq!(ids(&store, &DeadLetterFilter { since: past, until: future, ..all() }).await.len(), 3);
    assert_eq!(ids(&store, &DeadLetterFilter { until: past, ..all() }).await, []);
    assert_eq!(ids(&store, &DeadLetterFilter { since: future, ..all() }).await, []);
    let page = store.list_dead_letters(&all(), Some(first), 1).await.unwrap();
    assert_eq!(page.len(), 1);
    assert_eq!((page[0].delivery, page[0].attempts, page[0].crashes), (second, 3, 1));
    assert_eq!((page[0].event_type.as_str(), page[0].already_sent), ("order.placed", false));
    db.close().await;
}

#[tokio::test]
async fn a_redrive_opens_delivery_and_job_with_all_counts_at_zero() {
    let (db, store) = open().await;
    let job = dead_job(&store, tenant(&store).await, 2).await;
    assert_eq!(store.find_job(None, job.job).await.unwrap().unwrap().status, JobState::Failed);
    let (delivery, unknown) = (job.delivery_ids[0], DeliveryId(id()));
    let before = store.statements();
    let done = store.redrive(&[delivery, unknown], HOUR).await.unwrap();
    assert_eq!(store.statements() - before, 1);
    assert_eq!(done, [(delivery, Redriven::Queued), (unknown, Redriven::NotDead)]);
    assert_eq!(state(&store, delivery).await, DeliveryState::Pending);
    let clean = "SELECT count(*) FROM deliveries WHERE attempts = 0 AND crashes = 0 AND reason IS NULL AND dead_lettered_at IS NULL";
    assert_eq!(number(&store, clean).await, 1);
    assert_eq!(number(&store, "SELECT count(*) FROM jobs WHERE state = 'ROUTED'").await, 1);
    assert_eq!(store.redrive(&[delivery], HOUR).await.unwrap(), [(delivery, Redriven::NotDead)]);
    db.close().await;
}

#[tokio::test]
async fn what_another_delivery_sent_meanwhile_is_not_queued_and_no_longer_dead() {
    let (db, store) = open().await;
    let job = dead_job(&store, tenant(&store).await, 1).await;
    let (delivery, other) = (job.delivery_ids[0], DeliveryId(id()));
    sent_by(&store, delivery, other).await;
    assert!(store.list_dead_letters(&all(), None, 1).await.unwrap()[0].already_sent);
    let answer = Redriven::AlreadySent { by: other };
    assert_eq!(store.redrive(&[delivery], HOUR).await.unwrap(), [(delivery, answer)]);
    assert_eq!(state(&store, delivery).await, DeliveryState::Failed);
    assert_eq!(ids(&store, &all()).await, []);
    let view = store.list_deliveries(job.job, None, 1).await.unwrap().remove(0);
    assert_eq!((view.reason, view.other), (Some(Reason::ProvidersExhausted), Some(other)));
    db.close().await;
}

#[tokio::test]
async fn of_two_redrives_at_once_each_delivery_is_queued_by_one() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    for _ in 0..10 {
        let job = dead_job(&store, tenant, 5).await;
        let reversed: Vec<_> = job.delivery_ids.iter().rev().copied().collect();
        let (a, b) = tokio::join!(store.redrive(&job.delivery_ids, HOUR), store.redrive(&reversed, HOUR));
        let queued = a.unwrap().into_iter().chain(b.unwrap()).filter(|(_, what)| *what == Redriven::Queued).count();
        assert_eq!(queued, 5);
        for delivery in &job.delivery_ids {
            assert_eq!(state(&store, *delivery).await, DeliveryState::Pending);
        }
    }
    db.close().await;
}

/// A dead delivery whose document is in the given state, with a deadline that is over or not.
async fn dead_by_document(store: &Store, state: &str, over: bool) -> RoutedJob {
    let tenant = tenant(store).await;
    let job = routed(tenant, accepted(store, tenant).await, 2, Some(planned_document("PO-1")));
    store.record_routing(std::slice::from_ref(&job), &routing_options()).await.unwrap();
    for delivery in &job.delivery_ids {
        kill(store, *delivery, Reason::DocumentRenderFailed).await;
    }
    sqlx::query(
        "UPDATE documents SET state = $2, attempts = 5, deadline_at = now() + CASE WHEN $3 THEN -1 ELSE 1 END * interval '1 minute',
             due_at = CASE WHEN $2 IN ('PENDING', 'RENDERING') THEN now() END,
             claim_token = CASE WHEN $2 = 'RENDERING' THEN id END WHERE id = $1",
    )
    .bind(job.document_ids[0].uuid())
    .bind(state)
    .bind(over)
    .execute(store.pool())
    .await
    .unwrap();
    job
}

#[tokio::test]
async fn a_redrive_renders_a_failed_document_again_and_its_deliveries_wait_for_it() {
    for (before, over, after, attempts, born) in [
        ("FAILED", false, DocumentState::Pending, 0, DeliveryState::WaitingDocument),
        ("FAILED", true, DocumentState::Pending, 0, DeliveryState::WaitingDocument),
        ("PENDING", true, DocumentState::Pending, 0, DeliveryState::WaitingDocument),
        ("PENDING", false, DocumentState::Pending, 5, DeliveryState::WaitingDocument),
        ("RENDERING", true, DocumentState::Rendering, 0, DeliveryState::WaitingDocument),
        ("READY", true, DocumentState::Ready, 5, DeliveryState::Pending),
    ] {
        let (db, store) = open().await;
        let job = dead_by_document(&store, before, over).await;
        let done = store.redrive(&job.delivery_ids, HOUR).await.unwrap();
        assert!(done.iter().all(|(_, what)| *what == Redriven::Queued));
        for view in store.list_deliveries(job.job, None, 10).await.unwrap() {
            assert_eq!(state(&store, view.id).await, born, "{before} {over}");
            let document = view.document.unwrap();
            assert_eq!((document.state, document.attempts), (after, attempts), "{before} {over}");
        }
        let hopeless = "SELECT count(*) FROM documents WHERE state <> 'READY' AND deadline_at <= now()";
        assert_eq!(number(&store, hopeless).await, 0);
        // A waiting delivery is looked at again at its document's deadline.
        let apart = "SELECT count(*) FROM deliveries d JOIN documents o ON o.id = d.document_id
                     WHERE d.state = 'WAITING_DOCUMENT' AND d.due_at <> o.deadline_at";
        assert_eq!(number(&store, apart).await, 0);
        db.close().await;
    }
}

#[tokio::test]
async fn a_redrive_that_meets_a_render_sees_its_result() {
    let (db, store) = open().await;
    let job = dead_by_document(&store, "PENDING", false).await;
    let mut renderer = store.pool().begin().await.unwrap();
    sqlx::query("UPDATE documents SET state = 'READY', due_at = NULL").execute(&mut *renderer).await.unwrap();
    let redrive = tokio::spawn({
        let (store, ids) = (store.clone(), job.delivery_ids.clone());
        async move { store.redrive(&ids, HOUR).await.unwrap() }
    });
    until_blocked(&store, 1).await;
    renderer.commit().await.unwrap();
    assert_eq!(redrive.await.unwrap().len(), 2);
    assert_eq!(state(&store, job.delivery_ids[0]).await, DeliveryState::Pending);
    db.close().await;
}

#[tokio::test]
async fn a_redrive_that_meets_a_late_acceptance_leaves_it_sent() {
    let (db, store) = open().await;
    let job = dead_job(&store, tenant(&store).await, 1).await;
    let delivery = job.delivery_ids[0];
    let mut worker = store.pool().begin().await.unwrap();
    sqlx::query(
        "WITH l AS (INSERT INTO ledger (delivery_id, version, state) VALUES ($1, 3, 'SENT'))
         UPDATE deliveries SET state = 'SENT', version = 3, dead_lettered_at = NULL WHERE id = $1",
    )
    .bind(delivery.uuid())
    .execute(&mut *worker)
    .await
    .unwrap();
    let redrive = tokio::spawn({
        let store = store.clone();
        async move { store.redrive(&[delivery], HOUR).await.unwrap() }
    });
    until_blocked(&store, 1).await;
    worker.commit().await.unwrap();
    assert_eq!(redrive.await.unwrap(), [(delivery, Redriven::NotDead)]);
    assert_eq!(state(&store, delivery).await, DeliveryState::Sent);
    db.close().await;
}

#[tokio::test]
async fn a_retried_job_gets_its_dead_letters_back_and_only_its_own_tenant_may_ask() {
    let (db, store) = open().await;
    let tenant_id = tenant(&store).await;
    let job = routed_job(&store, tenant_id, 3).await;
    kill(&store, job.delivery_ids[0], Reason::ProvidersExhausted).await;
    kill(&store, job.delivery_ids[1], Reason::ProvidersExhausted).await;
    force(&store, job.delivery_ids[2], DeliveryState::Sent).await;
    sqlx::query("UPDATE jobs SET cancel_requested_at = now()").execute(store.pool()).await.unwrap();
    let by = DeliveryId(id());
    sent_by(&store, job.delivery_ids[1], by).await;
    assert_eq!(store.retry_job(tenant(&store).await, job.job, HOUR).await.unwrap(), None);
    let wanted = vec![(job.delivery_ids[0], Redriven::Queued), (job.delivery_ids[1], Redriven::AlreadySent { by })];
    assert_eq!(store.retry_job(tenant_id, job.job, HOUR).await.unwrap(), Some(wanted));
    assert_eq!(number(&store, "SELECT count(*) FROM jobs WHERE cancel_requested_at IS NOT NULL").await, 0);
    assert_eq!(store.retry_job(tenant_id, job.job, HOUR).await.unwrap(), Some(vec![]));
    db.close().await;
}
