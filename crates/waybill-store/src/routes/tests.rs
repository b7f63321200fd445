use super::*;
use crate::{StoreError, testing::*};

#[tokio::test]
async fn an_edit_is_a_new_version_and_the_old_one_stays_readable() {
    let (db, store) = open().await;
    let (tenant, id) = (tenant(&store).await, RouteId(id()));
    let mut spec = route_spec();
    assert_eq!(store.put_route(tenant, id, "order.placed", &spec).await.unwrap(), 1);
    spec.document = Some("purchase_order".into());
    assert_eq!(store.put_route(tenant, id, "order.placed", &spec).await.unwrap(), 2);
    let listed = store.list_routes(tenant).await.unwrap();
    assert_eq!(listed.iter().map(|r| (r.id, r.version, r.spec.clone())).collect::<Vec<_>>(), [(id, 2, spec.clone())]);
    assert_eq!(number(&store, "SELECT count(*) FROM routes WHERE NOT active AND version = 1").await, 1);
    assert!(store.deactivate_route(tenant, id).await.unwrap());
    assert!(!store.deactivate_route(tenant, id).await.unwrap());
    assert!(store.list_routes(tenant).await.unwrap().is_empty());
    assert_eq!(store.put_route(tenant, id, "order.placed", &spec).await.unwrap(), 3);
    db.close().await;
}

#[tokio::test]
async fn edits_at_once_become_versions_one_after_the_other() {
    let (db, store) = open().await;
    let (tenant, id) = (tenant(&store).await, RouteId(id()));
    let mut edits = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let store = store.clone();
        edits.spawn(async move { store.put_route(tenant, id, "t", &route_spec()).await.unwrap() });
    }
    let mut versions = edits.join_all().await;
    versions.sort_unstable();
    assert_eq!(versions, [1, 2, 3, 4]);
    assert_eq!(store.list_routes(tenant).await.unwrap().iter().map(|r| r.version).collect::<Vec<_>>(), [4]);
    db.close().await;
}

#[tokio::test]
async fn another_tenant_s_route_can_be_neither_edited_nor_found() {
    let (db, store) = open().await;
    let (ours, theirs, id) = (tenant(&store).await, tenant(&store).await, RouteId(id()));
    store.put_route(theirs, id, "order.placed", &route_spec()).await.unwrap();
    let refused = store.put_route(ours, id, "order.placed", &route_spec()).await;
    assert!(matches!(refused, Err(StoreError::OtherTenant { .. })), "{refused:?}");
    assert!(!store.deactivate_route(ours, id).await.unwrap());
    let wanted = [(ours, "order.placed".to_owned()), (theirs, "order.placed".to_owned()), (theirs, "other".to_owned())];
    let found = store.find_routes(&wanted).await.unwrap();
    assert_eq!(found.iter().map(|(t, r)| (*t, r.id)).collect::<Vec<_>>(), [(theirs, id)]);
    db.close().await;
}
