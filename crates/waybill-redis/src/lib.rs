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
//! - Scripts name one key each, so that every one of them is at home in one slot.
//! - No key is left without an expiry: it is set by the command that makes the key.
//!
//! One server, or the endpoint of a replication group. A cluster (ElastiCache Serverless) needs redis-rs's cluster connection in the
//! place of [`ConnectionManager`]; the commands can stay as they are.

mod gate;

use async_trait::async_trait;
use gate::Gate;
use redis::{
    Client, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, Script, ServerErrorKind,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use waybill_core::ports::{Lock, LockAnswer, LockError, LockRequest};

const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);
/// After a failure nobody asks for so long.
const COOL_DOWN: Duration = Duration::from_secs(1);

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

/// The [`Lock`] on one Redis. Cheap to share: one connection carries the calls of all tasks.
pub struct RedisLock {
    connection: ConnectionManager,
    release: Script,
    gate: Gate,
    round_trips: AtomicU64,
}

impl RedisLock {
    /// Reads the address (`redis://` or `rediss://`); the connection is made by the first call, and made again after it broke. So a
    /// process starts without its Redis and finds it later. Call it within a tokio runtime.
    ///
    /// # Errors
    /// The address is not one. The message does not repeat it: it may hold a password.
    pub fn connect(url: &str) -> Result<Self, LockError> {
        let unusable = |error: RedisError| LockError(format!("unusable address: {:?}", error.kind()));
        let client = Client::open(url).map_err(unusable)?;
        // The manager must not retry: the cool-down decides when it is time.
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(ANSWER_TIMEOUT))
            .set_number_of_retries(0);
        let connection = ConnectionManager::new_lazy_with_config(client, config).map_err(unusable)?;
        Ok(Self {
            connection,
            release: Script::new(RELEASE),
            gate: Gate::new(COOL_DOWN),
            round_trips: AtomicU64::new(0),
        })
    }

    /// Pipelines sent so far, whether they were answered or not.
    pub fn round_trips(&self) -> u64 {
        self.round_trips.load(Ordering::Relaxed)
    }

    async fn ask<T: FromRedisValue>(&self, pipeline: &Pipeline) -> Result<T, LockError> {
        if !self.gate.is_open() {
            return Err(LockError("no answer a moment ago, not asked again yet".into()));
        }
        self.round_trips.fetch_add(1, Ordering::Relaxed);
        let answer: RedisResult<T> = pipeline.query_async(&mut self.connection.clone()).await;
        answer.inspect(|_| self.gate.answered()).map_err(|error| {
            self.gate.failed(&error.to_string());
            LockError(error.to_string())
        })
    }

    /// Runs the release script for each request; `None` where the server does not know the script (any more).
    async fn release_by(&self, pipeline: &mut Pipeline) -> Result<Vec<Option<usize>>, LockError> {
        let results: Vec<RedisResult<usize>> = self.ask(pipeline.ignore_errors()).await?;
        let known = |result: RedisResult<usize>| match result {
            Ok(released) => Ok(Some(released)),
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => Ok(None),
            Err(error) => Err(LockError(error.to_string())),
        };
        results.into_iter().map(known).collect()
    }
}

#[async_trait]
impl Lock for RedisLock {
    async fn acquire(&self, requests: &[LockRequest], ttl: Duration) -> Result<Vec<LockAnswer>, LockError> {
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut pipeline = Pipeline::with_capacity(2 * requests.len());
        for LockRequest { key, owner } in requests {
            pipeline.cmd("SET").arg(key).arg(owner).arg("NX").arg("PX").arg(millis);
            pipeline.cmd("GET").arg(key);
        }
        let answers: Vec<Option<String>> = self.ask(&pipeline).await?;
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
        let mut pipeline = Pipeline::with_capacity(requests.len());
        for LockRequest { key, owner } in requests {
            pipeline.cmd("EVALSHA").arg(self.release.get_hash()).arg(1).arg(key).arg(owner);
        }
        let results = self.release_by(&mut pipeline).await?;
        let released: usize = results.iter().flatten().sum();
        // A server that was restarted has lost the script; EVAL brings it along.
        let mut again = Pipeline::new();
        for (LockRequest { key, owner }, _) in requests.iter().zip(&results).filter(|(_, result)| result.is_none()) {
            again.cmd("EVAL").arg(RELEASE).arg(1).arg(key).arg(owner);
        }
        if again.is_empty() {
            return Ok(released);
        }
        Ok(released + self.release_by(&mut again).await?.iter().flatten().sum::<usize>())
    }
}
