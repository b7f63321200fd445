use crate::world::{World, retry, sent, unknown};
use std::time::Duration;
use waybill_core::state::{DeliveryState, Reason};
use waybill_store::Recorded;

#[tokio::test]
async fn each_result_has_its_state() {
    let w = World::new().await;
    let failed =
        Recorded::Failed { reason: Reason::ProvidersExhausted, dead_letter: true, attempts: 3, detail: "502".into() };
    let hold = Recorded::Hold { delay: Duration::from_secs(60), position: 0, detail: "suspended".into() };
    let cases = [
        (sent("m1"), DeliveryState::Sent, "sent", (1, 0), None),
        (unknown(false), DeliveryState::Unknown, "unknown", (0, 1), Some(15.0)),
        (unknown(true), DeliveryState::Unknown, "unknown", (0, 1), Some(86_400.0)),
        (retry(), DeliveryState::Retrying, "released", (1, 0), Some(30.0)),
        (hold, DeliveryState::Retrying, "released", (0, 0), Some(60.0)),
        (failed, DeliveryState::Failed, "released", (3, 0), None),
    ];
    for (result, state, send, counts, due) in cases {
        let (delivery, identity) = w.fresh().await;
        let claim = w.granted(delivery).await;
        let held = matches!(result, Recorded::Unknown { hold: true, .. });
        let dead = matches!(result, Recorded::Failed { .. });
        assert!(w.record(&claim, identity, result.clone()).await);
        let seen = w.see(delivery).await;
        assert_eq!((seen.state, seen.held, seen.dead), (state, held, dead), "{result:?}");
        assert_eq!((seen.attempts, seen.position), counts, "{result:?}");
        assert_eq!(w.send(identity).await, Some((send.into(), delivery)));
        assert_eq!(seen.due_in.map(|d| (d / 5.0).round() * 5.0), due, "{result:?}");
        assert!(w.attempt_outcome(claim.attempt).await.is_some());
        // The claim is gone: the same result again is late, and changes nothing.
        assert!(!w.record(&claim, identity, result).await);
        assert_eq!(w.see(delivery).await.version, seen.version);
    }
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn pg_04_a_nul_in_a_provider_s_answer_spoils_no_neighbour() {
    let w = World::new().await;
    let (bad, bad_identity) = w.fresh().await;
    let (good, good_identity) = w.fresh().await;
    let (bad_claim, good_claim) = (w.granted(bad).await, w.granted(good).await);
    let result = Recorded::Failed {
        reason: Reason::RecipientRejected,
        dead_letter: false,
        attempts: 1,
        detail: "550 no\0 such user".into(),
    };
    let mut poisoned = w.result(&bad_claim, bad_identity, result);
    poisoned.calls =
        serde_json::json!([{"provider": "ses", "de\0tail": "a\u{0}b", "literal": "\\u0000", "n": [null, 1.5]}]);
    let fine = w.result(&good_claim, good_identity, sent("id\0"));
    let mut recorded = w.store.record_results(&[poisoned, fine]).await.unwrap();
    recorded.sort();
    assert_eq!(recorded, [bad, good]);
    assert_eq!(w.see(bad).await.detail.as_deref(), Some("550 no\u{fffd} such user"));
    assert_eq!(w.see(good).await.provider_message_id.as_deref(), Some("id\u{fffd}"));
    let calls: serde_json::Value = sqlx::query_scalar("SELECT calls FROM attempts WHERE delivery_id = $1")
        .bind(bad.0)
        .fetch_one(&w.db.pool)
        .await
        .unwrap();
    // The six characters that only look like an escape stay.
    assert_eq!(
        calls,
        serde_json::json!([{"provider": "ses", "de\u{fffd}tail": "a\u{fffd}b", "literal": "\\u0000", "n": [null, 1.5]}])
    );
    w.check().await;
    w.db.close().await;
}

/// PG-07: the write after an accepted send fails for a while; the redeliveries in between find SENDING and never claim.
#[tokio::test]
async fn pg_07_a_redelivery_of_a_sending_delivery_never_sends_again() {
    let w = World::new().await;
    let (delivery, identity) = w.fresh().await;
    let claim = w.granted(delivery).await;
    for _ in 0..5 {
        let refused = w.claim(delivery).await.1;
        assert!(matches!(refused, waybill_store::Claim::InProgress { by, .. } if by == delivery), "{refused:?}");
    }
    w.let_claim_end(delivery).await;
    assert_eq!(w.claim(delivery).await.1, waybill_store::Claim::Expired { by: delivery });
    // Nobody took the claim away meanwhile: the result is recorded, not late.
    assert!(w.record(&claim, identity, sent("m1")).await);
    assert_eq!(w.state(delivery).await, DeliveryState::Sent);
    assert_eq!(w.number("SELECT count(*) FROM attempts").await, 1);
    w.check().await;
    w.db.close().await;
}

#[tokio::test]
async fn a_result_that_was_recorded_but_whose_answer_got_lost_is_not_counted_as_late() {
    let w = World::new().await;
    let (delivery, identity) = w.fresh().await;
    let claim = w.granted(delivery).await;
    assert!(w.record(&claim, identity, sent("m1")).await);
    w.store.record_late(&[w.result(&claim, identity, sent("m1"))], false).await.unwrap();
    assert_eq!(w.number("SELECT count(*) FROM late_results").await, 0);
    assert_eq!(w.attempt_outcome(claim.attempt).await.as_deref(), Some("sent"));
    w.check().await;
    w.db.close().await;
}

/// The look for events comes after the commit. If its failure passed for the statement's, the worker would repeat the call and be told that
/// its own results are late: a dead letter without an alert.
#[tokio::test]
async fn a_result_counts_as_recorded_although_the_look_for_events_after_it_failed() {
    let w = World::new().await;
    let (a, identity) = w.fresh().await;
    let (b, _) = w.fresh().await;
    let claim = w.granted(a).await;
    w.granted(b).await;
    w.let_claim_end(b).await;
    w.sql("ALTER TABLE provider_events RENAME TO away", &[]).await;
    assert!(w.record(&claim, identity, retry()).await);
    assert!(w.expire(b, waybill_core::outcome::OnUnknown::Failover).await);
    assert_eq!((w.state(a).await, w.state(b).await), (DeliveryState::Retrying, DeliveryState::Retrying));
    w.db.close().await;
}
