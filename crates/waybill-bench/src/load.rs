//! The two ways to put load on: as fast as it is carried away, or at a fixed rate whatever happens.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use chrono::{DateTime, Utc};
use tokio::{task::JoinSet, time::Instant};

use crate::plan::{BACKLOG, POSTERS};
use crate::world::{Kind, World, event, number};

/// Which events, and how many.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) kind: Kind,
    /// The first part of subjects and ids; different in each phase of a run.
    pub(crate) phase: &'static str,
    pub(crate) events: usize,
    pub(crate) recipients: usize,
}

impl Load {
    pub(crate) fn deliveries(&self) -> u64 {
        (self.events * self.recipients) as u64
    }
}

/// Closed loop: [`POSTERS`] post one after the other, as long as fewer than [`BACKLOG`] deliveries wait to be sent. Returns the start.
pub(crate) async fn closed(world: &Arc<World>, load: &Load) -> Result<Instant> {
    let started = Instant::now();
    let next = Arc::new(AtomicUsize::new(0));
    let mut posters = JoinSet::new();
    for _ in 0..POSTERS {
        let (world, load, next) = (world.clone(), load.clone(), next.clone());
        posters.spawn(async move {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= load.events {
                    return Ok(());
                }
                let before = n * load.recipients;
                while before.saturating_sub(world.sink.accepted() as usize) >= BACKLOG {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                post(&world, &load, n).await?;
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
pub(crate) async fn open(world: &Arc<World>, load: &Load, rate: u32) -> Result<Open> {
    let interval = Duration::from_secs(1) / rate;
    let begin = Instant::now() + Duration::from_millis(100);
    let start = now() + Duration::from_millis(100);
    let mut latest_start = Duration::ZERO;
    let mut posts = JoinSet::new();
    for n in 0..load.events {
        let intended = begin + interval * n as u32;
        tokio::time::sleep_until(intended).await;
        latest_start = latest_start.max(intended.elapsed());
        let (world, load) = (world.clone(), load.clone());
        posts.spawn(async move { post(&world, &load, n).await });
    }
    all(posts).await?;
    Ok(Open { start, interval, latest_start })
}

impl Open {
    /// From the intended time of an event's post to the provider's acceptance of each of its mails, in milliseconds, ascending.
    pub(crate) fn latencies(&self, world: &World, phase: &str) -> Vec<f64> {
        let mails = world.sink.mails();
        let mut found: Vec<f64> = mails
            .iter()
            .filter_map(|mail| {
                let intended = self.start + self.interval * number(phase, &mail.subject)? as u32;
                Some((mail.received_at - intended).as_seconds_f64() * 1_000.0)
            })
            .collect();
        found.sort_unstable_by(f64::total_cmp);
        found
    }
}

/// The value below which a share of `sorted` lies (nearest rank); 0 of nothing.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or_default()
}

/// Posts until it is accepted. A busy API may ask for patience; a repeated post is answered with the first one's job.
async fn post(world: &World, load: &Load, n: usize) -> Result<()> {
    let event = event(load.kind, load.phase, n, load.recipients);
    let url = format!("http://{}/events", world.api);
    let mut said = String::new();
    for _ in 0..20 {
        let answer =
            world.http.post(&url).bearer_auth(&world.key).json(&event).send().await.context("posting an event")?;
        let status = answer.status().as_u16();
        if status == 202 {
            return Ok(());
        }
        said = format!("{status}: {}", answer.text().await.unwrap_or_default());
        if !matches!(status, 429 | 503) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    bail!("POST /events answered {said}")
}

async fn all(mut tasks: JoinSet<Result<()>>) -> Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended.context("a poster panicked")??;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "compared with the sink's clock, which is this process's too")]
fn now() -> DateTime<Utc> {
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
