//! Jobs of one ordering key: who may be claimed, and who is woken.

use crate::world::{TTL, World, request, retry, sent, unknown};
use std::time::Duration;
use waybill_core::{
    identity::Identity,
    ids::{DeliveryId, JobId},
    state::{DeliveryState, Reason},
};
use waybill_store::{Claim, OrderedJob, Store};

const GRACE: Duration = Duration::from_secs(5);
const HOUR: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy)]
struct Ordered {
    job: JobId,
    delivery: DeliveryId,
    identity: Identity,
}

impl World {
    /// A routed job with one delivery.
    async fn ordered(&self, key: &str) -> Ordered {
        let job = self.job().await;
        sqlx::query("UPDATE jobs SET ordering_key = $2, ordering_due_at = now() + interval '10 seconds' WHERE id = $1")
            .bind(job.0)
            .bind(key)
            .execute(&self.db.pool)
            .await
            .unwrap();
        let identity = self.fresh_identity();
        Ordered { job, identity, delivery: self.delivery_of(job, identity, "PENDING", None).await }
    }

    async fn send_ordered(&self, ordered: Ordered) {
        let claim = self.granted(ordered.delivery).await;
        assert!(self.record(&claim, ordered.identity, sent("m")).await);
    }

    /// What the scheduler sees when everything is due.
    async fn look(&self, may_block: Duration) -> Vec<OrderedJob> {
        self.sql("UPDATE jobs SET ordering_due_at = now() WHERE ordering_due_at IS NOT NULL", &[]).await;
        let mut seen = self.store.list_ordered(100, may_block).await.unwrap();
        seen.sort_by_key(|j| j.job);
        seen
    }
}

