use crate::world::World;
use std::time::Duration;
use uuid::Uuid;
use waybill_core::{
    ids::DocumentId,
    ports::AlertCause,
    state::{DeliveryState, DocumentState, Reason},
};
use waybill_store::{ClaimedDocument, DocumentFailed, DocumentReady};

const RENDER_TTL: Duration = Duration::from_secs(60);
const REQUEUE: Duration = Duration::from_secs(900);

impl World {
    async fn claim_document(&self) -> Option<ClaimedDocument> {
        self.store.claim_documents(1, RENDER_TTL, &[Uuid::new_v4()]).await.unwrap().pop()
    }

    async fn ready(&self, d: &ClaimedDocument) -> bool {
        let ready = DocumentReady { id: d.id, token: d.token, size: 1234, sha256: [9; 32] };
        self.store.record_document_ready(&[ready]).await.unwrap() == [d.id]
    }

    async fn document_state(&self, id: DocumentId) -> DocumentState {
        let state: String = sqlx::query_scalar("SELECT state FROM documents WHERE id = $1")
            .bind(id.0)
            .fetch_one(&self.db.pool)
            .await
            .unwrap();
        DocumentState::parse(&state).unwrap()
    }
}

#[tokio::test]
async fn a_document_is_claimed_once_rendered_and_releases_who_waits() {
    let w = World::new().await;
    let job = w.job().await;
    let document = w.document(job).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(w.delivery_of(job, w.fresh_identity(), "WAITING_DOCUMENT", Some(document)).await);
    }
    let claimed = w.claim_document().await.unwrap();
    assert_eq!((claimed.id, claimed.attempts, claimed.tenant), (document, 1, w.tenant));
    assert!(claimed.data.contains("9007199254740993.10") && claimed.deadline_in > Duration::from_secs(800));
    assert!(w.claim_document().await.is_none(), "held");
    assert_eq!(w.store.release_waiting(&[document], REQUEUE, 10).await.unwrap(), [], "not READY");
    assert!(w.ready(&claimed).await);
    assert!(!w.ready(&claimed).await, "once");
    assert_eq!(w.store.list_ready_but_waiting(10).await.unwrap(), [document]);
    // In pieces, each delivery once.
    let mut released = w.store.release_waiting(&[document], REQUEUE, 2).await.unwrap();
    assert_eq!(released.len(), 2);
    released.extend(w.store.release_waiting(&[document], REQUEUE, 2).await.unwrap());
    assert_eq!(released.iter().map(|r| r.0).collect::<Vec<_>>(), waiting);
    assert_eq!(w.store.release_waiting(&[document], REQUEUE, 2).await.unwrap(), []);
    assert_eq!(w.store.list_ready_but_waiting(10).await.unwrap(), []);
    // A queue message that got lost: the due row brings it back, though it still says WAITING_DOCUMENT.
    w.let_due(waiting[0]).await;
    assert_eq!(w.store.list_overdue_waiting(10).await.unwrap(), []);
    let due = w.store.release_due(10, REQUEUE).await.unwrap();
    assert_eq!(
        due.iter().map(|r| (r.delivery, r.state)).collect::<Vec<_>>(),
        [(waiting[0], DeliveryState::WaitingDocument)]
    );
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn a_render_claim_that_is_over_is_taken_by_the_next_and_the_first_one_s_result_is_refused() {
    let w = World::new().await;
    let job = w.job().await;
    let document = w.document(job).await;
    let slow = w.claim_document().await.unwrap();
    w.sql("UPDATE documents SET claim_expires_at = now(), due_at = now() WHERE id = $1", &[document.0]).await;
    let next = w.claim_document().await.unwrap();
    assert_eq!((next.id, next.attempts), (document, 2));
    let failed = |d: &ClaimedDocument| DocumentFailed {
        id: d.id,
        token: d.token,
        reason: Reason::DocumentRenderFailed,
        detail: "no\0 font".into(),
    };
    assert_eq!(w.store.record_document_failed(&[failed(&slow)]).await.unwrap(), []);
    assert!(!w.store.record_document_retry(slow.id, slow.token, Duration::ZERO, "").await.unwrap());
    assert!(!w.ready(&slow).await);
    assert!(w.store.record_document_retry(next.id, next.token, Duration::from_secs(5), "time-out\0").await.unwrap());
    assert!(w.claim_document().await.is_none(), "not due");
    w.sql(
        "UPDATE documents SET due_at = now(), deadline_at = now() - interval '1 second' WHERE id = $1",
        &[document.0],
    )
    .await;
    let last = w.claim_document().await.unwrap();
    assert_eq!((last.attempts, last.deadline_in), (3, Duration::ZERO));
    assert_eq!(w.store.record_document_failed(&[failed(&last)]).await.unwrap(), [document]);
    assert_eq!(w.document_state(document).await, DocumentState::Failed);
    w.db.close().await;
}

