use crate::world::{World, sent};
use std::time::Duration;
use waybill_core::{
    identity::Identity,
    ids::DeliveryId,
    outcome::OnUnknown,
    state::{DeliveryState, DocumentState, Reason},
};
use waybill_store::{FinalMove, MoveRequest};

fn to(delivery: DeliveryId, version: i32, to: FinalMove) -> MoveRequest {
    MoveRequest { delivery, version, to }
}

#[tokio::test]
async fn a_worker_loads_all_that_it_asks_about() {
    let w = World::new().await;
    let job = w.job().await;
    let document = w.document(job).await;
    let identity = w.fresh_identity();
    let with = w.delivery_of(job, identity, "WAITING_DOCUMENT", Some(document)).await;
    let without = w.delivery_of(job, w.fresh_identity(), "PENDING", None).await;
    w.sql("UPDATE tenants SET on_unknown = 'hold' WHERE id = $1", &[w.tenant.0]).await;
    let mut loaded = w.store.load_deliveries(&[with, without, DeliveryId(uuid::Uuid::now_v7())]).await.unwrap();
    loaded.sort_by_key(|d| d.id);
    assert_eq!(loaded.iter().map(|d| d.id).collect::<Vec<_>>(), [with, without]);
    let d = &loaded[0];
    assert_eq!(
        (d.tenant, d.job, d.identity, d.state, d.version),
        (w.tenant, job, identity, DeliveryState::WaitingDocument, 1)
    );
    assert_eq!((d.recipient.as_str(), d.recipient_name.as_str()), ("Ana@example.test", "Ana"));
    assert_eq!((d.event_type.as_str(), d.subject.as_deref(), d.route), ("order.created", Some("PO-1"), (w.route, 1)));
    assert_eq!(d.tenant_on_unknown, Some(OnUnknown::Hold));
    assert!(!d.cancelled && !d.expired && !d.dead_lettered && d.superseded_by.is_none());
    let loaded_document = d.document.as_ref().unwrap();
    assert_eq!((loaded_document.id, loaded_document.state), (document, DocumentState::Pending));
    assert!(loaded[1].document.is_none());
    w.sql("UPDATE deliveries SET expires_at = now() WHERE id = $1", &[with.0]).await;
    w.sql("UPDATE jobs SET cancel_requested_at = now() WHERE id = $1", &[job.0]).await;
    let again = w.store.load_deliveries(&[with]).await.unwrap().remove(0);
    assert!(again.cancelled && again.expired);
    w.db.close().await;
}

