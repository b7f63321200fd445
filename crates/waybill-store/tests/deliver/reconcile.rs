use crate::world::{TTL, WINDOW, World, retry, sent, unknown};
use std::time::Duration;
use uuid::Uuid;
use waybill_core::{
    ids::DeliveryId,
    outcome::OnUnknown,
    state::{DeliveryState, Reason},
};
use waybill_store::{Claim, ExpireDecision, Recorded, ResolveUnknown, SettleByHand};

pub(crate) const MAX_CRASHES: u32 = 3;

impl World {
    /// What a sweeper does about one expired claim.
    pub(crate) async fn expire(&self, delivery: DeliveryId, policy: OnUnknown) -> bool {
        let found = self.store.find_expired_claims(&[delivery]).await.unwrap();
        let decisions: Vec<_> = found
            .iter()
            .map(|c| ExpireDecision { delivery: c.delivery, token: c.token, policy, window: WINDOW })
            .collect();
        self.store.expire_claims(&decisions, MAX_CRASHES).await.unwrap() == [delivery]
    }
}

/// RL-02 b: a claim that ended an hour ago is taken away as a whole, and the delivery goes on.
#[tokio::test]
async fn rl_02_b_a_claim_that_ended_an_hour_ago_is_reclaimed() {
    let w = World::new().await;
    let (delivery, identity) = w.fresh().await;
    let claim = w.granted(delivery).await;
    assert_eq!(w.store.list_expired_claims(10).await.unwrap().len(), 0, "its time is not over");
    w.let_claim_end(delivery).await;
    let listed = w.store.list_expired_claims(10).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].delivery, listed[0].identity, listed[0].token), (delivery, identity, claim.token));
    assert_eq!((listed[0].crashes, listed[0].route_on_unknown), (0, Some(OnUnknown::Hold)));
    assert!(w.expire(delivery, OnUnknown::Failover).await);
    let seen = w.see(delivery).await;
    assert_eq!((seen.state, seen.crashes, seen.version), (DeliveryState::Retrying, 1, 3));
    assert!(seen.due_in.unwrap() <= 0.0);
    let leases =
        "SELECT count(*) FROM sends WHERE state <> 'claimed' AND claim_token IS NULL AND claim_expires_at IS NULL
                  AND attempt_id IS NULL";
    assert_eq!(w.number(leases).await, 1);
    assert_eq!(w.attempt_outcome(claim.attempt).await.as_deref(), Some("crashed"));
    // The next worker takes over and sends.
    let next = w.granted(delivery).await;
    assert!(w.record(&next, identity, sent("m1")).await);
    assert_eq!(w.state(delivery).await, DeliveryState::Sent);
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn each_policy_has_its_way_with_an_expired_claim() {
    let w = World::new().await;
    let cases = [
        (OnUnknown::Reconcile, DeliveryState::Unknown, "unknown", false, Some(15.0)),
        (OnUnknown::Hold, DeliveryState::Unknown, "unknown", true, Some(86_400.0)),
        (OnUnknown::Failover, DeliveryState::Retrying, "released", false, Some(0.0)),
    ];
    for (policy, state, send, held, due) in cases {
        let (delivery, identity) = w.fresh().await;
        w.granted(delivery).await;
        assert!(!w.expire(delivery, policy).await, "too early");
        w.let_claim_end(delivery).await;
        assert!(w.expire(delivery, policy).await);
        assert!(!w.expire(delivery, policy).await, "once");
        let seen = w.see(delivery).await;
        assert_eq!((seen.state, seen.held, seen.crashes, seen.position), (state, held, 1, 0));
        assert_eq!(seen.due_in.map(|d| d.round().abs()), due, "{policy:?}");
        assert_eq!(w.send(identity).await, Some((send.into(), delivery)));
    }
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn the_third_crash_is_a_dead_letter() {
    let w = World::new().await;
    let (delivery, identity) = w.fresh().await;
    for crash in 1..=3 {
        w.granted(delivery).await;
        w.let_claim_end(delivery).await;
        assert!(w.expire(delivery, OnUnknown::Failover).await);
        assert_eq!(w.see(delivery).await.crashes, crash);
    }
    let seen = w.see(delivery).await;
    assert_eq!((seen.state, seen.reason, seen.dead), (DeliveryState::Failed, Some(Reason::WorkerCrashed), true));
    assert_eq!(w.send(identity).await, Some(("released".into(), delivery)));
    w.check().await;
    w.db.close().await;
}

/// RL-01 on the claim: A stalls past its claim, B takes over, A's end touches nothing of B's, and C is refused meanwhile.
#[tokio::test]
async fn rl_01_a_slow_holder_takes_nothing_from_the_next_one() {
    let w = World::new().await;
    let identity = w.fresh_identity();
    let (a, b, c) = (w.delivery(identity).await, w.delivery(identity).await, w.delivery(identity).await);
    let slow = w.granted(a).await;
    w.let_claim_end(a).await;
    assert!(w.expire(a, OnUnknown::Failover).await);
    let next = w.granted(b).await;
    // A ends, with something that is no acceptance.
    assert!(!w.record(&slow, identity, retry()).await);
    w.store.record_late(&[w.result(&slow, identity, retry())], false).await.unwrap();
    assert_eq!(w.send(identity).await, Some(("claimed".into(), b)));
    assert_eq!(w.state(a).await, DeliveryState::Retrying);
    assert_eq!(w.attempt_outcome(slow.attempt).await.as_deref(), Some("late"));
    assert_eq!(w.number("SELECT count(*) FROM late_results WHERE outcome = 'retry' AND NOT frozen").await, 1);
    assert!(matches!(w.claim(c).await.1, Claim::InProgress { by, .. } if by == b));
    assert!(w.record(&next, identity, sent("m")).await);
    assert_eq!(w.claim(a).await.1, Claim::AlreadySent { by: b });
    w.check().await;
    w.db.close().await;
}

/// A late acceptance is a fact: a new owner that has not called yet finds its claim gone.
#[tokio::test]
async fn a_late_acceptance_makes_the_identity_sent_although_another_attempt_holds_it() {
    let w = World::new().await;
    let (delivery, identity) = w.fresh().await;
    let frozen = w.granted(delivery).await;
    w.let_claim_end(delivery).await;
    assert!(w.expire(delivery, OnUnknown::Failover).await);
    let second = w.granted(delivery).await;
    let late = w.result(&frozen, identity, sent("m1"));
    w.store.record_late(std::slice::from_ref(&late), true).await.unwrap();
    assert_eq!(w.send(identity).await, Some(("sent".into(), delivery)));
    let seen = w.see(delivery).await;
    assert_eq!((seen.state, seen.provider_message_id.as_deref()), (DeliveryState::Sent, Some("m1")));
    assert_eq!(w.attempt_outcome(second.attempt).await.as_deref(), Some("overtaken"));
    // Whatever the second one has done: late.
    assert!(!w.record(&second, identity, retry()).await);
    w.store.record_late(&[w.result(&second, identity, retry())], false).await.unwrap();
    w.store.record_late(&[late], true).await.unwrap(); // and once more
    assert_eq!(w.number("SELECT count(*) FROM late_results").await, 2);
    assert_eq!(w.number("SELECT count(*) FROM late_results WHERE frozen AND outcome = 'sent'").await, 1);
    assert_eq!(w.see(delivery).await.version, seen.version);
    w.check().await;
    w.db.close().await;
}

/// The same, and the new owner is another delivery: it must not stay SENDING for ever.
#[tokio::test]
async fn a_delivery_whose_identity_was_taken_by_a_fact_finds_out_and_is_not_stuck() {
    let w = World::new().await;
    let identity = w.fresh_identity();
    let (a, b) = (w.delivery(identity).await, w.delivery(identity).await);
    let frozen = w.granted(a).await;
    w.let_claim_end(a).await;
    assert!(w.expire(a, OnUnknown::Failover).await);
    let owner = w.granted(b).await;
    w.store.record_late(&[w.result(&frozen, identity, sent("m1"))], true).await.unwrap();
    assert_eq!((w.state(a).await, w.state(b).await), (DeliveryState::Sent, DeliveryState::Sending));
    assert!(!w.record(&owner, identity, retry()).await);
    assert!(!w.expire(b, OnUnknown::Reconcile).await, "its time is not over");
    w.let_due(b).await;
    assert_eq!(w.store.list_expired_claims(10).await.unwrap()[0].token, Uuid::nil());
    assert!(w.expire(b, OnUnknown::Reconcile).await);
    let seen = w.see(b).await;
    assert_eq!((seen.state, seen.crashes), (DeliveryState::Retrying, 0));
    assert_eq!(w.claim(b).await.1, Claim::AlreadySent { by: a });
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn two_real_acceptances_are_two_sent_deliveries_and_one_sent_identity() {
    let w = World::new().await;
    let identity = w.fresh_identity();
    let (a, b) = (w.delivery(identity).await, w.delivery(identity).await);
    let frozen = w.granted(a).await;
    w.let_claim_end(a).await;
    assert!(w.expire(a, OnUnknown::Failover).await);
    let owner = w.granted(b).await;
    assert!(w.record(&owner, identity, sent("m2")).await);
    w.store.record_late(&[w.result(&frozen, identity, sent("m1"))], true).await.unwrap();
    assert_eq!(w.send(identity).await, Some(("sent".into(), b)), "the first record stands");
    assert_eq!((w.state(a).await, w.state(b).await), (DeliveryState::Sent, DeliveryState::Sent));
    assert_eq!(w.number("SELECT count(*) FROM late_results WHERE frozen").await, 1);
    w.check_but_for_duplicates().await;
    w.db.close().await;
}

#[tokio::test]
async fn an_unknown_whose_window_is_over_goes_on_and_a_held_one_waits_for_a_person() {
    let w = World::new().await;
    let (open, open_identity) = w.fresh().await;
    let (held, held_identity) = w.fresh().await;
    for (delivery, identity, hold) in [(open, open_identity, false), (held, held_identity, true)] {
        let claim = w.granted(delivery).await;
        assert!(w.record(&claim, identity, unknown(hold)).await);
        w.let_due(delivery).await;
    }
    let due = w.store.list_due_unknowns(10).await.unwrap();
    assert_eq!(due.iter().map(|u| u.delivery).collect::<Vec<_>>(), [open]);
    assert_eq!((due[0].position, due[0].last_outcome.as_deref()), (1, Some("unknown")));
    let to = Recorded::Retry { delay: Duration::ZERO, attempts: 0, position: 1, detail: "not seen".into() };
    let stale = ResolveUnknown { delivery: open, version: 1, to: to.clone() };
    assert_eq!(w.store.resolve_unknowns(&[stale]).await.unwrap(), []);
    let resolve = ResolveUnknown { delivery: open, version: due[0].version, to };
    assert_eq!(w.store.resolve_unknowns(&[resolve]).await.unwrap(), [open]);
    assert_eq!(w.send(open_identity).await, Some(("released".into(), open)));
    assert_eq!(w.claim(open).await.1, Claim::Granted { version: 5, attempts: 0, position: 1, again: true });
    // The held one: a reminder a day, then a decision.
    assert_eq!(w.store.remind_of_held(10).await.unwrap(), [(held, w.tenant)]);
    assert_eq!(w.store.remind_of_held(10).await.unwrap(), []);
    assert!(w.store.settle_by_hand(held, &SettleByHand::Resend).await.unwrap());
    assert!(!w.store.settle_by_hand(held, &SettleByHand::Resend).await.unwrap(), "once");
    let seen = w.see(held).await;
    assert_eq!((seen.state, seen.held, seen.position), (DeliveryState::Retrying, false, 1));
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn a_person_s_word_that_it_was_sent_settles_it() {
    let w = World::new().await;
    let (delivery, identity) = w.fresh().await;
    let claim = w.granted(delivery).await;
    let by_hand = SettleByHand::Sent { provider: "ses".into(), provider_message_id: None };
    assert!(!w.store.settle_by_hand(delivery, &by_hand).await.unwrap(), "not while it is being sent");
    assert!(w.record(&claim, identity, unknown(true)).await);
    assert!(w.store.settle_by_hand(delivery, &by_hand).await.unwrap());
    assert_eq!(w.state(delivery).await, DeliveryState::Sent);
    assert_eq!(w.send(identity).await, Some(("sent".into(), delivery)));
    w.check().await;
    w.db.close().await;
}

/// A result and an expiry at the same moment: exactly one of them wins, whichever that is; the loser's result is late.
#[tokio::test]
async fn of_a_result_and_an_expiry_at_once_exactly_one_wins() {
    let w = World::with_connections(4).await;
    let mut results_won = 0;
    for round in 0..100 {
        let (delivery, identity) = w.fresh().await;
        let claim = w.granted(delivery).await;
        w.let_claim_end(delivery).await;
        let result = [w.result(&claim, identity, if round % 2 == 0 { sent("m") } else { retry() })];
        let record = async {
            w.start(round, 0).await;
            w.store.record_results(&result).await
        };
        let expire = async {
            w.start(round, 1).await;
            let decision = ExpireDecision { delivery, token: claim.token, policy: OnUnknown::Failover, window: WINDOW };
            w.store.expire_claims(&[decision], MAX_CRASHES).await.unwrap()
        };
        let (recorded, expired) = tokio::join!(record, expire);
        let recorded = recorded.unwrap();
        assert_ne!(recorded.is_empty(), expired.is_empty(), "round {round}");
        results_won += u32::from(!recorded.is_empty());
        if recorded.is_empty() {
            w.store.record_late(&result, false).await.unwrap();
        }
        let expected = if round % 2 == 0 { DeliveryState::Sent } else { DeliveryState::Retrying };
        assert_eq!(w.state(delivery).await, expected, "round {round}");
    }
    println!("the result won {results_won} of 100");
    w.check().await;
    w.db.close().await;
}

/// A claim and the expiry of the one before: the newcomer is granted or told to wait or to sweep; never two owners.
#[tokio::test]
async fn a_claim_that_races_an_expiry_is_granted_only_behind_it() {
    let w = World::with_connections(4).await;
    let mut granted = 0;
    for round in 0..100 {
        let identity = w.fresh_identity();
        let (a, b) = (w.delivery(identity).await, w.delivery(identity).await);
        let first = w.granted(a).await;
        w.let_claim_end(a).await;
        let decision =
            [ExpireDecision { delivery: a, token: first.token, policy: OnUnknown::Failover, window: WINDOW }];
        let request = [crate::world::request(b)];
        let claim = async {
            w.start(round, 0).await;
            w.store.claim(&request, TTL).await.unwrap().remove(0).1
        };
        let expire = async {
            w.start(round, 1).await;
            w.store.expire_claims(&decision, MAX_CRASHES).await
        };
        let (expired, claim) = tokio::join!(expire, claim);
        assert_eq!(expired.unwrap(), [a]);
        match claim {
            Claim::Granted { .. } => granted += 1,
            Claim::Expired { by } => assert_eq!(by, a),
            Claim::AlreadySent { .. }
            | Claim::InProgress { .. }
            | Claim::NotClaimable { .. }
            | Claim::Superseded { .. }
            | Claim::RevisionInProgress { .. }
            | Claim::NotItsTurn { .. }
            | Claim::OrderTimedOut => panic!("round {round}: {claim:?}"),
        }
    }
    println!("{granted} of 100 claims came after the expiry");
    w.check().await;
    w.db.close().await;
}
