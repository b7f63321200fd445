use super::*;
use crate::{NewApiKey, testing::*};
use waybill_core::ids::KeyId;

#[tokio::test]
async fn a_name_is_one_tenant_and_seeding_again_changes_only_its_policy() {
    let (db, store) = open().await;
    let first = store.ensure_tenant(TenantId(id()), "shop", None).await.unwrap();
    let again = store.ensure_tenant(TenantId(id()), "shop", Some(OnUnknown::Hold)).await.unwrap();
    assert_eq!(first, again);
    assert!(!store.create_tenant(TenantId(id()), "shop", None).await.unwrap());
    let found = store.find_tenant_by_name("shop").await.unwrap().unwrap();
    assert_eq!((found.id, found.on_unknown), (first, Some(OnUnknown::Hold)));
    assert_eq!(store.list_tenants().await.unwrap().as_slice(), std::slice::from_ref(&found));
    assert_eq!(store.find_tenant(first).await.unwrap(), Some(found));
    assert_eq!(store.find_tenant_by_name("other").await.unwrap(), None);
    db.close().await;
}

#[tokio::test]
async fn a_key_is_found_until_it_expires_or_is_revoked() {
    let (db, store) = open().await;
    let tenant = tenant(&store).await;
    let key = |expires_in: Option<i64>| NewApiKey {
        id: KeyId(id()),
        tenant,
        key_hash: hash(),
        prefix: "wb_test_ab".into(),
        scopes: vec!["events:write".into(), "jobs:read".into()],
        expires_at: expires_in.map(|s| now() + chrono::TimeDelta::seconds(s)),
    };
    let (forever, later, over) = (key(None), key(Some(600)), key(Some(-1)));
    for key in [&forever, &later, &over] {
        store.insert_api_key(key).await.unwrap();
    }
    let found = store.find_api_key(&forever.key_hash).await.unwrap().unwrap();
    assert_eq!((found.id, found.tenant, found.scopes), (forever.id, tenant, forever.scopes.clone()));
    assert!(store.find_api_key(&later.key_hash).await.unwrap().is_some());
    assert!(store.find_api_key(&over.key_hash).await.unwrap().is_none());
    assert!(store.find_api_key(&hash()).await.unwrap().is_none());
    assert!(store.revoke_api_key(forever.id).await.unwrap());
    assert!(!store.revoke_api_key(forever.id).await.unwrap());
    assert!(store.find_api_key(&forever.key_hash).await.unwrap().is_none());
    let listed = store.list_api_keys(tenant).await.unwrap();
    assert_eq!(listed.iter().filter(|k| k.revoked_at.is_some()).map(|k| k.id).collect::<Vec<_>>(), [forever.id]);
    assert_eq!(listed.len(), 3);
    db.close().await;
}
