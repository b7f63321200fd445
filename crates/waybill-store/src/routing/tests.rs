use super::*;
use crate::testing::*;
use waybill_core::state::DeliveryState;

async fn record(store: &Store, job: &RoutedJob) -> Vec<JobId> {
    store.record_routing(std::slice::from_ref(job), &routing_options()).await.unwrap().jobs
}

/// Inserts the document by hand, in the given state, and returns its id.
async fn document(connection: &mut sqlx::PgConnection, job: &RoutedJob, state: &str) -> Uuid {
    let (planned, id) = (&job.plan.documents[0], id());
    sqlx::query(
        "INSERT INTO documents (id, tenant_id, document_type, subject, revision, template_version, job_id, object_key, state, reason,
                                due_at, deadline_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, 'k', $8, CASE WHEN $8 = 'FAILED' THEN 'document_deadline' END,
                 CASE WHEN $8 = 'PENDING' THEN now() END, now() + interval '1 hour')",
    )
    .bind(id)
    .bind(job.tenant.uuid())
    .bind(&planned.document_type)
    .bind(&planned.subject)
    .bind(&planned.revision)
    .bind(planned.template_version)
    .bind(job.job.uuid())
    .bind(state)
    .execute(connection)
    .await
    .unwrap();
    id
}

#[tokio::test]
async fn a_slice_of_decisions_is_one_round_trip() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let mut jobs = Vec::new();
    for n in 0..10 {
        jobs.push(routed(tenant, accepted(&store, tenant).await, 3, (n < 5).then(|| planned_document("PO-1"))));
    }
    let before = store.statements();
    let mut moved = store.record_routing(&jobs, &routing_options()).await.unwrap().jobs;
    assert_eq!(store.statements() - before, 1);
    moved.sort_unstable();
    assert_eq!(moved, jobs.iter().map(|j| j.job).collect::<Vec<_>>());
    assert_eq!(number(&store, "SELECT count(*) FROM documents WHERE state = 'PENDING' AND due_at <= now()").await, 1);
    assert_eq!(state(&store, jobs[0].delivery_ids[0]).await, DeliveryState::WaitingDocument);
    assert_eq!(state(&store, jobs[9].delivery_ids[2]).await, DeliveryState::Pending);
    let waiting = number(
        &store,
        "SELECT count(*) FROM deliveries d JOIN documents o ON o.id = d.document_id AND o.deadline_at = d.due_at WHERE d.state = 'WAITING_DOCUMENT'",
    )
    .await;
    assert_eq!(waiting, 15);
    let ids: Vec<JobId> = jobs.iter().map(|j| j.job).collect();
    let unsent: Vec<_> =
        store.list_unsent_pending(&ids, None, 100).await.unwrap().into_iter().map(|(_, d, _)| d).collect();
    let mut wanted: Vec<_> = jobs[5..].iter().flat_map(|j| j.delivery_ids.clone()).collect();
    wanted.sort_unstable();
    assert_eq!(unsent, wanted);
    let loaded = store.load_jobs_for_routing(&ids[..1]).await.unwrap();
    assert_eq!((loaded[0].state, loaded[0].cancelled), (JobState::Routed, false));
    db.close().await;
}

#[tokio::test]
async fn a_redelivered_message_never_decides_again() {
    let (db, store) = open().await;
    let first = routed_job(&store, tenant(&store).await, 2).await;
    // A route was edited in between: another plan, with other identities.
    let second = routed(first.tenant, first.job, 5, Some(planned_document("PO-9")));
    assert_eq!(record(&store, &second).await, []);
    assert_eq!(number(&store, "SELECT count(*) FROM deliveries").await, 2);
    assert_eq!(number(&store, "SELECT count(*) FROM documents").await, 0);
    let unsent = store.list_unsent_pending(&[first.job], None, 10).await.unwrap();
    assert_eq!(unsent.into_iter().map(|(_, d, _)| d).collect::<Vec<_>>(), first.delivery_ids);
    db.close().await;
}

