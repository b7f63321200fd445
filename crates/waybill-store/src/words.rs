//! The CHECK lists of the schema hold the words of `waybill-core`, all of them and no others.

use crate::testing::open;
use std::collections::BTreeSet;
use waybill_core::{
    address::Channel,
    outcome::OnUnknown,
    state::{DeliveryState, DocumentState, JobState},
};

async fn words(store: &crate::Store, constraint: &str) -> BTreeSet<String> {
    let definition: String =
        sqlx::query_scalar("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = $1")
            .bind(constraint)
            .fetch_one(store.pool())
            .await
            .unwrap();
    definition.split('\'').skip(1).step_by(2).map(ToOwned::to_owned).collect()
}

fn set<T: Copy>(all: &[T], word: fn(T) -> &'static str) -> BTreeSet<String> {
    all.iter().map(|t| word(*t).to_owned()).collect()
}

#[tokio::test]
async fn the_check_lists_are_core_s_words() {
    let (db, store) = open().await;
    assert_eq!(words(&store, "deliveries_state_check").await, set(DeliveryState::ALL, DeliveryState::as_str));
    assert_eq!(words(&store, "jobs_state_check").await, set(JobState::ALL, JobState::as_str));
    assert_eq!(words(&store, "documents_state_check").await, set(DocumentState::ALL, DocumentState::as_str));
    assert_eq!(words(&store, "deliveries_channel_check").await, set(&Channel::ALL, Channel::as_str));
    let policies = [OnUnknown::Reconcile, OnUnknown::Failover, OnUnknown::Hold];
    assert_eq!(words(&store, "tenants_on_unknown_check").await, set(&policies, OnUnknown::as_str));
    db.close().await;
}

#[tokio::test]
async fn open_rows_are_exactly_core_s_open_states() {
    let (db, store) = open().await;
    let open: BTreeSet<String> =
        DeliveryState::ALL.iter().filter(|s| !s.is_final()).map(|s| s.as_str().to_owned()).collect();
    assert_eq!(words(&store, "deliveries_open_is_due").await, open);
    db.close().await;
}
