//! The [`Lock`] port on Redis or Valkey: a cheap first gate against two workers who want to send the same thing.
//!
//! A lock is `SET key owner NX PX ttl`; releasing it is one script that deletes the key only if it still holds the owner. Any number of
//! locks is one round trip. Works from Redis 2.6.12 on: no `SET .. NX GET` (7.0), no compare-and-delete command (8.4, Valkey 9).
//!
//! What it refuses: to make anybody wait. A Redis that does not answer costs half a second once; then every call fails at once for a
//! second, before it is tried again. A caller that gets an error goes on without the lock: the claim in Postgres is the authority, and
//! a lock may vanish anyway (eviction, failover: replication is asynchronous).
//!
//! Invariants:
//! - A key is only ever deleted by its owner, atomically. A holder whose time ran out learns from the count that it released nothing.
//! - A command or script names one key, so that every one of them is at home in one slot.
//! - No key is left without an expiry: it is set by the command that makes the key.
//!
//! The address says what is there: `redis://` and `rediss://` (TLS) are one server or the endpoint of a replication group;
//! `redis-cluster://` and `rediss-cluster://` are any node of a cluster (ElastiCache Serverless is one). A node of a cluster that is away
//! makes the whole lock unavailable for its second: which locks were taken meanwhile doesn't matter, their owners re-enter them.

mod connection;
mod gate;

use async_trait::async_trait;
use connection::Connection;
use gate::Gate;
use redis::{Cmd, ErrorKind, FromRedisValue, RedisError, RedisResult, Script, ServerErrorKind, cmd};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use waybill_core::ports::{Lock, LockAnswer, LockError, LockRequest};

/// After a failure nobody asks for so long.
const COOL_DOWN: Duration = Duration::from_secs(1);

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

/// The [`Lock`] on one Redis or a cluster. Cheap to share: one connection carries the calls of all tasks.
pub struct RedisLock {
    connection: Connection,
    release: Script,
    gate: Gate,
    round_trips: AtomicU64,
}

impl RedisLock {
    /// Reads the address; the connection is made by the first call, and made again after it broke. So a process starts without its Redis
    /// and finds it later. Call it within a tokio runtime.
    ///
    /// # Errors
    /// The address is not one. The message does not repeat it: it may hold a password.
    pub fn connect(url: &str) -> Result<Self, LockError> {
        Ok(Self {
            connection: Connection::open(url)?,
            release: Script::new(RELEASE),
            gate: Gate::new(COOL_DOWN),
            round_trips: AtomicU64::new(0),
        })
    }

    /// Batches sent so far, whether they were answered or not.
    pub fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    async fn ask<T: FromRedisValue>(&self, keys: Vec<Vec<Cmd>>) -> Result<Vec<RedisResult<T>>, LockError> {
        if !self.gate.is_open() {
            return Err(LockError("no answer a moment ago, not asked again yet".into()));
        }
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        let answers = self.connection.ask(keys).await.map_err(|error| self.failed(&error))?;
        self.gate.answered();
        Ok(answers)
    }

    fn failed(&self, error: &RedisError) -> LockError {
        self.gate.failed(&error.to_string());
        LockError(error.to_string())
    }

    /// Runs the release script for each request; `None` where the server does not know the script (any more).
    async fn release_by(&self, scripts: Vec<Vec<Cmd>>) -> Result<Vec<Option<usize>>, LockError> {
        let known = |result: RedisResult<usize>| match result {
            Ok(released) => Ok(Some(released)),
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => Ok(None),
            Err(error) => Err(LockError(error.to_string())),
        };
        self.ask(scripts).await?.into_iter().map(known).collect()
    }
}

fn command(name: &str, arguments: &[&str]) -> Cmd {
    let mut command = cmd(name);
    for argument in arguments {
        command.arg(argument);
    }
    command
}

#[async_trait]
impl Lock for RedisLock {
    async fn acquire(&self, requests: &[LockRequest], ttl: Duration) -> Result<Vec<LockAnswer>, LockError> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1).to_string();
        let both = |LockRequest { key, owner }: &LockRequest| {
            vec![command("SET", &[key, owner, "NX", "PX", &millis]), command("GET", &[key])]
        };
        let answers: RedisResult<Vec<Option<String>>> =
            self.ask(requests.iter().map(both).collect()).await?.into_iter().collect();
        let answers = answers.map_err(|error| self.failed(&error))?;
        if answers.len() != 2 * requests.len() {
            return Err(LockError("an answer of another length".into()));
        }
        let read = |(request, answer): (&LockRequest, &[Option<String>])| match (&answer[0], &answer[1]) {
            (Some(_), _) => LockAnswer::Acquired,
            (None, Some(owner)) if *owner == request.owner => LockAnswer::HeldBySelf,
            (None, Some(owner)) => LockAnswer::HeldByOther(owner.clone()),
            // It ran out between the two commands: it was not free when we asked, and the next try finds it so.
            (None, None) => LockAnswer::HeldByOther(String::new()),
        };
        Ok(requests.iter().zip(answers.chunks(2)).map(read).collect())
    }

    async fn release(&self, requests: &[LockRequest]) -> Result<usize, LockError> {
        if requests.is_empty() {
            return Ok(0);
        }
        let hash = self.release.get_hash();
        let by_hash = |LockRequest { key, owner }: &LockRequest| vec![command("EVALSHA", &[hash, "1", key, owner])];
        let results = self.release_by(requests.iter().map(by_hash).collect()).await?;
        let released: usize = results.iter().flatten().sum();
        // A server that was restarted has lost the script; EVAL brings it along.
        let unknown = requests.iter().zip(&results).filter(|(_, result)| result.is_none());
        let again: Vec<_> =
            unknown.map(|(LockRequest { key, owner }, _)| vec![command("EVAL", &[RELEASE, "1", key, owner])]).collect();
        if again.is_empty() {
            return Ok(released);
        }
        Ok(released + self.release_by(again).await?.iter().flatten().sum::<usize>())
    }
}