#[tokio::test]
async fn of_two_routers_with_the_same_jobs_one_decides() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    for round in 0..15 {
        let subject = format!("PO-{round}");
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            let job = accepted(&store, tenant).await;
            a.push(routed(tenant, job, 2, Some(planned_document(&subject))));
            b.push(routed(tenant, job, 3, Some(planned_document(&subject))));
        }
        b.reverse();
        let options = routing_options();
        let (left, right) = tokio::join!(store.record_routing(&a, &options), store.record_routing(&b, &options));
        let (left, right) = (left.unwrap().jobs, right.unwrap().jobs);
        assert_eq!(left.len() + right.len(), 4);
        for job in &a {
            let count = store.list_deliveries(job.job, None, 100).await.unwrap().len();
            assert_eq!(count, if left.contains(&job.job) { 2 } else { 3 });
        }
    }
    assert_eq!(number(&store, "SELECT count(*) FROM documents").await, 15);
    db.close().await;
}

#[tokio::test]
async fn a_recipient_that_can_t_be_served_is_final_at_birth_and_its_neighbour_is_not() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let mut job = routed(tenant, accepted(&store, tenant).await, 2, Some(planned_document("PO-1")));
    job.plan.deliveries[0].failed = Some((Reason::InvalidAddress, "/data/to/0:\0 no".into()));
    record(&store, &job).await;
    let views = store.list_deliveries(job.job, None, 10).await.unwrap();
    assert_eq!((views[0].state, views[0].reason), (DeliveryState::Failed, Some(Reason::InvalidAddress)));
    assert_eq!(views[0].detail.as_deref(), Some("/data/to/0:\u{fffd} no"));
    assert_eq!((views[0].dead_lettered_at, views[0].document.is_none()), (None, true));
    assert_eq!(views[1].state, DeliveryState::WaitingDocument);
    assert_eq!(state(&store, job.delivery_ids[0]).await, DeliveryState::Failed);
    db.close().await;
}

#[tokio::test]
async fn a_document_that_nobody_waits_for_is_not_made() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let mut job = routed(tenant, accepted(&store, tenant).await, 1, Some(planned_document("PO-1")));
    job.plan.deliveries[0].failed = Some((Reason::UnsupportedAddress, String::new()));
    record(&store, &job).await;
    assert_eq!(number(&store, "SELECT count(*) FROM documents").await, 0);
    let refreshed = store.refresh_job_states(&[job.job]).await.unwrap();
    assert_eq!(refreshed, [(job.job, JobState::Failed)]);
    db.close().await;
}

#[tokio::test]
async fn a_job_with_nothing_to_deliver_fails_with_the_reason() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let mut job = routed(tenant, accepted(&store, tenant).await, 0, None);
    job.plan.nothing = Some((Reason::NoRoute, "no active route".into()));
    assert_eq!(record(&store, &job).await, [job.job]);
    let view = store.find_job(Some(tenant), job.job).await.unwrap().unwrap();
    assert_eq!((view.status, view.reason), (JobState::Failed, Some(Reason::NoRoute)));
    assert_eq!(view.detail.as_deref(), Some("no active route"));
    db.close().await;
}

#[tokio::test]
async fn a_job_to_be_cancelled_is_cancelled_and_not_routed() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let job = routed(tenant, accepted(&store, tenant).await, 2, Some(planned_document("PO-1")));
    sqlx::query("UPDATE jobs SET cancel_requested_at = now()").execute(store.pool()).await.unwrap();
    assert_eq!(record(&store, &job).await, []);
    let view = store.find_job(None, job.job).await.unwrap().unwrap();
    assert_eq!((view.status, view.reason), (JobState::Cancelled, Some(Reason::Cancelled)));
    assert_eq!(number(&store, "SELECT count(*) FROM deliveries").await, 0);
    assert_eq!(number(&store, "SELECT count(*) FROM documents").await, 0);
    db.close().await;
}

