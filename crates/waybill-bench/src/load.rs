//! The two ways to put load on: as fast as it is carried away, or at a fixed rate whatever happens.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use reqwest::header::CONTENT_TYPE;
use tokio::{task::JoinSet, time::Instant};

use crate::plan::{BACKLOG, POSTERS};
use crate::world::{Kind, World, event, number};

/// Which events, and how many.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) kind: Kind,
    /// The first part of subjects and ids; different in each phase of a run.
    pub(crate) phase: String,
    pub(crate) events: usize,
    pub(crate) recipients: usize,
}

impl Load {
    pub(crate) fn deliveries(&self) -> u64 {
        (self.events * self.recipients) as u64
    }

    /// The requests of this load, written before the clock starts.
    pub(crate) fn posts(&self, world: &World) -> Posts {
        let bodies = (0..self.events).map(|n| event(self.kind, &self.phase, n, self.recipients).to_string().into());
        Posts {
            http: world.http.clone(),
            url: format!("http://{}/events", world.api),
            key: world.key.clone(),
            recipients: self.recipients,
            backlog: BACKLOG,
            bodies: bodies.collect(),
        }
    }
}

/// Requests that are ready to be sent, each once, to one address.
pub(crate) struct Posts {
    pub(crate) http: reqwest::Client,
    pub(crate) url: String,
    /// Sent as a bearer; a service that knows no keys does not look at it.
    pub(crate) key: String,
    /// Of each event.
    pub(crate) recipients: usize,
    /// Deliveries that may wait while a closed loop goes on.
    pub(crate) backlog: usize,
    pub(crate) bodies: Vec<Bytes>,
}

impl Posts {
    /// Posts until it is accepted. A busy API may ask for patience; a repeated post is answered with the first one's job.
    async fn post(&self, n: usize) -> Result<()> {
        let mut said = String::new();
        for _ in 0..20 {
            let request = self.http.post(&self.url).bearer_auth(&self.key).header(CONTENT_TYPE, "application/json");
            let answer = request.body(self.bodies[n].clone()).send().await.context("posting an event")?;
            let status = answer.status().as_u16();
            // Read to its end, so that the connection is used again.
            said = format!("{status}: {}", answer.text().await.unwrap_or_default());
            if status == 202 {
                return Ok(());
            }
            if !matches!(status, 429 | 503) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        bail!("POST /events answered {said}")
    }
}

/// Closed loop: [`POSTERS`] post one after the other, as long as fewer than the backlog's deliveries wait to be sent. Returns the start.
pub(crate) async fn closed(world: &Arc<World>, load: &Load) -> Result<Instant> {
    let sink = world.sink.clone();
    closed_posts(load.posts(world), move || sink.accepted()).await
}

/// The same with requests of any kind; `accepted` says how many deliveries of them have arrived.
pub(crate) async fn closed_posts(posts: Posts, accepted: impl Fn() -> u64 + Clone + Send + 'static) -> Result<Instant> {
    let started = Instant::now();
    let (posts, next) = (Arc::new(posts), Arc::new(AtomicUsize::new(0)));
    let mut posters = JoinSet::new();
    for _ in 0..POSTERS {
        let (posts, next, accepted) = (posts.clone(), next.clone(), accepted.clone());
        posters.spawn(async move {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= posts.bodies.len() {
                    return Ok(());
                }
                let before = n * posts.recipients;
                while before.saturating_sub(accepted() as usize) >= posts.backlog {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                posts.post(n).await?;
            }
        });
    }
    all(posters).await?;
    Ok(started)
}

/// What an open loop saw.
pub(crate) struct Open {
    /// When event 0 was meant to be posted.
    start: DateTime<Utc>,
    interval: Duration,
    /// The most that a post began after its intended time: above some milliseconds the driver was short of CPU.
    pub(crate) latest_start: Duration,
}

/// Open loop: event `n` is posted at `n / rate` seconds after the start, whether or not earlier ones were answered.
pub(crate) async fn open(world: &World, load: &Load, rate: u32) -> Result<Open> {
    open_posts(load.posts(world), rate).await
}

/// The same with requests of any kind.
pub(crate) async fn open_posts(posts: Posts, rate: u32) -> Result<Open> {
    let posts = Arc::new(posts);
    let interval = Duration::from_secs(1) / rate;
    let begin = Instant::now() + Duration::from_millis(100);
    let start = now() + Duration::from_millis(100);
    let mut latest_start = Duration::ZERO;
    let mut tasks = JoinSet::new();
    for n in 0..posts.bodies.len() {
        let intended = begin + interval * n as u32;
        tokio::time::sleep_until(intended).await;
        latest_start = latest_start.max(intended.elapsed());
        let posts = posts.clone();
        tasks.spawn(async move { posts.post(n).await });
    }
    all(tasks).await?;
    Ok(Open { start, interval, latest_start })
}

impl Open {
    /// From the intended time of an event's post to the provider's acceptance of each of its mails, in milliseconds, ascending.
    pub(crate) fn latencies(&self, world: &World, phase: &str) -> Vec<f64> {
        let mails = world.sink.mails();
        self.latencies_of(mails.iter().filter_map(|mail| Some((number(phase, &mail.subject)?, mail.received_at))))
    }

    /// The same from the event numbers of deliveries and the times of their arrival.
    pub(crate) fn latencies_of(&self, arrivals: impl Iterator<Item = (usize, DateTime<Utc>)>) -> Vec<f64> {
        let since =
            |(n, at): (usize, DateTime<Utc>)| (at - (self.start + self.interval * n as u32)).as_seconds_f64() * 1_000.0;
        let mut found: Vec<f64> = arrivals.map(since).collect();
        found.sort_unstable_by(f64::total_cmp);
        found
    }
}

/// The value below which a share of `sorted` lies (nearest rank); 0 of nothing.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or_default()
}

async fn all(mut tasks: JoinSet<Result<()>>) -> Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended.context("a poster panicked")??;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "compared with the sink's clock, which is this process's too")]
pub(crate) fn now() -> DateTime<Utc> {
    Utc::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!([0.5, 0.95, 0.99, 1.0].map(|share| percentile(&sorted, share)), [50.0, 95.0, 99.0, 100.0]);
        assert_eq!(percentile(&[7.0], 0.5), 7.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }
}
