//! Everything at once, for seconds: no deadlock, no broken invariant, one sender per identity.

use crate::{
    reconcile::MAX_CRASHES,
    world::{TTL, World, request, retry, sent},
};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use waybill_core::{
    identity::Identity,
    ids::DeliveryId,
    outcome::OnUnknown,
    ports::{FeedbackEvent, FeedbackKind},
    state::Reason,
};
use waybill_store::{Claim, ExpireDecision, FinalMove, MoveRequest, Recorded, ResolveUnknown, StoreError};

const TASKS: u64 = 8;
const RUN: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct Done {
    rounds: u32,
    granted: u32,
    late: u32,
    expired: u32,
    resolved: u32,
    settled: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_tasks_on_overlapping_slices_never_deadlock_and_break_nothing() {
    let w = Arc::new(World::with_connections(10).await);
    // Three deliveries of each identity, so that claims meet.
    let mut pairs = Vec::new();
    for _ in 0..60 {
        let identity = w.fresh_identity();
        for _ in 0..3 {
            pairs.push((w.delivery(identity).await, identity));
        }
    }
    let pairs = Arc::new(pairs);
    let tasks: Vec<_> = (0..TASKS)
        .map(|seed| {
            let (w, pairs) = (Arc::clone(&w), Arc::clone(&pairs));
            tokio::spawn(async move { hammer(&w, &pairs, StdRng::seed_from_u64(seed)).await })
        })
        .collect();
    let mut all = Done::default();
    for task in tasks {
        let done = task.await.unwrap().unwrap();
        all.rounds += done.rounds;
        all.granted += done.granted;
        all.late += done.late;
        all.expired += done.expired;
        all.resolved += done.resolved;
        all.settled += done.settled;
    }
    println!("{all:?}");
    // Low marks: a busy machine does less in the time.
    assert!(all.granted > 50 && all.expired > 20 && all.late > 10 && all.resolved > 5, "{all:?}");
    // Late acceptances are part of the game, so real duplicates may be.
    w.check_but_for_duplicates().await;
    Arc::into_inner(w).unwrap().db.close().await;
}

async fn hammer(w: &World, pairs: &[(DeliveryId, Identity)], mut rng: StdRng) -> Result<Done, StoreError> {
    let (start, mut done) = (Instant::now(), Done::default());
    while start.elapsed() < RUN {
        done.rounds += 1;
        let mut slice: Vec<_> = pairs.to_vec();
        slice.shuffle(&mut rng);
        slice.truncate(12);
        let ids: Vec<_> = slice.iter().map(|p| p.0).collect();
        // Mostly short claims, that end before their results come.
        let ttl = if rng.random_bool(0.5) { Duration::from_millis(1) } else { TTL };
        let requests: Vec<_> = ids.iter().map(|id| request(*id)).collect();
        let answers = w.store.claim(&requests, ttl).await?;
        let granted: Vec<_> = requests
            .iter()
            .zip(answers)
            .filter(|(_, (_, a))| matches!(a, Claim::Granted { .. }))
            .map(|(r, _)| *r)
            .collect();
        done.granted += u32::try_from(granted.len()).unwrap();
        done.expired += expire(w, &ids, &mut rng).await?;
        let mut results: Vec<_> = granted
            .iter()
            .map(|claim| {
                let identity = slice.iter().find(|p| p.0 == claim.delivery).unwrap().1;
                w.result(claim, identity, any_result(&mut rng))
            })
            .collect();
        let recorded = w.store.record_results(&results).await?;
        results.retain(|r| !recorded.contains(&r.delivery));
        done.late += u32::try_from(results.len()).unwrap();
        w.store.record_late(&results, false).await?;
        done.settled += feedback(w, &ids, &mut rng).await?;
        done.resolved += resolve(w, &ids, &mut rng).await?;
    }
    Ok(done)
}

fn any_result(rng: &mut StdRng) -> Recorded {
    match rng.random_range(0..200) {
        0 => sent("m"),
        1..40 => Recorded::Unknown { position: 0, window: Duration::ZERO, hold: false, detail: "time-out".into() },
        40 => {
            Recorded::Failed { reason: Reason::ProvidersExhausted, dead_letter: true, attempts: 3, detail: "x".into() }
        }
        _ => retry(),
    }
}

async fn expire(w: &World, ids: &[DeliveryId], rng: &mut StdRng) -> Result<u32, StoreError> {
    let policies = [OnUnknown::Reconcile, OnUnknown::Failover];
    let mut decisions: Vec<_> = w
        .store
        .find_expired_claims(ids)
        .await?
        .iter()
        .map(|c| ExpireDecision {
            delivery: c.delivery,
            token: c.token,
            policy: policies[rng.random_range(0..2)],
            window: Duration::ZERO,
        })
        .collect();
    decisions.shuffle(rng);
    Ok(u32::try_from(w.store.expire_claims(&decisions, MAX_CRASHES * 1000).await?.len()).unwrap())
}

async fn feedback(w: &World, ids: &[DeliveryId], rng: &mut StdRng) -> Result<usize, StoreError> {
    let kinds = [FeedbackKind::Accepted, FeedbackKind::Delivered, FeedbackKind::Bounced, FeedbackKind::Dropped];
    let mut events = Vec::new();
    for id in ids.iter().filter(|_| rng.random_bool(0.003)).copied().collect::<Vec<_>>() {
        let kind = kinds[rng.random_range(0..4)];
        events.push(FeedbackEvent {
            provider: "ses",
            event_id: format!("{id}{}", rng.random_range(0..3)),
            delivery: Some(id),
            attempt: None,
            provider_message_id: None,
            kind,
            at: None,
            detail: String::new(),
        });
    }
    let settled = w.store.record_feedback(&events).await?.settled.len();
    Ok(settled + w.store.settle_feedback(20).await?.settled.len())
}

async fn resolve(w: &World, ids: &[DeliveryId], rng: &mut StdRng) -> Result<u32, StoreError> {
    let mut due: Vec<_> = w
        .store
        .list_due_unknowns(20)
        .await?
        .into_iter()
        .map(|u| ResolveUnknown { delivery: u.delivery, version: u.version, to: retry() })
        .collect();
    due.shuffle(rng);
    let resolved = w.store.resolve_unknowns(&due).await?.len();
    let loaded = w.store.load_deliveries(ids).await?;
    let moves: Vec<_> = loaded
        .iter()
        .filter(|_| rng.random_bool(0.0002))
        .map(|d| MoveRequest { delivery: d.id, version: d.version, to: FinalMove::Expired })
        .collect();
    w.store.finish(&moves).await?;
    let items: Vec<_> = loaded.iter().map(|d| (d.id, d.version, Duration::from_millis(5))).collect();
    w.store.defer(&items).await?;
    w.store.release_due(10, Duration::from_millis(5)).await?;
    Ok(u32::try_from(resolved).unwrap())
}
