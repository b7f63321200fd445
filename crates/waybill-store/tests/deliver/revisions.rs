//! Revisions of one thing for one recipient: one at a provider at a time, and never an older one after a newer one.

use crate::world::{TTL, World, request, retry, sent, unknown};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::SliceRandom};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use waybill_core::{identity::Identity, ids::DeliveryId, state::DeliveryState};
use waybill_store::{Claim, FinalMove, MoveRequest, Store};

/// One revision of a lineage, of a job of its own, accepted now. Without a number it is known by its content.
struct Revision {
    delivery: DeliveryId,
    identity: Identity,
}

impl World {
    async fn revision(&self, lineage: Identity, identity: Identity, number: Option<i64>) -> Revision {
        let delivery = self.delivery(identity).await;
        sqlx::query(
            "WITH d AS (UPDATE deliveries SET lineage = $2 WHERE id = $1 RETURNING job_id)
             UPDATE jobs SET revision_number = $3, revision_by_content = $3 IS NULL FROM d WHERE id = job_id",
        )
        .bind(delivery.0)
        .bind(lineage.0.as_slice())
        .bind(number)
        .execute(&self.db.pool)
        .await
        .unwrap();
        Revision { delivery, identity }
    }

    async fn numbered(&self, lineage: Identity, number: i64) -> Revision {
        self.revision(lineage, self.fresh_identity(), Some(number)).await
    }

    async fn send_it(&self, revision: &Revision) {
        let claim = self.granted(revision.delivery).await;
        assert!(self.record(&claim, revision.identity, sent("m")).await);
    }

    async fn finish(&self, delivery: DeliveryId, to: FinalMove) {
        let version = self.see(delivery).await.version;
        assert_eq!(self.store.finish(&[MoveRequest { delivery, version, to }]).await.unwrap(), [delivery]);
    }
}

/// Per lineage: the revision that is in flight, and the newest that was sent.
type Seen = HashMap<usize, (Option<i64>, i64)>;

fn busy(claim: &Claim, wanted: DeliveryId) -> Option<Duration> {
    let Claim::RevisionInProgress { until_in, by } = claim else { panic!("not refused by {wanted}: {claim:?}") };
    assert_eq!(*by, wanted);
    *until_in
}

/// Two workers with pools of their own, two revisions, at the same moment, in both orders.
#[tokio::test]
async fn of_two_revisions_claimed_at_once_one_is_granted_and_the_older_never_goes_after_the_newer() {
    let w = World::with_connections(4).await;
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(2).connect(&w.db.url).await.unwrap();
    let second = Store::from_pool(pool.clone());
    let (mut older_first, rounds) = (0, 300);
    for round in 0..rounds {
        let lineage = w.fresh_identity();
        let (older, newer) = (w.numbered(lineage, 1).await, w.numbered(lineage, 2).await);
        let (old, new) = ([request(older.delivery)], [request(newer.delivery)]);
        let (left, right) = tokio::join!(
            async {
                w.start(round, 0).await;
                w.store.claim(&old, TTL).await
            },
            async {
                w.start(round, 1).await;
                second.claim(&new, TTL).await
            }
        );
        let (left, right) = (left.unwrap().remove(0).1, right.unwrap().remove(0).1);
        match (&left, &right) {
            (Claim::Granted { .. }, refused) => {
                assert_eq!(busy(refused, older.delivery), None);
                older_first += 1;
                assert!(w.record(&old[0], older.identity, sent("m")).await);
                w.granted(newer.delivery).await;
            }
            (refused, Claim::Granted { .. }) => {
                assert_eq!(busy(refused, newer.delivery), None);
                assert!(w.record(&new[0], newer.identity, sent("m")).await);
                assert_eq!(w.claim(older.delivery).await.1, Claim::Superseded { by: newer.delivery });
            }
            other => panic!("round {round}: {other:?}"),
        }
    }
    println!("the older one was first in {older_first} of {rounds}");
    assert!(older_first > 10 && older_first < rounds - 10, "both orders happened: {older_first}");
    w.check().await;
    pool.close().await;
    w.db.close().await;
}

