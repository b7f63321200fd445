//! Posting events to their receiver: in order per mail, retried with backoff, bounded in number.

use std::{
    sync::{
        Arc, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{EventsTarget, svix};
use crate::mail::Provider;

/// Mails whose events may wait at the same time; events beyond that are dropped and counted.
const MAX_WAITING: usize = 50_000;
/// Requests in flight at the same time, so that a bench does not drown its own receiver.
const MAX_IN_FLIGHT: usize = 32;
const MAX_TRIES: u32 = 20;
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// One HTTP request to the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Post {
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
    /// Signed with the target's secret each time it is posted, under this `svix-id`.
    pub(crate) svix_id: Option<String>,
}

pub(crate) struct Publisher {
    shared: Arc<Shared>,
    waiting: Arc<Semaphore>,
    allow_remote: AtomicBool,
}

struct Shared {
    target: RwLock<Option<Arc<EventsTarget>>>,
    in_flight: Semaphore,
    /// Made on first use: a sink without a target needs no client.
    client: OnceLock<Option<reqwest::Client>>,
    posted: AtomicU64,
    retried: AtomicU64,
    dropped: AtomicU64,
}

/// Requests to receivers since the start.
#[derive(Debug, Serialize)]
pub(crate) struct EventCounts {
    posted: u64,
    retried: u64,
    /// Given up: queue full, tries used up, or the target went away.
    dropped: u64,
    waiting: usize,
}

impl Publisher {
    pub(crate) fn new(target: Option<EventsTarget>) -> Self {
        let shared = Shared {
            target: RwLock::new(target.map(Arc::new)),
            in_flight: Semaphore::new(MAX_IN_FLIGHT),
            client: OnceLock::new(),
            posted: AtomicU64::new(0),
            retried: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        };
        Publisher {
            shared: Arc::new(shared),
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
            allow_remote: AtomicBool::new(false),
        }
    }

    pub(crate) fn set_target(&self, target: Option<EventsTarget>) {
        *self.shared.target.write().unwrap_or_else(PoisonError::into_inner) = target.map(Arc::new);
    }

    pub(crate) fn target(&self) -> Option<Arc<EventsTarget>> {
        self.shared.target()
    }

    pub(crate) fn allow_remote(&self) {
        self.allow_remote.store(true, Ordering::Relaxed);
    }

    pub(crate) fn remote_allowed(&self) -> bool {
        self.allow_remote.load(Ordering::Relaxed)
    }

    pub(crate) fn counts(&self) -> EventCounts {
        EventCounts {
            posted: self.shared.posted.load(Ordering::Relaxed),
            retried: self.shared.retried.load(Ordering::Relaxed),
            dropped: self.shared.dropped.load(Ordering::Relaxed),
            waiting: MAX_WAITING - self.waiting.available_permits(),
        }
    }

    /// Queues one mail's events. They are only made if somebody wants them.
    pub(crate) fn publish(&self, events: impl FnOnce() -> Vec<Post>, provider: Provider) {
        let Some(target) = self.target() else { return };
        if target.url(provider).is_none() {
            return;
        }
        let Ok(slot) = Arc::clone(&self.waiting).try_acquire_owned() else {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let shared = Arc::clone(&self.shared);
        let posts = events();
        tokio::spawn(async move { shared.post_all(slot, target.pause(), provider, posts).await });
    }
}

impl Shared {
    fn target(&self) -> Option<Arc<EventsTarget>> {
        self.target.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Holds its slot in the queue until the last event is through or given up.
    async fn post_all(&self, _slot: OwnedSemaphorePermit, delay: Duration, provider: Provider, posts: Vec<Post>) {
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        for post in posts {
            if !self.post_with_retries(provider, &post).await {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    async fn post_with_retries(&self, provider: Provider, post: &Post) -> bool {
        let mut backoff = FIRST_BACKOFF;
        for attempt in 1..=MAX_TRIES {
            // Asked anew each time, so that a receiver that moved to another port still gets its events.
            let Some(target) = self.target() else { return false };
            let Some(url) = target.url(provider) else { return false };
            if self.try_post(url.clone(), target.resend_secret(), post).await {
                self.posted.fetch_add(1, Ordering::Relaxed);
                return true;
            }
            if attempt < MAX_TRIES {
                self.retried.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(backoff).await;
                backoff = (backoff * 2).min(LONGEST_BACKOFF);
            }
        }
        tracing::warn!(%provider, tries = MAX_TRIES, "sink.events.given_up");
        false
    }

    async fn try_post(&self, url: reqwest::Url, secret: Option<&[u8]>, post: &Post) -> bool {
        let Ok(_permit) = self.in_flight.acquire().await else { return false };
        let Some(client) = self.client.get_or_init(build_client) else { return false };
        // The client turns userinfo into Basic authorization and takes it out of the URL.
        let mut request = client.post(url).body(post.body.clone());
        for (name, value) in &post.headers {
            request = request.header(*name, value);
        }
        if let (Some(id), Some(secret)) = (&post.svix_id, secret) {
            for (name, value) in svix::headers(secret, id, chrono::Utc::now().timestamp(), &post.body) {
                request = request.header(name, value);
            }
        }
        match request.send().await {
            Ok(response) => response.status().is_success(),
            Err(error) => {
                tracing::debug!(error = %error.without_url(), "sink.events.post_failed");
                false
            }
        }
    }
}

fn build_client() -> Option<reqwest::Client> {
    // No redirects and no proxy: a target was checked, and what it points to was not.
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .timeout(REQUEST_TIMEOUT)
        .build();
    client.inspect_err(|error| tracing::error!(%error, "sink.events.no_client")).ok()
}