#[tokio::test]
async fn deliveries_of_a_failed_document_are_dead_letters_with_its_reason() {
    let w = World::new().await;
    let job = w.job().await;
    let document = w.document(job).await;
    let waiting = w.delivery_of(job, w.fresh_identity(), "WAITING_DOCUMENT", Some(document)).await;
    let pending = w.delivery_of(job, w.fresh_identity(), "PENDING", Some(document)).await;
    let d = w.claim_document().await.unwrap();
    assert_eq!(w.store.fail_waiting(&[document]).await.unwrap(), []);
    let failed = DocumentFailed { id: d.id, token: d.token, reason: Reason::DocumentDeadline, detail: "late".into() };
    assert_eq!(w.store.record_document_failed(&[failed]).await.unwrap(), [document]);
    assert_eq!(w.store.list_failed_but_waiting(10).await.unwrap(), [document]);
    assert_eq!(w.store.fail_waiting(&[document]).await.unwrap(), [waiting]);
    assert_eq!(w.store.list_failed_but_waiting(10).await.unwrap(), []);
    let seen = w.see(waiting).await;
    assert_eq!((seen.state, seen.reason, seen.dead), (DeliveryState::Failed, Some(Reason::DocumentDeadline), true));
    assert_eq!(w.state(pending).await, DeliveryState::Pending);
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn schedulers_share_documents_and_due_deliveries() {
    let w = World::new().await;
    let job = w.job().await;
    for _ in 0..20 {
        w.document(job).await;
        let (delivery, _) = w.fresh().await;
        w.let_due(delivery).await;
    }
    let tokens: Vec<Uuid> = (0..12).map(|_| Uuid::new_v4()).collect();
    let (a, b) = tokio::join!(
        w.store.claim_documents(20, RENDER_TTL, &tokens),
        w.store.claim_documents(20, RENDER_TTL, &tokens)
    );
    let (a, b) = (a.unwrap(), b.unwrap());
    let mut ids: Vec<_> = a.iter().chain(&b).map(|d| d.id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), a.len() + b.len(), "no document twice");
    let mut used: Vec<_> = a.iter().map(|d| d.token).collect();
    used.sort();
    used.dedup();
    assert!(used.len() == a.len() && a.len() <= 12, "a token each");
    let (a, b) = tokio::join!(w.store.release_due(15, REQUEUE), w.store.release_due(15, REQUEUE));
    let mut ids: Vec<_> = a.unwrap().into_iter().chain(b.unwrap()).map(|r| r.delivery).collect();
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert!(ids.len() == all && all >= 15, "{all}");
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn what_is_due_is_released_once_and_what_is_overdue_is_listed() {
    let w = World::new().await;
    let (due, _) = w.fresh().await;
    let (later, _) = w.fresh().await;
    let (sending, _) = w.fresh().await;
    let job = w.job().await;
    let document = w.document(job).await;
    let overdue = w.delivery_of(job, w.fresh_identity(), "WAITING_DOCUMENT", Some(document)).await;
    let deferred = w.delivery_of(job, w.fresh_identity(), "WAITING_DOCUMENT", Some(document)).await;
    w.granted(sending).await;
    for id in [due, sending, deferred] {
        w.let_due(id).await;
    }
    let mut released = w.store.release_due(10, REQUEUE).await.unwrap();
    released.sort_by_key(|r| r.delivery);
    assert_eq!(released.iter().map(|r| r.delivery).collect::<Vec<_>>(), [due, deferred], "the deadline has not passed");
    assert_eq!(released[0].requeued_before, 0);
    assert_eq!(w.store.release_due(10, REQUEUE).await.unwrap(), []);
    w.let_due(due).await;
    assert_eq!(w.store.release_due(10, REQUEUE).await.unwrap()[0].requeued_before, 1);
    assert_eq!(w.state(later).await, DeliveryState::Pending);
    // Past the document's deadline.
    w.sql("UPDATE documents SET deadline_at = now() WHERE id = $1", &[document.0]).await;
    w.let_due(overdue).await;
    assert_eq!(w.store.release_due(10, REQUEUE).await.unwrap(), []);
    let listed = w.store.list_overdue_waiting(10).await.unwrap();
    assert_eq!(listed.iter().map(|o| (o.delivery, o.document_reason)).collect::<Vec<_>>(), [(overdue, None)]);
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn an_alert_rings_once_per_quiet_period_and_counts() {
    let w = World::new().await;
    let quiet = Duration::from_secs(3600);
    let note = |key: &'static str, n| w.store.note_alert(AlertCause::DeadLetter, key, n, quiet);
    let first = note("providers_exhausted", 3).await.unwrap();
    assert!(first.notify && first.count == 3);
    let (a, b) = tokio::join!(note("providers_exhausted", 1), note("providers_exhausted", 1));
    let (a, b) = (a.unwrap(), b.unwrap());
    assert!(!a.notify && !b.notify && a.count.max(b.count) == 5);
    assert!(note("worker_crashed\0", 1).await.unwrap().notify, "another key");
    w.sql("UPDATE alerts SET last_notified_at = now() - interval '2 hours'", &[]).await;
    assert!(note("providers_exhausted", 1).await.unwrap().notify);
    w.db.close().await;
}

/// Its object was deleted under it (a retention rule): a redrive months later has to have it made again.
#[tokio::test]
async fn a_ready_document_whose_object_is_gone_is_rendered_again() {
    let w = World::new().await;
    let job = w.job().await;
    let document = w.document(job).await;
    assert!(!w.store.render_again(document, REQUEUE).await.unwrap(), "nothing was made yet");
    let claimed = w.claim_document().await.unwrap();
    assert!(!w.store.render_again(document, REQUEUE).await.unwrap(), "it is being made");
    assert!(w.ready(&claimed).await);
    assert!(w.claim_document().await.is_none());
    assert!(w.store.render_again(document, REQUEUE).await.unwrap());
    let again = w.claim_document().await.unwrap();
    assert_eq!((again.id, again.attempts), (document, 1));
    assert!(again.deadline_in > REQUEUE / 2);
    assert!(w.ready(&again).await);
    w.db.close().await;
}
