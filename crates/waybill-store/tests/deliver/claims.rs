use crate::world::{TTL, World, request, retry, sent, unknown};
use std::time::Duration;
use waybill_core::state::DeliveryState;
use waybill_store::{Claim, Store};

#[tokio::test]
async fn a_claim_writes_its_attempt_and_moves_its_delivery() {
    let w = World::new().await;
    let (delivery, identity) = w.fresh().await;
    let (claim, answer) = w.claim(delivery).await;
    assert_eq!(answer, Claim::Granted { version: 2, attempts: 0, position: 0, again: false });
    let seen = w.see(delivery).await;
    assert_eq!((seen.state, seen.version), (DeliveryState::Sending, 2));
    assert!((seen.due_in.unwrap() - TTL.as_secs_f64()).abs() < 5.0, "{seen:?}");
    assert_eq!(w.send(identity).await, Some(("claimed".into(), delivery)));
    assert_eq!(w.attempt_outcome(claim.attempt).await, None);
    assert_eq!(w.number("SELECT number::int8 FROM attempts").await, 1);
    w.check().await;
    w.db.close().await;
}

/// The budget of the hot path: a slice of any size is loaded, claimed and recorded in one round trip each.
#[tokio::test]
async fn a_slice_costs_three_statements() {
    let w = World::new().await;
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(w.fresh().await);
    }
    let before = w.store.statements();
    let loaded = w.store.load_deliveries(&ids.iter().map(|i| i.0).collect::<Vec<_>>()).await.unwrap();
    let requests: Vec<_> = loaded.iter().map(|d| request(d.id)).collect();
    let claims = w.store.claim(&requests, TTL).await.unwrap();
    assert!(claims.iter().all(|(_, c)| matches!(c, Claim::Granted { .. })));
    let results: Vec<_> = requests.iter().zip(&loaded).map(|(r, d)| w.result(r, d.identity, sent("m"))).collect();
    assert_eq!(w.store.record_results(&results).await.unwrap().len(), 10);
    assert_eq!(w.store.statements() - before, 3);
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn the_answer_says_why_a_claim_is_refused() {
    let w = World::new().await;
    let identity = w.fresh_identity();
    let (a, b) = (w.delivery(identity).await, w.delivery(identity).await);
    let claim = w.granted(a).await;
    // Another delivery of the identity, and the same one again.
    for id in [a, b] {
        let Claim::InProgress { until_in: Some(left), by, unknown: false } = w.claim(id).await.1 else {
            panic!("{id}")
        };
        assert!(by == a && left > Duration::from_secs(50) && left <= TTL, "{left:?}");
    }
    w.let_claim_end(a).await;
    for id in [a, b] {
        assert_eq!(w.claim(id).await.1, Claim::Expired { by: a }, "{id}");
    }
    assert!(w.record(&claim, identity, unknown(false)).await);
    for id in [a, b] {
        let Claim::InProgress { until_in: Some(left), by, unknown: true } = w.claim(id).await.1 else { panic!("{id}") };
        assert!(by == a && left <= Duration::from_secs(15), "{left:?}");
    }
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn what_was_sent_is_sent_for_good_and_what_was_released_is_free() {
    let w = World::new().await;
    let identity = w.fresh_identity();
    let (a, b) = (w.delivery(identity).await, w.delivery(identity).await);
    let claim = w.granted(a).await;
    assert!(w.record(&claim, identity, retry()).await);
    assert_eq!(w.send(identity).await, Some(("released".into(), a)));
    // The other one may take it now, and sends.
    let other = w.granted(b).await;
    assert!(matches!(w.claim(a).await.1, Claim::InProgress { by, .. } if by == b));
    assert!(w.record(&other, identity, sent("m1")).await);
    assert_eq!(w.claim(a).await.1, Claim::AlreadySent { by: b });
    assert_eq!(w.claim(b).await.1, Claim::NotClaimable { state: DeliveryState::Sent });
    assert_eq!(w.see(a).await.state, DeliveryState::Retrying);
    // The database itself refuses to forget it.
    for change in ["state = 'released'", "delivery_id = gen_random_uuid()"] {
        let statement = sqlx::AssertSqlSafe(format!("UPDATE sends SET {change}"));
        let error = sqlx::query(statement).execute(&w.db.pool).await.unwrap_err();
        assert!(error.to_string().contains("a sent identity never changes"), "{error}");
    }
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn of_two_deliveries_of_one_identity_in_one_slice_the_first_is_granted() {
    let w = World::new().await;
    let identity = w.fresh_identity();
    let (a, b) = (w.delivery(identity).await, w.delivery(identity).await);
    let (c, _) = w.fresh().await;
    // `b` is asked for first, and twice.
    let requests = [request(b), request(c), request(a), request(b)];
    let answers = w.store.claim(&requests, TTL).await.unwrap();
    let ids: Vec<_> = answers.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [b, c, a, b]);
    assert!(matches!(answers[0].1, Claim::Granted { .. }) && matches!(answers[1].1, Claim::Granted { .. }));
    for (_, refused) in &answers[2..] {
        assert!(matches!(refused, Claim::InProgress { by, unknown: false, .. } if *by == b), "{refused:?}");
    }
    assert_eq!(w.number("SELECT count(*) FROM attempts").await, 2);
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn a_waiting_delivery_may_be_claimed_and_a_final_or_missing_one_may_not() {
    let w = World::new().await;
    let job = w.job().await;
    let waiting = w.delivery_of(job, w.fresh_identity(), "WAITING_DOCUMENT", None).await;
    w.granted(waiting).await;
    let missing = waybill_core::ids::DeliveryId(uuid::Uuid::now_v7());
    assert_eq!(w.store.claim(&[request(missing)], TTL).await.unwrap(), []);
    assert_eq!(w.store.claim(&[], TTL).await.unwrap(), []);
    w.check().await;
    w.db.close().await;
}

/// RL-02 and the protocol's heart: two workers with pools of their own, one identity, two deliveries, at the same moment.
#[tokio::test]
async fn rl_02_two_workers_claim_one_identity_at_once_and_one_is_granted() {
    let w = World::with_connections(4).await;
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(2).connect(&w.db.url).await.unwrap();
    let second = Store::from_pool(pool.clone());
    let (mut firsts, rounds) = (0, 200);
    for round in 0..rounds {
        let identity = w.fresh_identity();
        let (a, b) = (w.delivery(identity).await, w.delivery(identity).await);
        // Every other round both workers got the same delivery.
        let b = if round % 2 == 0 { a } else { b };
        let (left_request, right_request) = ([request(a)], [request(b)]);
        let (left, right) = tokio::join!(w.store.claim(&left_request, TTL), second.claim(&right_request, TTL));
        let (left, right) = (left.unwrap().remove(0).1, right.unwrap().remove(0).1);
        match (&left, &right) {
            (Claim::Granted { .. }, Claim::InProgress { by, unknown: false, .. }) => {
                firsts += 1;
                assert_eq!(*by, a);
            }
            (Claim::InProgress { by, unknown: false, .. }, Claim::Granted { .. }) => assert_eq!(*by, b),
            other => panic!("round {round}: {other:?}"),
        }
    }
    assert_eq!(w.number("SELECT count(*) FROM attempts").await, rounds);
    println!("the first worker won {firsts} of {rounds}");
    w.check().await;
    pool.close().await;
    w.db.close().await;
}