#[tokio::test]
async fn a_slice_with_several_keys_grants_the_head_of_each_and_puts_the_others_off() {
    let w = World::new().await;
    let (a1, b1) = (w.ordered("a").await, w.ordered("b").await);
    let (a2, b2, a3) = (w.ordered("a").await, w.ordered("b").await, w.ordered("a").await);
    let (free, _) = w.fresh().await;
    let before = w.store.statements();
    let requests = [a2, a1, b2, b1, a3].map(|o| request(o.delivery)).into_iter().chain([request(free)]);
    let requests: Vec<_> = requests.collect();
    let claims: Vec<_> = w.store.claim(&requests, TTL).await.unwrap().into_iter().map(|(_, claim)| claim).collect();
    assert_eq!(w.store.statements() - before, 1, "one statement");
    for granted in [1, 3, 5] {
        assert!(matches!(claims[granted], Claim::Granted { .. }), "{granted}: {claims:?}");
    }
    for (refused, behind) in [(0, a1), (2, b1), (4, a1)] {
        assert_eq!(claims[refused], Claim::NotItsTurn { behind: behind.job });
    }
    for waiting in [a2, b2, a3] {
        let seen = w.see(waiting.delivery).await;
        assert!(seen.state == DeliveryState::Pending && seen.version == 1 && seen.due_in.unwrap() > 3000.0, "{seen:?}");
    }
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn the_end_of_a_job_wakes_the_next_one_only() {
    let w = World::new().await;
    let (one, two, three) = (w.ordered("k").await, w.ordered("k").await, w.ordered("k").await);
    for waiting in [two, three] {
        assert_eq!(w.claim(waiting.delivery).await.1, Claim::NotItsTurn { behind: one.job });
    }
    let claim = w.granted(one.delivery).await;
    assert!(w.record(&claim, one.identity, retry()).await);
    assert_eq!(w.store.close_ordered(&[one.job, two.job]).await.unwrap(), []);
    w.send_ordered(one).await;
    // Sent, but nobody has said so yet: the claim takes no chances.
    assert_eq!(w.claim(two.delivery).await.1, Claim::NotItsTurn { behind: one.job });
    assert_eq!(w.store.close_ordered(&[one.job, two.job]).await.unwrap(), [one.job]);
    assert_eq!(w.store.close_ordered(&[one.job]).await.unwrap(), []);
    assert_eq!(w.store.wake_heads(&[one.job], GRACE).await.unwrap(), [(w.tenant, two.delivery)]);
    assert!(w.see(two.delivery).await.due_in.unwrap() <= 5.0);
    assert!(w.see(three.delivery).await.due_in.unwrap() > 3000.0);
    assert_eq!(w.claim(three.delivery).await.1, Claim::NotItsTurn { behind: two.job });
    w.granted(two.delivery).await;
    w.check().await;
    w.db.close().await;
}

/// The look and the wait are one statement, so that a wake can't fall in between.
#[tokio::test]
async fn a_claim_at_the_moment_of_the_end_before_it_is_granted_or_woken() {
    let w = World::with_connections(4).await;
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(2).connect(&w.db.url).await.unwrap();
    let second = Store::from_pool(pool.clone());
    let (mut granted, rounds) = (0, 200);
    for round in 0..rounds {
        let key = format!("k{round}");
        let (one, two) = (w.ordered(&key).await, w.ordered(&key).await);
        w.send_ordered(one).await;
        let next = [request(two.delivery)];
        let (claim, ()) = tokio::join!(
            async {
                w.start(round, 0).await;
                w.store.claim(&next, TTL).await.unwrap().remove(0).1
            },
            async {
                w.start(round, 1).await;
                assert_eq!(second.close_ordered(&[one.job]).await.unwrap(), [one.job]);
                second.wake_heads(&[one.job], GRACE).await.unwrap();
            }
        );
        let seen = w.see(two.delivery).await;
        if matches!(claim, Claim::Granted { .. }) {
            granted += 1;
        } else {
            assert!(matches!(claim, Claim::NotItsTurn { .. }), "{claim:?}");
            assert!(seen.due_in.unwrap() <= 5.0, "round {round}: {seen:?}");
        }
    }
    println!("granted {granted} of {rounds}");
    assert!(granted > 5 && granted < rounds - 5, "both orders happened: {granted}");
    w.check().await;
    pool.close().await;
    w.db.close().await;
}

#[tokio::test]
async fn a_head_s_time_runs_from_when_it_is_first_in_line_and_then_what_waits_is_a_dead_letter() {
    let w = World::new().await;
    let (one, two) = (w.ordered("k").await, w.ordered("k").await);
    let found = |late, new_head| {
        vec![OrderedJob { job: one.job, new_head, late }, OrderedJob { job: two.job, new_head: false, late: false }]
    };
    // Nobody has noted its time yet, so it can't be over.
    assert_eq!(w.look(Duration::ZERO).await, found(false, true));
    w.store.wake_heads(&[one.job], GRACE).await.unwrap();
    assert_eq!(w.look(HOUR).await, found(false, false));
    assert_eq!(w.look(Duration::ZERO).await, found(true, false));
    assert_eq!(w.store.list_ordered(100, HOUR).await.unwrap(), [], "each has its next look");
    // While a provider may have it, it is not touched and still in the way.
    let claim = w.granted(one.delivery).await;
    assert_eq!(w.store.time_out_ordered(&[one.job]).await.unwrap(), []);
    assert_eq!(w.store.close_ordered(&[one.job]).await.unwrap(), []);
    assert!(w.record(&claim, one.identity, unknown(false)).await);
    assert_eq!(w.store.close_ordered(&[one.job]).await.unwrap(), []);
    let resolve = waybill_store::ResolveUnknown { delivery: one.delivery, version: 3, to: retry() };
    w.store.resolve_unknowns(&[resolve]).await.unwrap();
    // Nothing of it is claimed any more.
    assert_eq!(w.claim(one.delivery).await.1, Claim::OrderTimedOut);
    assert_eq!(w.store.time_out_ordered(&[one.job]).await.unwrap(), [one.delivery]);
    let seen = w.see(one.delivery).await;
    assert_eq!((seen.state, seen.reason, seen.dead), (DeliveryState::Failed, Some(Reason::OrderingTimeout), true));
    assert_eq!(w.store.close_ordered(&[one.job]).await.unwrap(), [one.job]);
    assert_eq!(w.store.wake_heads(&[one.job], GRACE).await.unwrap(), [(w.tenant, two.delivery)]);
    // A dead letter that is put back goes, and stops nobody.
    w.store.redrive(&[one.delivery], HOUR).await.unwrap();
    w.granted(one.delivery).await;
    w.granted(two.delivery).await;
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn what_is_held_for_a_person_blocks_no_longer_than_the_rest_and_goes_when_the_person_says_so() {
    let w = World::new().await;
    let (one, two) = (w.ordered("k").await, w.ordered("k").await);
    let claim = w.granted(one.delivery).await;
    assert!(w.record(&claim, one.identity, unknown(true)).await);
    assert_eq!(w.store.close_ordered(&[one.job]).await.unwrap(), []);
    assert_eq!(w.store.time_out_ordered(&[one.job]).await.unwrap(), []);
    assert_eq!(w.store.close_ordered(&[one.job]).await.unwrap(), [one.job]);
    w.granted(two.delivery).await;
    assert_eq!(w.state(one.delivery).await, DeliveryState::Unknown);
    assert!(w.store.settle_by_hand(one.delivery, &waybill_store::SettleByHand::Resend).await.unwrap());
    w.granted(one.delivery).await;
    w.check().await;
    w.db.close().await;
}

/// A repeat of what was sent needs no turn, and a later job of another tenant or without a key waits for nobody.
#[tokio::test]
async fn only_what_would_be_sent_waits_and_only_behind_its_own_key() {
    let w = World::new().await;
    let (one, two) = (w.ordered("k").await, w.ordered("k").await);
    let other = waybill_core::ids::TenantId(uuid::Uuid::now_v7());
    w.sql("INSERT INTO tenants (id, name) VALUES ($1, 'other')", &[other.0]).await;
    let foreign = w.ordered("k").await;
    w.sql("UPDATE jobs SET tenant_id = $2 WHERE id = $1", &[foreign.job.0, other.0]).await;
    w.sql("UPDATE deliveries SET tenant_id = $2 WHERE id = $1", &[foreign.delivery.0, other.0]).await;
    w.granted(foreign.delivery).await;
    let twin = w.delivery(two.identity).await;
    let claim = w.granted(twin).await;
    assert!(w.record(&claim, two.identity, sent("m")).await);
    assert_eq!(w.claim(two.delivery).await.1, Claim::AlreadySent { by: twin });
    assert_eq!(w.state(one.delivery).await, DeliveryState::Pending);
    w.check().await;
    w.db.close().await;
}
