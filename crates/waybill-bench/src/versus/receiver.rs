//! The recipients of the peer: a plain endpoint that reads a JSON body, answers as SendGrid does, and counts what is its own.

use std::collections::HashMap;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use anyhow::{Context as _, Result};
use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::IntoResponse,
    routing::post,
};
use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::{books::Books, load::now};

/// A handle; clones share it.
#[derive(Clone)]
pub(super) struct Receiver {
    url: String,
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    accepted: AtomicU64,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    round: usize,
    /// By event and recipient: the first arrival.
    first: HashMap<(usize, usize), DateTime<Utc>>,
    repeats: u64,
}

impl Receiver {
    pub(super) async fn start() -> Result<Receiver> {
        let listener =
            tokio::net::TcpListener::bind("127.0.0.1:0").await.context("a port for the peer's recipients")?;
        let url = format!("http://{}", listener.local_addr().context("the recipients' port")?);
        let inner = Arc::new(Inner::default());
        let router = Router::new().route("/{round}/{event}/{recipient}", post(receive)).with_state(inner.clone());
        // Never cancelled: it serves until this process ends.
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Receiver { url, inner })
    }

    pub(super) fn url(&self, round: usize, event: usize, recipient: usize) -> String {
        format!("{}/{round}/{event}/{recipient}", self.url)
    }

    /// Forgets what came, and counts only deliveries of this round from now on.
    pub(super) fn begin(&self, round: usize) {
        *self.inner.seen() = Seen { round, ..Seen::default() };
        self.inner.accepted.store(0, Ordering::Relaxed);
    }

    /// Deliveries so far, repeated ones included.
    pub(super) fn accepted(&self) -> u64 {
        self.inner.accepted.load(Ordering::Relaxed)
    }

    pub(super) fn books(&self, wanted: u64) -> Books {
        let seen = self.inner.seen();
        Books { wanted, lost: wanted.saturating_sub(seen.first.len() as u64), duplicates: seen.repeats }
    }

    /// Event number and time of each first arrival.
    pub(super) fn arrivals(&self) -> Vec<(usize, DateTime<Utc>)> {
        self.inner.seen().first.iter().map(|((event, _), at)| (*event, *at)).collect()
    }
}

impl Inner {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn receive(
    State(inner): State<Arc<Inner>>,
    Path((round, event, recipient)): Path<(usize, usize, usize)>,
    Json(_mail): Json<Value>,
) -> impl IntoResponse {
    let mut seen = inner.seen();
    // One of an earlier round was counted there, so this one is a repeat.
    if seen.round != round || seen.first.contains_key(&(event, recipient)) {
        seen.repeats += 1;
    } else {
        seen.first.insert((event, recipient), now());
    }
    drop(seen);
    inner.accepted.fetch_add(1, Ordering::Relaxed);
    (StatusCode::ACCEPTED, [("x-message-id", format!("{round}-{event}-{recipient}"))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn repeats_and_what_is_missing_are_told_apart() {
        let receiver = Receiver::start().await.unwrap();
        receiver.begin(2);
        let http = reqwest::Client::new();
        for (round, event) in [(2, 0), (2, 1), (2, 1), (1, 2)] {
            let answer = http.post(receiver.url(round, event, 0)).json(&serde_json::json!({})).send().await.unwrap();
            assert_eq!(answer.status(), 202);
        }
        assert_eq!(receiver.accepted(), 4);
        assert_eq!(receiver.books(3), Books { wanted: 3, lost: 1, duplicates: 2 });
        assert_eq!(receiver.arrivals().len(), 2);
    }
}