#[tokio::test]
async fn recipients_of_one_job_share_its_content() {
    let w = World::new().await;
    let job = w.job().await;
    let key = (job, w.route, 1);
    let contents = w.store.load_contents(&[key, key, (job, w.route, 2)]).await.unwrap();
    assert_eq!(contents.len(), 1);
    // Digits beyond 2^53 stay as they came.
    assert_eq!(contents[0].data, r#"{"total": 9007199254740993.10}"#);
    assert_eq!(contents[0].spec.on_unknown.as_deref(), Some("hold"));
    w.db.close().await;
}

#[tokio::test]
async fn a_route_of_a_newer_build_spoils_only_its_own_deliveries() {
    let w = World::new().await;
    let job = w.job().await;
    w.sql(
        "INSERT INTO routes (id, version, tenant_id, event_type, spec, active)
         SELECT id, 2, tenant_id, event_type, spec || '{\"from_the_future\": 1}', false FROM routes WHERE id = $1",
        &[w.route.0],
    )
    .await;
    let contents = w.store.load_contents(&[(job, w.route, 1), (job, w.route, 2)]).await.unwrap();
    assert_eq!(contents.iter().map(|c| c.version).collect::<Vec<_>>(), [1]);
    w.db.close().await;
}

/// What supersedes: a revision of the same lineage that was sent and is newer, by number where both have one, else by acceptance.
#[tokio::test]
async fn only_a_newer_sent_revision_supersedes() {
    let w = World::new().await;
    let cases = [
        (Some(1), Some(2), true),
        (Some(2), Some(1), false),
        (Some(2), Some(2), false),
        (None, Some(5), true),
        (None, None, true),
    ];
    for (own, other, expected) in cases {
        let (old, old_identity) = w.fresh().await;
        let (new, new_identity) = w.fresh().await;
        for (delivery, number) in [(old, own), (new, other)] {
            sqlx::query(
                "WITH d AS (UPDATE deliveries SET lineage = $2 WHERE id = $1 RETURNING job_id)
                 UPDATE jobs SET revision_number = $3 FROM d WHERE id = job_id",
            )
            .bind(delivery.0)
            .bind(old_identity.0.as_slice())
            .bind(number)
            .execute(&w.db.pool)
            .await
            .unwrap();
        }
        let claim = w.granted(new).await;
        assert_eq!(superseded_by(&w, old).await, None, "a claim is not a send");
        assert!(w.record(&claim, new_identity, sent("m")).await);
        assert_eq!(superseded_by(&w, old).await, expected.then_some(new), "{own:?} and {other:?}");
        assert_eq!(superseded_by(&w, new).await, None, "never by itself");
    }
    w.check().await;
    w.db.close().await;
}

async fn superseded_by(w: &World, delivery: DeliveryId) -> Option<DeliveryId> {
    w.store.load_deliveries(&[delivery]).await.unwrap().remove(0).superseded_by
}

#[tokio::test]
async fn each_final_move_has_its_state_its_reason_and_its_ledger_row() {
    let w = World::new().await;
    let (other, _) = w.fresh().await;
    let failed = FinalMove::Failed { reason: Reason::DocumentDeadline, detail: "no\0 PDF".into(), dead_letter: true };
    let moves = [
        (FinalMove::Duplicate { of: other }, DeliveryState::Duplicate, Reason::AlreadySent, Some(other.0), false),
        (FinalMove::Superseded { by: other }, DeliveryState::Superseded, Reason::NewerRevision, Some(other.0), false),
        (FinalMove::Expired, DeliveryState::Expired, Reason::Expired, None, false),
        (FinalMove::Cancelled, DeliveryState::Cancelled, Reason::Cancelled, None, false),
        (FinalMove::Suppressed, DeliveryState::Suppressed, Reason::Suppressed, None, false),
        (failed, DeliveryState::Failed, Reason::DocumentDeadline, None, true),
    ];
    let mut requests = Vec::new();
    for (m, ..) in &moves {
        requests.push(to(w.fresh().await.0, 1, m.clone()));
    }
    let mut moved = w.store.finish(&requests).await.unwrap();
    moved.sort();
    assert_eq!(moved, requests.iter().map(|r| r.delivery).collect::<Vec<_>>());
    for (request, (_, state, reason, other, dead)) in requests.iter().zip(moves) {
        let seen = w.see(request.delivery).await;
        assert_eq!((seen.state, seen.reason, seen.other, seen.dead), (state, Some(reason), other, dead));
        assert_eq!((seen.version, seen.due_in), (2, None));
    }
    assert_eq!(w.see(requests[5].delivery).await.detail.as_deref(), Some("no\u{fffd} PDF"));
    // Nothing moves twice.
    assert_eq!(w.store.finish(&requests).await.unwrap(), []);
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn a_move_that_was_decided_on_another_version_or_under_a_claim_does_not_happen() {
    let w = World::new().await;
    let (stale, _) = w.fresh().await;
    let (sending, _) = w.fresh().await;
    w.granted(sending).await;
    let requests = [to(stale, 7, FinalMove::Expired), to(sending, 2, FinalMove::Cancelled)];
    assert_eq!(w.store.finish(&requests).await.unwrap(), []);
    let before = w.see(sending).await.due_in.unwrap();
    w.store.defer(&[(stale, 1, Duration::from_secs(5)), (sending, 2, Duration::from_secs(5))]).await.unwrap();
    let (stale, sending) = (w.see(stale).await, w.see(sending).await);
    assert!(stale.due_in.unwrap() <= 5.0 && stale.version == 1, "{stale:?}");
    assert!((sending.due_in.unwrap() - before).abs() < 2.0, "{sending:?}");
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn a_delay_of_any_length_fails_no_slice() {
    let w = World::new().await;
    let (a, _) = w.fresh().await;
    w.store.defer(&[(a, 1, Duration::MAX)]).await.unwrap();
    assert!(w.see(a).await.due_in.unwrap() > 1e8);
    let unused: Identity = w.fresh_identity();
    assert_eq!(w.send(unused).await, None);
    w.db.close().await;
}
