//! The contract of [`Lock`].

use std::time::Duration;
use uuid::Uuid;
use waybill_core::ports::{Lock, LockAnswer, LockRequest};

const LONG: Duration = Duration::from_secs(60);
/// `SET .. EX` counts whole seconds.
const SHORT: Duration = Duration::from_secs(1);

fn request(key: &str, owner: &str) -> LockRequest {
    LockRequest { key: key.into(), owner: owner.into() }
}

/// Keys of this run only: a shared Redis may hold others.
fn key() -> String {
    format!("notif:test:{}", Uuid::new_v4().simple())
}

/// All rules, one after the other.
pub async fn run(lock: &dyn Lock) {
    one_holder_per_key(lock).await;
    answers_come_in_order(lock).await;
    a_lock_ends_by_itself(lock).await;
    rl_01_only_the_holder_releases(lock).await;
    one_of_many_at_once(lock).await;
}

pub async fn one_holder_per_key(lock: &dyn Lock) {
    let key = key();
    let ask = async |owner: &str| lock.acquire(&[request(&key, owner)], LONG).await.expect("answers");
    assert_eq!(ask("a").await, [LockAnswer::Acquired]);
    assert_eq!(ask("a").await, [LockAnswer::HeldBySelf], "a delivery re-enters its own lock");
    assert_eq!(ask("b").await, [LockAnswer::HeldByOther("a".into())]);
    assert_eq!(lock.release(&[request(&key, "a")]).await, Ok(1));
    assert_eq!(ask("b").await, [LockAnswer::Acquired], "released is free");
    assert_eq!(lock.release(&[request(&key, "b")]).await, Ok(1));
}

pub async fn answers_come_in_order(lock: &dyn Lock) {
    assert_eq!(lock.acquire(&[], LONG).await, Ok(Vec::new()));
    assert_eq!(lock.release(&[]).await, Ok(0));
    let (x, y, z) = (key(), key(), key());
    lock.acquire(&[request(&y, "other")], LONG).await.expect("answers");
    let requests = [request(&x, "a"), request(&y, "a"), request(&z, "a"), request(&x, "b"), request(&z, "a")];
    let expected = [
        LockAnswer::Acquired,
        LockAnswer::HeldByOther("other".into()),
        LockAnswer::Acquired,
        LockAnswer::HeldByOther("a".into()),
        LockAnswer::HeldBySelf,
    ];
    assert_eq!(lock.acquire(&requests, LONG).await.expect("answers"), expected);
    assert_eq!(lock.release(&requests).await, Ok(2), "`x` and `z`; `y` and the refused one are not ours");
    assert_eq!(lock.release(&[request(&y, "other")]).await, Ok(1));
}

pub async fn a_lock_ends_by_itself(lock: &dyn Lock) {
    let key = key();
    lock.acquire(&[request(&key, "a")], SHORT).await.expect("answers");
    tokio::time::sleep(SHORT + Duration::from_millis(150)).await;
    assert_eq!(lock.release(&[request(&key, "a")]).await, Ok(0), "nothing left to release");
    assert_eq!(lock.acquire(&[request(&key, "b")], LONG).await.expect("answers"), [LockAnswer::Acquired]);
    assert_eq!(lock.release(&[request(&key, "b")]).await, Ok(1));
}

/// A's lock runs out while it stalls, B takes it, A comes back and releases, C tries.
pub async fn rl_01_only_the_holder_releases(lock: &dyn Lock) {
    let key = key();
    lock.acquire(&[request(&key, "a")], SHORT).await.expect("answers");
    tokio::time::sleep(SHORT + Duration::from_millis(150)).await;
    assert_eq!(lock.acquire(&[request(&key, "b")], LONG).await.expect("answers"), [LockAnswer::Acquired]);
    assert_eq!(lock.release(&[request(&key, "a")]).await, Ok(0), "A learns that it had lost the lock");
    let c = lock.acquire(&[request(&key, "c")], LONG).await.expect("answers");
    assert_eq!(c, [LockAnswer::HeldByOther("b".into())], "B still holds it");
    assert_eq!(lock.release(&[request(&key, "b")]).await, Ok(1));
}

pub async fn one_of_many_at_once(lock: &dyn Lock) {
    let key = key();
    let ask = async |owner: &'static str| {
        lock.acquire(&[request(&key, owner)], LONG).await.expect("answers") == [LockAnswer::Acquired]
    };
    let (a, b, c, d) = tokio::join!(ask("a"), ask("b"), ask("c"), ask("d"));
    assert_eq!([a, b, c, d].into_iter().filter(|won| *won).count(), 1);
    let all = ["a", "b", "c", "d"].map(|owner| request(&key, owner));
    assert_eq!(lock.release(&all).await, Ok(1));
}