/// Overlapping slices of many lineages: no deadlock, one in flight, and what goes out only gets newer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slices_of_many_revisions_never_deadlock_and_never_go_back() {
    const LINEAGES: usize = 20;
    const REVISIONS: i64 = 12;
    let w = Arc::new(World::with_connections(10).await);
    let mut all = Vec::new();
    for lineage in 0..LINEAGES {
        let hash = w.fresh_identity();
        for number in 1..=REVISIONS {
            all.push((lineage, number, w.numbered(hash, number).await));
        }
    }
    let all = Arc::new(all);
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let tasks: Vec<_> = (0..8)
        .map(|seed| {
            let (w, all, seen) = (w.clone(), all.clone(), seen.clone());
            tokio::spawn(async move {
                let mut rng = StdRng::seed_from_u64(seed);
                let start = Instant::now();
                let (mut granted, mut superseded, mut refused) = (0, 0, 0);
                while start.elapsed() < Duration::from_secs(4) {
                    let mut slice: Vec<usize> = (0..all.len()).collect();
                    slice.shuffle(&mut rng);
                    slice.truncate(15);
                    let requests: Vec<_> = slice.iter().map(|i| request(all[*i].2.delivery)).collect();
                    let answers = w.store.claim(&requests, TTL).await.unwrap();
                    let mut results = Vec::new();
                    for ((index, request), (_, claim)) in slice.iter().zip(&requests).zip(answers) {
                        let (lineage, number, revision) = &all[*index];
                        superseded += usize::from(matches!(claim, Claim::Superseded { .. }));
                        refused += usize::from(matches!(claim, Claim::RevisionInProgress { .. }));
                        if matches!(claim, Claim::Granted { .. }) {
                            granted += 1;
                            let outcome = if rng.random_bool(0.1) { sent("m") } else { retry() };
                            let mut seen = seen.lock().unwrap();
                            let (in_flight, last) = seen.entry(*lineage).or_default();
                            assert_eq!(in_flight.replace(*number), None, "two at once");
                            assert!(*number > *last, "{number} after {last}");
                            results.push((*lineage, *number, w.result(request, revision.identity, outcome)));
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(rng.random_range(0..5))).await;
                    for (lineage, number, result) in &results {
                        let mut seen = seen.lock().unwrap();
                        let entry = seen.get_mut(lineage).unwrap();
                        entry.0 = None;
                        if result.result == sent("m") {
                            entry.1 = *number;
                        }
                    }
                    let results: Vec<_> = results.into_iter().map(|r| r.2).collect();
                    assert_eq!(w.store.record_results(&results).await.unwrap().len(), results.len());
                }
                (granted, superseded, refused)
            })
        })
        .collect();
    let mut sum = (0, 0, 0);
    for task in tasks {
        let done = task.await.unwrap();
        sum = (sum.0 + done.0, sum.1 + done.1, sum.2 + done.2);
    }
    println!("granted, superseded, refused: {sum:?}");
    assert!(sum.0 > 100 && sum.1 > 100 && sum.2 > 50, "{sum:?}");
    w.check().await;
    Arc::into_inner(w).unwrap().db.close().await;
}