#[tokio::test]
async fn an_existing_document_decides_the_state_at_birth() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    for (subject, there, born) in [
        ("PO-1", "READY", DeliveryState::Pending),
        ("PO-2", "FAILED", DeliveryState::Failed),
        ("PO-3", "PENDING", DeliveryState::WaitingDocument),
    ] {
        let job = routed(tenant, accepted(&store, tenant).await, 1, Some(planned_document(subject)));
        let id = document(&mut store.pool().acquire().await.unwrap(), &job, there).await;
        record(&store, &job).await;
        let view = store.list_deliveries(job.job, None, 10).await.unwrap().remove(0);
        assert_eq!((view.state, view.document.unwrap().id), (born, id.into()), "{there}");
        assert_eq!(view.dead_lettered_at.is_some(), born == DeliveryState::Failed);
        assert_eq!(view.reason, (born == DeliveryState::Failed).then_some(Reason::DocumentDeadline));
    }
    db.close().await;
}

#[tokio::test]
async fn ready_can_t_slip_in_between_the_look_and_the_insert() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let job = routed(tenant, accepted(&store, tenant).await, 2, Some(planned_document("PO-1")));
    document(&mut store.pool().acquire().await.unwrap(), &job, "PENDING").await;
    let mut renderer = store.pool().begin().await.unwrap();
    sqlx::query("UPDATE documents SET state = 'READY', due_at = NULL").execute(&mut *renderer).await.unwrap();
    let router = tokio::spawn({
        let (store, job) = (store.clone(), job.clone());
        async move { record(&store, &job).await }
    });
    until_blocked(&store, 1).await;
    renderer.commit().await.unwrap();
    assert_eq!(router.await.unwrap(), [job.job]);
    assert_eq!(state(&store, job.delivery_ids[0]).await, DeliveryState::Pending);
    db.close().await;
}

#[tokio::test]
async fn a_document_that_another_router_inserted_meanwhile_is_shared() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let job = routed(tenant, accepted(&store, tenant).await, 1, Some(planned_document("PO-1")));
    let mut other = store.pool().begin().await.unwrap();
    let id = document(&mut other, &job, "READY").await;
    let router = tokio::spawn({
        let (store, job) = (store.clone(), job.clone());
        async move { record(&store, &job).await }
    });
    until_blocked(&store, 1).await;
    other.commit().await.unwrap();
    assert_eq!(router.await.unwrap(), [job.job]);
    let view = store.list_deliveries(job.job, None, 10).await.unwrap().remove(0);
    assert_eq!((view.state, view.document.unwrap().id), (DeliveryState::Pending, id.into()));
    db.close().await;
}

#[tokio::test]
async fn whichever_way_router_and_renderer_race_nobody_waits_for_a_ready_document() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    for round in 0..40 {
        let job = routed(tenant, accepted(&store, tenant).await, 1, Some(planned_document(&format!("PO-{round}"))));
        let id = document(&mut store.pool().acquire().await.unwrap(), &job, "PENDING").await;
        let renderer = async {
            let ready = "UPDATE documents SET state = 'READY', due_at = NULL WHERE id = $1";
            sqlx::query(ready).bind(id).execute(store.pool()).await.unwrap();
            // Releasing is a statement of its own, after the commit: it sees every delivery that was decided before.
            let release = "UPDATE deliveries SET due_at = now() WHERE document_id = $1 AND state = 'WAITING_DOCUMENT'";
            sqlx::query(release).bind(id).execute(store.pool()).await.unwrap();
        };
        tokio::join!(record(&store, &job), renderer);
    }
    let forgotten = "SELECT count(*) FROM deliveries WHERE state = 'WAITING_DOCUMENT' AND due_at > now()";
    assert_eq!(number(&store, forgotten).await, 0);
    assert_eq!(number(&store, "SELECT count(*) FROM deliveries").await, 40);
    db.close().await;
}

