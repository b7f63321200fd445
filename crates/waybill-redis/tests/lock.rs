//! The lock on a real Redis. `REDIS_URL` names a shared one, used with keys of our own; outages happen to servers that the test
//! starts itself (`redis-server` in the PATH).

#![allow(clippy::disallowed_methods, reason = "tests run on the real clock")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use waybill_core::ports::{Lock, LockAnswer, LockRequest};
use waybill_redis::RedisLock;
use waybill_testkit::contract;

const TTL: Duration = Duration::from_secs(60);

fn shared() -> RedisLock {
    let url = std::env::var("REDIS_URL").expect("REDIS_URL is not set: run the tests with `cargo xtask test`");
    RedisLock::connect(&url).unwrap()
}

fn request(key: &str, owner: &str) -> LockRequest {
    LockRequest { key: key.into(), owner: owner.into() }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

struct Server(Child);

impl Server {
    fn start(port: u16) -> Server {
        let arguments = ["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
        let child = Command::new("redis-server").args(arguments).stdout(Stdio::null()).spawn();
        Server(child.expect("redis-server is in the PATH"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Asks until there is an answer: a server that was just started, or a cool-down that has to pass.
async fn until_it_answers(lock: &RedisLock, requests: &[LockRequest]) -> Vec<LockAnswer> {
    let mut last = None;
    for _ in 0..200 {
        match lock.acquire(requests, TTL).await {
            Ok(answers) => return answers,
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no answer for ten seconds: {last:?}");
}

#[tokio::test]
async fn rl_01_it_keeps_the_contract_of_the_lock() {
    contract::lock::run(&shared()).await;
}

#[tokio::test]
async fn any_number_of_locks_is_one_round_trip() {
    let lock = shared();
    let run = std::process::id();
    let requests: Vec<_> = (0..50).map(|n| request(&format!("notif:test:{run}:{n}"), "a")).collect();
    assert_eq!(lock.acquire(&requests, TTL).await.unwrap(), vec![LockAnswer::Acquired; 50]);
    assert_eq!(lock.round_trips(), 1);
    lock.release(&requests[..1]).await.unwrap(); // the script is known from now on
    let before = lock.round_trips();
    assert_eq!(lock.release(&requests).await, Ok(49));
    assert_eq!(lock.round_trips() - before, 1);
    assert_eq!((lock.acquire(&[], TTL).await, lock.release(&[]).await), (Ok(vec![]), Ok(0)));
    assert_eq!(lock.round_trips() - before, 1, "nothing to ask, nothing asked");
}

/// Many holders release and take the same key at once: a release that read and deleted in two steps would remove another's lock.
#[tokio::test(flavor = "multi_thread")]
async fn rl_01_compare_and_delete_is_one_step() {
    let lock = std::sync::Arc::new(shared());
    let key = format!("notif:test:{}:atomic", std::process::id());
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicI32::new(0));
    let workers: Vec<_> = (0..8)
        .map(|worker| {
            let (lock, key, inside) = (lock.clone(), key.clone(), inside.clone());
            tokio::spawn(async move {
                let mine = [request(&key, &format!("w{worker}"))];
                let mut entered = 0;
                for _ in 0..200 {
                    if lock.acquire(&mine, TTL).await.unwrap() == [LockAnswer::Acquired] {
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0, "two holders");
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        assert_eq!(lock.release(&mine).await, Ok(1));
                        entered += 1;
                    }
                    // Who does not hold it can't release it, however often it tries.
                    assert_eq!(lock.release(&mine).await, Ok(0));
                }
                entered
            })
        })
        .collect();
    let mut entered = 0;
    for worker in workers {
        entered += worker.await.unwrap();
    }
    assert!(entered > 8, "entered {entered} times");
}

#[tokio::test]
async fn a_redis_that_is_down_costs_little_and_is_found_when_it_comes() {
    let port = free_port();
    let lock = RedisLock::connect(&format!("redis://127.0.0.1:{port}")).unwrap();
    let begin = Instant::now();
    assert!(lock.acquire(&[request("k", "a")], TTL).await.is_err());
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    let begin = Instant::now();
    for _ in 0..1000 {
        assert!(lock.acquire(&[request("k", "a")], TTL).await.is_err());
        assert!(lock.release(&[request("k", "a")]).await.is_err());
    }
    assert!(begin.elapsed() < Duration::from_millis(500), "nobody waits: {:?}", begin.elapsed());
    assert_eq!(lock.round_trips(), 1, "and nobody asks");
    let _server = Server::start(port);
    assert_eq!(until_it_answers(&lock, &[request("k", "a")]).await, [LockAnswer::Acquired]);
}

/// It accepts connections and says nothing, as a server behind a broken network does.
#[tokio::test]
async fn a_redis_that_is_silent_costs_half_a_second_once() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let lock = RedisLock::connect(&format!("redis://{}", silent.local_addr().unwrap())).unwrap();
    let begin = Instant::now();
    assert!(lock.acquire(&[request("k", "a")], TTL).await.is_err());
    assert!(begin.elapsed() < Duration::from_millis(1500), "{:?}", begin.elapsed());
    let begin = Instant::now();
    assert!(lock.acquire(&[request("k", "a")], TTL).await.is_err());
    assert!(begin.elapsed() < Duration::from_millis(100), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_restarted_redis_has_lost_locks_and_script_and_is_used_again() {
    let port = free_port();
    let lock = RedisLock::connect(&format!("redis://127.0.0.1:{port}")).unwrap();
    let (mine, other) = ([request("k", "a")], [request("k", "b")]);
    let server = Server::start(port);
    assert_eq!(until_it_answers(&lock, &mine).await, [LockAnswer::Acquired]);
    assert_eq!(lock.release(&mine).await, Ok(1));
    assert_eq!(lock.acquire(&mine, TTL).await.unwrap(), [LockAnswer::Acquired]);
    drop(server);
    assert!(lock.acquire(&mine, TTL).await.is_err());
    let _server = Server::start(port);
    assert_eq!(until_it_answers(&lock, &other).await, [LockAnswer::Acquired], "the lock is gone: only a first gate");
    assert_eq!(lock.release(&mine).await, Ok(0), "the script is gone too, and brought again");
    assert_eq!(lock.release(&other).await, Ok(1));
}

#[tokio::test]
async fn a_wrong_address_is_refused_without_repeating_it() {
    let Err(error) = RedisLock::connect("no-redis://:secret@127.0.0.1") else { panic!("taken") };
    assert!(!error.to_string().contains("secret"), "{error}");
}