#[tokio::test]
async fn of_the_revisions_in_one_slice_the_newest_is_granted_and_the_others_look_again() {
    let w = World::new().await;
    let (lineage, other) = (w.fresh_identity(), w.fresh_identity());
    let (one, three, two) = (w.numbered(lineage, 1).await, w.numbered(lineage, 3).await, w.numbered(lineage, 2).await);
    let apart = w.numbered(other, 1).await;
    let twin = w.revision(lineage, three.identity, Some(3)).await;
    let ids = [one.delivery, three.delivery, two.delivery, apart.delivery, twin.delivery];
    let before = w.store.statements();
    let requests = ids.map(request);
    let answers: Vec<_> = w.store.claim(&requests, TTL).await.unwrap().into_iter().map(|(_, claim)| claim).collect();
    assert_eq!(w.store.statements() - before, 1, "one statement");
    assert!(matches!(answers[1], Claim::Granted { .. }) && matches!(answers[3], Claim::Granted { .. }), "{answers:?}");
    assert_eq!((busy(&answers[0], three.delivery), busy(&answers[2], three.delivery)), (None, None));
    assert!(matches!(answers[4], Claim::InProgress { by, .. } if by == three.delivery), "{:?}", answers[4]);
    assert!(w.record(&requests[1], three.identity, sent("m")).await);
    for older in [&one, &two] {
        assert_eq!(w.claim(older.delivery).await.1, Claim::Superseded { by: three.delivery });
    }
    assert_eq!(w.claim(twin.delivery).await.1, Claim::AlreadySent { by: three.delivery });
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn an_unknown_outcome_holds_the_other_revisions_for_its_window_and_one_that_failed_holds_nobody() {
    let w = World::new().await;
    let lineage = w.fresh_identity();
    let (older, newer) = (w.numbered(lineage, 1).await, w.numbered(lineage, 2).await);
    let claim = w.granted(older.delivery).await;
    assert_eq!(busy(&w.claim(newer.delivery).await.1, older.delivery), None);
    // A claim whose worker died is decided by the scheduler; until then it counts.
    w.let_claim_end(older.delivery).await;
    assert_eq!(busy(&w.claim(newer.delivery).await.1, older.delivery), None);
    assert!(w.record(&claim, older.identity, unknown(false)).await);
    let left = busy(&w.claim(newer.delivery).await.1, older.delivery).unwrap();
    assert!(left > Duration::from_secs(10) && left <= Duration::from_secs(15), "{left:?}");
    let resolve = waybill_store::ResolveUnknown { delivery: older.delivery, version: 3, to: retry() };
    assert_eq!(w.store.resolve_unknowns(&[resolve]).await.unwrap(), [older.delivery]);
    // A newer one that failed stops nothing.
    let claim = w.granted(newer.delivery).await;
    assert!(w.record(&claim, newer.identity, retry()).await);
    w.granted(older.delivery).await;
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn an_outcome_that_is_held_for_a_person_stops_what_is_older_and_nothing_newer() {
    let w = World::new().await;
    let lineage = w.fresh_identity();
    let (one, two, three) = (w.numbered(lineage, 1).await, w.numbered(lineage, 2).await, w.numbered(lineage, 3).await);
    let claim = w.granted(two.delivery).await;
    assert!(w.record(&claim, two.identity, unknown(true)).await);
    assert!(busy(&w.claim(one.delivery).await.1, two.delivery).is_some());
    w.send_it(&three).await;
    assert_eq!(w.claim(one.delivery).await.1, Claim::Superseded { by: three.delivery });
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn a_content_that_comes_back_after_another_one_is_sent_again_and_once() {
    let w = World::new().await;
    let (lineage, a, b) = (w.fresh_identity(), w.fresh_identity(), w.fresh_identity());
    let first = w.revision(lineage, a, None).await;
    w.send_it(&first).await;
    let repeat = w.revision(lineage, a, None).await;
    let edit = w.revision(lineage, b, None).await;
    let (back, back_twin) = (w.revision(lineage, a, None).await, w.revision(lineage, a, None).await);
    w.send_it(&edit).await;
    // From before the edit: older than what went out last.
    assert_eq!(w.claim(repeat.delivery).await.1, Claim::Superseded { by: edit.delivery });
    let loaded = w.store.load_deliveries(&[back.delivery]).await.unwrap().remove(0);
    assert_eq!((loaded.sent_by, loaded.sent_before, loaded.superseded_by), (None, true, None));
    let claim = w.granted(back.delivery).await;
    assert_eq!(w.send(a).await, Some(("claimed".into(), back.delivery)));
    assert!(matches!(w.claim(back_twin.delivery).await.1, Claim::InProgress { by, .. } if by == back.delivery));
    // It fails, and is still the one to send.
    assert!(w.record(&claim, a, retry()).await);
    assert_eq!(w.claim(repeat.delivery).await.1, Claim::Superseded { by: edit.delivery });
    w.send_it(&back).await;
    assert_eq!(w.claim(back_twin.delivery).await.1, Claim::AlreadySent { by: back.delivery });
    // And there again.
    let forth = w.revision(lineage, b, None).await;
    w.send_it(&forth).await;
    assert_eq!(w.send(b).await, Some(("sent".into(), forth.delivery)));
    w.check_but_for_duplicates().await;
    w.db.close().await;
}

/// A was sent, B waits, and A is asked for again: the recipient has A, which is newer than B now.
#[tokio::test]
async fn a_repeat_of_what_was_sent_last_makes_what_was_accepted_in_between_an_older_one() {
    let w = World::new().await;
    let (lineage, a, b) = (w.fresh_identity(), w.fresh_identity(), w.fresh_identity());
    let first = w.revision(lineage, a, None).await;
    w.send_it(&first).await;
    let (edit, back) = (w.revision(lineage, b, None).await, w.revision(lineage, a, None).await);
    assert_eq!(w.claim(back.delivery).await.1, Claim::AlreadySent { by: first.delivery });
    w.finish(back.delivery, FinalMove::Duplicate { of: first.delivery }).await;
    assert_eq!(w.claim(edit.delivery).await.1, Claim::Superseded { by: first.delivery });
    assert_eq!(w.state(first.delivery).await, DeliveryState::Sent);
    w.check().await;
    w.db.close().await;
}

/// With revisions of its own a producer says itself what is the same.
#[tokio::test]
async fn a_number_that_comes_back_is_a_repeat() {
    let w = World::new().await;
    let lineage = w.fresh_identity();
    let (one, two) = (w.numbered(lineage, 1).await, w.numbered(lineage, 2).await);
    w.send_it(&one).await;
    w.send_it(&two).await;
    let again = w.revision(lineage, one.identity, Some(1)).await;
    let loaded = w.store.load_deliveries(&[again.delivery]).await.unwrap().remove(0);
    assert_eq!((loaded.sent_by, loaded.sent_before), (Some(one.delivery), false));
    assert_eq!(w.claim(again.delivery).await.1, Claim::AlreadySent { by: one.delivery });
    // The database itself holds it.
    let change = "UPDATE sends SET state = 'claimed', claim_token = gen_random_uuid(), claim_expires_at = now(),
                  attempt_id = gen_random_uuid() WHERE delivery_id = $1";
    let error = sqlx::query(change).bind(one.delivery.0).execute(&w.db.pool).await.unwrap_err();
    assert!(error.to_string().contains("a sent identity never changes"), "{error}");
    w.check().await;
    w.db.close().await;
}
