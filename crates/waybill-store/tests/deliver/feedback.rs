use crate::world::{TTL, WINDOW, World, request, retry, sent, unknown};
use waybill_core::{
    ids::{AttemptId, DeliveryId},
    outcome::OnUnknown,
    ports::{FeedbackEvent, FeedbackKind},
    state::{DeliveryState, Reason},
};
use waybill_store::{Claim, ExpireDecision, Recorded, ResolveUnknown, Store};

fn event(delivery: DeliveryId, kind: FeedbackKind) -> FeedbackEvent {
    FeedbackEvent {
        provider: "ses",
        event_id: format!("{delivery}-{}", kind.as_str()),
        delivery: Some(delivery),
        attempt: None,
        provider_message_id: Some("m1".into()),
        kind,
        at: Some("2026-01-01T00:00:10Z".parse().unwrap()),
        detail: format!("the provider's \0 words on {}", kind.as_str()),
    }
}

fn orders() -> Vec<Vec<FeedbackKind>> {
    fn permute(rest: Vec<FeedbackKind>) -> Vec<Vec<FeedbackKind>> {
        if rest.is_empty() {
            return vec![vec![]];
        }
        let mut out = Vec::new();
        for (i, first) in rest.iter().enumerate() {
            let mut others = rest.clone();
            others.remove(i);
            out.extend(permute(others).into_iter().map(|tail| [vec![*first], tail].concat()));
        }
        out
    }
    permute(vec![FeedbackKind::Accepted, FeedbackKind::Delivered, FeedbackKind::Bounced, FeedbackKind::Complained])
}

async fn sent_delivery(w: &World) -> DeliveryId {
    let (delivery, identity) = w.fresh().await;
    let claim = w.granted(delivery).await;
    assert!(w.record(&claim, identity, sent("m1")).await);
    delivery
}

