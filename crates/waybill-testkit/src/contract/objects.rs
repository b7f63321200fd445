//! The contract of [`ObjectStore`].

use bytes::Bytes;
use uuid::Uuid;
use waybill_core::ports::{ObjectError, ObjectInfo, ObjectStore, PutOutcome};

const PDF: &str = "application/pdf";

fn key() -> String {
    format!("contract/{}/a.pdf", Uuid::new_v4().simple())
}

/// All rules, one after the other.
pub async fn run(objects: &dyn ObjectStore) {
    what_was_put_is_read(objects).await;
    nothing_is_not_an_error(objects).await;
    a_taken_key_is_not_touched(objects).await;
    one_of_many_at_once(objects).await;
    unusable_keys_are_refused(objects).await;
}

pub async fn what_was_put_is_read(objects: &dyn ObjectStore) {
    for bytes in [Bytes::from(vec![0xa5; 300_000]), Bytes::new()] {
        let key = key();
        assert_eq!(objects.put_if_absent(&key, bytes.clone(), PDF).await, Ok(PutOutcome::Created));
        assert_eq!(objects.head(&key).await, Ok(Some(ObjectInfo { size: bytes.len() as u64 })));
        assert_eq!(objects.get(&key).await, Ok(Some(bytes)));
    }
}

pub async fn nothing_is_not_an_error(objects: &dyn ObjectStore) {
    let key = key();
    assert_eq!(objects.get(&key).await, Ok(None));
    assert_eq!(objects.head(&key).await, Ok(None));
}

pub async fn a_taken_key_is_not_touched(objects: &dyn ObjectStore) {
    let (key, first) = (key(), Bytes::from_static(b"%PDF-first"));
    assert_eq!(objects.put_if_absent(&key, first.clone(), PDF).await, Ok(PutOutcome::Created));
    assert_eq!(objects.put_if_absent(&key, Bytes::from_static(b"other"), PDF).await, Ok(PutOutcome::Existed));
    assert_eq!(objects.get(&key).await, Ok(Some(first)));
}

/// Two renders of one document finish together: one object, complete, and exactly one of them made it.
pub async fn one_of_many_at_once(objects: &dyn ObjectStore) {
    let key = key();
    let put = async |fill: u8| {
        let bytes = Bytes::from(vec![fill; 100_000]);
        objects.put_if_absent(&key, bytes, PDF).await.expect("puts") == PutOutcome::Created
    };
    let (a, b, c, d) = tokio::join!(put(1), put(2), put(3), put(4));
    let winners: Vec<usize> = [a, b, c, d].iter().enumerate().filter(|(_, won)| **won).map(|(i, _)| i + 1).collect();
    assert_eq!(winners.len(), 1, "{winners:?}");
    let stored = objects.get(&key).await.expect("reads").expect("is there");
    assert_eq!(stored.len(), 100_000);
    assert!(stored.iter().all(|byte| usize::from(*byte) == winners[0]), "bytes of the winner only");
}

pub async fn unusable_keys_are_refused(objects: &dyn ObjectStore) {
    let long = "k".repeat(1025);
    for bad in ["", "/etc/x", "../x", "a/../../x", "a/..", "a//b", "a/", "./a", "a\0b", "a\\b", &long] {
        let put = objects.put_if_absent(bad, Bytes::new(), PDF).await;
        assert!(matches!(put, Err(ObjectError::BadKey(_))), "put {bad:?}: {put:?}");
        let got = objects.get(bad).await;
        assert!(matches!(got, Err(ObjectError::BadKey(_))), "get {bad:?}: {got:?}");
        let head = objects.head(bad).await;
        assert!(matches!(head, Err(ObjectError::BadKey(_))), "head {bad:?}: {head:?}");
    }
}
