//! Posts events, to either API, until each is accepted; remembers what was accepted.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, bail};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

const POSTERS: u64 = 4;
/// Between two events of one poster, at most.
const PAUSE_MS: u64 = 350;
/// Deliveries that may be open before posters wait: a run is about faults, not about a backlog.
const OPEN: u64 = 1_500;

/// One job that was answered 202.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) job: String,
    pub(crate) recipients: usize,
    /// The content went back to what it was: it may be sent again, once.
    pub(crate) comes_back: bool,
}

pub(crate) struct Load {
    http: reqwest::Client,
    apis: Vec<SocketAddr>,
    key: String,
    accepted: Mutex<Vec<Accepted>>,
    deliveries: AtomicU64,
    /// Answers that asked for patience, or never came.
    pub(crate) refused: AtomicU64,
    /// Deliveries that are not final, as the harness last saw it.
    pub(crate) open: AtomicU64,
}

impl Load {
    pub(crate) fn new(apis: Vec<SocketAddr>, key: String) -> Result<Arc<Load>> {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(5)).build()?;
        Ok(Arc::new(Load {
            http,
            apis,
            key,
            accepted: Mutex::default(),
            deliveries: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            open: AtomicU64::new(0),
        }))
    }

    pub(crate) fn accepted(&self) -> Vec<Accepted> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn deliveries(&self) -> u64 {
        self.deliveries.load(Ordering::Relaxed)
    }

    /// Posts until `stop`; an event that was begun is posted until it is accepted, so that its end is known.
    pub(crate) fn start(self: &Arc<Self>, seed: u64, stop: &CancellationToken) -> JoinSet<Result<()>> {
        let mut posters = JoinSet::new();
        for poster in 0..POSTERS {
            let (load, stop) = (self.clone(), stop.clone());
            posters.spawn(async move {
                let mut random = StdRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(poster));
                let mut n = 0;
                while !stop.is_cancelled() {
                    n += 1;
                    load.story(&format!("{poster}-{n}"), &mut random).await?;
                    sleep(Duration::from_millis(random.random_range(50..=PAUSE_MS))).await;
                    while load.open.load(Ordering::Relaxed) > OPEN && !stop.is_cancelled() {
                        sleep(Duration::from_millis(100)).await;
                    }
                }
                Ok(())
            });
        }
        posters
    }

    /// One thing that happens at a customer's.
    async fn story(&self, name: &str, random: &mut StdRng) -> Result<()> {
        let many = random.random_range(0..10) == 0;
        let recipients = if many { random.random_range(10..=25) } else { random.random_range(1..=4) };
        match random.random_range(0..20) {
            // Two employees order the same at the same moment: one mail to each recipient.
            0..3 => {
                let (a, b) = (
                    note(&format!("{name}-a"), name, "same", recipients),
                    note(&format!("{name}-b"), name, "same", recipients),
                );
                let (a, b) = tokio::join!(self.post(&a, recipients, false), self.post(&b, recipients, false));
                a?;
                b?;
            }
            // The answer got lost, the client asks again: one job.
            3..5 => {
                let event = note(name, name, "asked twice", recipients);
                let first = self.post(&event, recipients, false).await?;
                let second = self.post(&event, 0, false).await?;
                if first != second {
                    bail!("one event is two jobs: {first} and {second}");
                }
            }
            // Edited, and edited back.
            5 => {
                for (n, text) in ["one", "two", "one"].into_iter().enumerate() {
                    self.post(&note(&format!("{name}-{n}"), name, text, 1), 1, true).await?;
                    sleep(Duration::from_millis(random.random_range(0..600))).await;
                }
            }
            // In order, per key.
            6 => {
                for n in 0..3 {
                    let mut event = note(&format!("{name}-{n}"), &format!("{name}-{n}"), "in order", 2);
                    event["ordering_key"] = json!(format!("key {name}"));
                    self.post(&event, 2, false).await?;
                }
            }
            7 => {
                self.post(&order(name, recipients.min(4)), recipients.min(4), false).await?;
            }
            _ => {
                self.post(&note(name, name, "a note", recipients), recipients, false).await?;
            }
        }
        Ok(())
    }

    /// Posts until it is accepted; returns the job. Whatever happens to an answer, the same event is posted again.
    async fn post(&self, event: &Value, recipients: usize, comes_back: bool) -> Result<String> {
        for turn in 0..2_000_usize {
            let api = self.apis[turn % self.apis.len()];
            let answer = self.http.post(format!("http://{api}/events")).bearer_auth(&self.key).json(event).send().await;
            if let Ok(answer) = answer {
                let status = answer.status().as_u16();
                let body: Option<Value> = answer.json().await.ok();
                match (status, body.as_ref().and_then(|body| body["job_id"].as_str())) {
                    (202, Some(job)) => {
                        if recipients > 0 {
                            let accepted = Accepted { job: job.to_owned(), recipients, comes_back };
                            self.accepted.lock().unwrap_or_else(PoisonError::into_inner).push(accepted);
                            self.deliveries.fetch_add(recipients as u64, Ordering::Relaxed);
                        }
                        return Ok(job.to_owned());
                    }
                    // A body that broke off is an answer that never came.
                    (202, None) | (409 | 429 | 500..=599, _) => {}
                    _ => bail!("POST /events answered {status}: {}", body.unwrap_or_default()),
                }
            }
            self.refused.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_millis(100)).await;
        }
        bail!("an event was not accepted in 2,000 tries")
    }
}

fn people(name: &str, recipients: usize) -> Value {
    (0..recipients).map(|i| json!({"email": format!("r{i}.{name}@example.test"), "name": format!("R {i}")})).collect()
}

fn note(id: &str, subject: &str, text: &str, recipients: usize) -> Value {
    json!({"id": id, "source": "/chaos", "type": "note.posted", "subject": subject,
           "recipients": people(subject, recipients), "data": {"text": text}})
}

fn order(name: &str, recipients: usize) -> Value {
    let mut order: Value =
        serde_json::from_str(include_str!("../../../examples/purchase-order.json")).unwrap_or_default();
    order["id"] = json!(name);
    order["source"] = json!("/chaos");
    order["subject"] = json!(name);
    order["recipients"] = people(name, recipients);
    order["data"]["order_number"] = json!(name);
    order
}