#[tokio::test]
async fn ten_thousand_recipients_are_one_decision_and_are_listed_in_pages() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let small = routed(tenant, accepted(&store, tenant).await, 1, None);
    let big = routed(tenant, accepted(&store, tenant).await, 10_000, Some(planned_document("PO-1")));
    let last = routed(tenant, accepted(&store, tenant).await, 1, None);
    document(&mut store.pool().acquire().await.unwrap(), &big, "READY").await;
    let before = store.statements();
    let moved = store.record_routing(&[small, big.clone(), last], &routing_options()).await.unwrap().jobs;
    assert_eq!((moved.len(), store.statements() - before), (3, 3));
    let (mut pages, mut seen, mut after) = (0, Vec::new(), None);
    while pages < 20 {
        let page = store.list_unsent_pending(&[big.job], after, 1_000).await.unwrap();
        if page.is_empty() {
            break;
        }
        pages += 1;
        seen.extend(page.iter().map(|(_, d, _)| *d));
        after = seen.last().copied();
    }
    assert_eq!((pages, seen), (10, big.delivery_ids));
    db.close().await;
}

#[tokio::test]
async fn a_plan_without_an_id_for_each_recipient_is_refused() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let mut job = routed(tenant, accepted(&store, tenant).await, 2, None);
    job.delivery_ids.pop();
    assert!(matches!(store.record_routing(&[job], &routing_options()).await, Err(StoreError::BadCall { .. })));
    db.close().await;
}

#[tokio::test]
async fn jobs_are_loaded_with_their_own_tenant_s_active_routes() {
    let (db, store) = open().await;
    let (ours, theirs) = (tenant(&store).await, tenant(&store).await);
    let (a, b, foreign) = (RouteId(id()), RouteId(id()), RouteId(id()));
    store.put_route(ours, a, "order.placed", &route_spec()).await.unwrap();
    store.put_route(ours, a, "order.placed", &route_spec()).await.unwrap();
    store.put_route(ours, b, "order.cancelled", &route_spec()).await.unwrap();
    store.put_route(theirs, foreign, "order.placed", &route_spec()).await.unwrap();
    let job = accepted(&store, ours).await;
    let loaded = store.load_jobs_for_routing(&[job, JobId(id())]).await.unwrap();
    assert_eq!(loaded.len(), 1);
    assert_eq!((loaded[0].job, loaded[0].tenant, loaded[0].state), (job, ours, JobState::Pending));
    assert_eq!(loaded[0].data, new_job(ours).data);
    let routes: Vec<_> = loaded[0].routes.iter().map(|r| (r.id, r.version, r.event_type.as_str())).collect();
    assert_eq!(routes, [(a, 2, "order.placed")]);
    assert_eq!(loaded[0].routes[0].spec, route_spec());
    db.close().await;
}

#[tokio::test]
async fn a_route_of_a_newer_build_spoils_only_its_own_tenant_s_jobs() {
    let (db, store) = open().await;
    let (ours, theirs) = (tenant(&store).await, tenant(&store).await);
    store.put_route(ours, RouteId(id()), "order.placed", &route_spec()).await.unwrap();
    store.put_route(theirs, RouteId(id()), "order.placed", &route_spec()).await.unwrap();
    sqlx::query("UPDATE routes SET spec = spec || '{\"from_the_future\": 1}' WHERE tenant_id = $1")
        .bind(theirs.uuid())
        .execute(store.pool())
        .await
        .unwrap();
    let (good, bad) = (accepted(&store, ours).await, accepted(&store, theirs).await);
    let loaded = store.load_jobs_for_routing(&[good, bad]).await.unwrap();
    let readable: Vec<_> = loaded.iter().map(|j| (j.job, j.unreadable_route.is_none())).collect();
    assert_eq!(readable, [(good, true), (bad, false)]);
    db.close().await;
}