#[tokio::test]
async fn pv_07_all_24_orders_of_events_end_in_the_same_state() {
    let w = World::new().await;
    let orders = orders();
    assert_eq!(orders.len(), 24);
    for order in orders {
        let delivery = sent_delivery(&w).await;
        for kind in &order {
            let summary = w.store.record_feedback(&[event(delivery, *kind)]).await.unwrap();
            assert_eq!((summary.new, summary.matched), (1, 1));
            // Once more: nothing new.
            let again = w.store.record_feedback(&[event(delivery, *kind)]).await.unwrap();
            assert_eq!((again.new, again.moved.len()), (0, 0));
        }
        let seen = w.see(delivery).await;
        assert_eq!((seen.state, seen.reason), (DeliveryState::Complained, Some(Reason::Complaint)), "{order:?}");
        assert_eq!(seen.detail.as_deref(), Some("the provider's \u{fffd} words on complained"));
    }
    // Without the complaint the bounce wins, the late one too.
    for order in [[FeedbackKind::Delivered, FeedbackKind::Bounced], [FeedbackKind::Bounced, FeedbackKind::Delivered]] {
        let delivery = sent_delivery(&w).await;
        w.store.record_feedback(&order.map(|kind| event(delivery, kind))).await.unwrap();
        assert_eq!(w.state(delivery).await, DeliveryState::Bounced);
    }
    assert_eq!(w.number("SELECT count(*) FROM provider_events").await, 24 * 4 + 4);
    assert_eq!(w.number("SELECT count(*) FROM provider_events WHERE settled_at IS NULL").await, 0);
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn pv_07_two_receivers_at_once_end_in_the_same_state() {
    let w = World::with_connections(6).await;
    for order in orders() {
        let deliveries = [sent_delivery(&w).await, sent_delivery(&w).await];
        let mut left: Vec<_> = order.iter().map(|kind| event(deliveries[0], *kind)).collect();
        left.extend(order.iter().rev().map(|kind| event(deliveries[1], *kind)));
        // Each receiver has all of them, in another order and cut at another place.
        let right: Vec<_> = left.iter().rev().cloned().collect();
        let (a, b) = left.split_at(3);
        let (c, d) = right.split_at(5);
        let one = async {
            w.store.record_feedback(a).await.unwrap();
            w.store.record_feedback(b).await.unwrap();
        };
        let two = async {
            w.store.record_feedback(c).await.unwrap();
            w.store.record_feedback(d).await.unwrap();
        };
        tokio::join!(one, two);
        for delivery in deliveries {
            assert_eq!(w.state(delivery).await, DeliveryState::Complained, "{order:?}");
        }
    }
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn an_event_settles_an_unknown_and_later_ones_move_it_on() {
    let w = World::new().await;
    let (delivery, identity) = w.fresh().await;
    let claim = w.granted(delivery).await;
    assert!(w.record(&claim, identity, unknown(true)).await);
    // Named by its attempt only.
    let mut accepted = event(delivery, FeedbackKind::Accepted);
    (accepted.delivery, accepted.attempt) = (None, Some(claim.attempt));
    let summary = w.store.record_feedback(&[accepted]).await.unwrap();
    assert_eq!((summary.matched, summary.settled), (1, vec![delivery]));
    assert_eq!(w.send(identity).await, Some(("sent".into(), delivery)));
    let seen = w.see(delivery).await;
    assert_eq!((seen.state, seen.held, seen.provider_message_id.as_deref()), (DeliveryState::Sent, false, Some("m1")));
    let (other, other_identity) = w.fresh().await;
    let claim = w.granted(other).await;
    assert!(w.record(&claim, other_identity, unknown(false)).await);
    let summary = w.store.record_feedback(&[event(other, FeedbackKind::Bounced)]).await.unwrap();
    assert_eq!((summary.settled, summary.moved), (vec![other], vec![other]));
    assert_eq!(w.state(other).await, DeliveryState::Bounced);
    w.check().await;
    w.db.close().await;
}

/// PG-07: what the provider says it has is not sent again, whenever it says so.
#[tokio::test]
async fn pg_07_an_event_before_the_result_stops_the_second_send() {
    let w = World::new().await;
    // The event comes first; then the attempt ends without knowing, by its result or by its worker's death.
    let failed =
        Recorded::Failed { reason: Reason::ProvidersExhausted, dead_letter: true, attempts: 3, detail: "5xx".into() };
    for result in [Some(unknown(false)), Some(unknown(true)), Some(retry()), Some(failed), None] {
        let (delivery, identity) = w.fresh().await;
        let claim = w.granted(delivery).await;
        w.store.record_feedback(&[event(delivery, FeedbackKind::Accepted)]).await.unwrap();
        assert_eq!(w.state(delivery).await, DeliveryState::Sending, "the attempt's own result comes first");
        match result {
            Some(result) => assert!(w.record(&claim, identity, result).await),
            None => {
                w.let_claim_end(delivery).await;
                assert!(w.expire(delivery, OnUnknown::Failover).await);
            }
        }
        assert_eq!(w.state(delivery).await, DeliveryState::Sent);
        assert_eq!(w.send(identity).await, Some(("sent".into(), delivery)));
    }
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn an_event_after_the_window_makes_a_waiting_retry_sent() {
    let w = World::new().await;
    let (delivery, identity) = w.fresh().await;
    let claim = w.granted(delivery).await;
    assert!(w.record(&claim, identity, unknown(false)).await);
    w.let_due(delivery).await;
    let due = w.store.list_due_unknowns(1).await.unwrap().remove(0);
    let resolve = |to| ResolveUnknown { delivery, version: due.version, to };
    assert_eq!(w.store.resolve_unknowns(&[resolve(sent("no"))]).await.unwrap(), [], "no way around the events");
    assert_eq!(w.store.resolve_unknowns(&[resolve(retry())]).await.unwrap(), [delivery]);
    let summary = w.store.record_feedback(&[event(delivery, FeedbackKind::Delivered)]).await.unwrap();
    assert_eq!(summary.settled, [delivery]);
    assert_eq!(w.state(delivery).await, DeliveryState::Delivered);
    assert_eq!(w.claim(delivery).await.1, Claim::NotClaimable { state: DeliveryState::Delivered });
    w.check().await;
    w.db.close().await;
}

/// An event that comes while its attempt is under way takes effect once the attempt has ended.
#[tokio::test]
async fn an_early_event_is_settled_by_the_sweeper() {
    let w = World::new().await;
    let (delivery, identity) = w.fresh().await;
    let claim = w.granted(delivery).await;
    w.store.record_feedback(&[event(delivery, FeedbackKind::Bounced)]).await.unwrap();
    assert_eq!(w.store.settle_feedback(10).await.unwrap().matched, 0);
    assert!(w.record(&claim, identity, sent("m1")).await);
    let summary = w.store.settle_feedback(10).await.unwrap();
    assert_eq!((summary.matched, summary.moved), (1, vec![delivery]));
    assert_eq!(w.state(delivery).await, DeliveryState::Bounced);
    assert_eq!(w.store.settle_feedback(10).await.unwrap().matched, 0, "once");
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn what_matches_nothing_or_only_informs_is_kept_and_moves_nothing() {
    let w = World::new().await;
    let delivery = sent_delivery(&w).await;
    let version = w.see(delivery).await.version;
    let mut stranger = event(DeliveryId(uuid::Uuid::now_v7()), FeedbackKind::Delivered);
    stranger.detail = "x".repeat(2000);
    let mut nobody = event(delivery, FeedbackKind::Complained);
    (nobody.delivery, nobody.attempt) = (None, Some(AttemptId(uuid::Uuid::now_v7())));
    let events = [stranger, nobody, event(delivery, FeedbackKind::Dropped), event(delivery, FeedbackKind::Other)];
    let summary = w.store.record_feedback(&events).await.unwrap();
    assert_eq!((summary.new, summary.matched, summary.moved.len()), (4, 2, 0));
    assert_eq!(w.see(delivery).await.version, version);
    assert_eq!(w.number("SELECT count(*) FROM provider_events WHERE settled_at IS NULL").await, 0);
    assert_eq!(w.number("SELECT max(length(detail))::int8 FROM provider_events").await, 500);
    w.check().await;
    w.db.close().await;
}

/// An event and the end of an attempt at the same moment: once both are done, and the sweeper ran, the event has had its effect.
#[tokio::test]
async fn an_event_that_races_a_result_is_never_lost() {
    let w = World::with_connections(4).await;
    let second = Store::from_pool(w.db.pool.clone());
    for round in 0..60 {
        let (delivery, identity) = w.fresh().await;
        let claim = request(delivery);
        w.store.claim(&[claim], TTL).await.unwrap();
        let events = [event(delivery, FeedbackKind::Delivered)];
        let result = [w.result(&claim, identity, if round % 3 == 0 { unknown(false) } else { sent("m1") })];
        if round % 3 == 1 {
            w.let_claim_end(delivery).await;
            let d = [ExpireDecision { delivery, token: claim.token, policy: OnUnknown::Reconcile, window: WINDOW }];
            let (a, b) = tokio::join!(second.record_feedback(&events), w.store.expire_claims(&d, 3));
            a.unwrap();
            b.unwrap();
        } else {
            let (a, b) = tokio::join!(second.record_feedback(&events), w.store.record_results(&result));
            a.unwrap();
            b.unwrap();
        }
        w.store.settle_feedback(10).await.unwrap();
        assert_eq!(w.state(delivery).await, DeliveryState::Delivered, "round {round}");
    }
    w.check().await;
    w.db.close().await;
}
