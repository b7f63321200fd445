//! The peer: `bench/peers/bullmq` as two processes of Node.js, on a database of its own.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::time::Instant;

use super::{
    receiver::Receiver,
    servers,
    side::{self, Round},
};
use crate::{
    books::Books,
    load::{self, Posts},
    plan::BACKLOG,
    process::{MemoryWatch, cpu_seconds, watch_memory},
    report::per_second,
    world::{World, free_address, variable},
};

const SCHEMA: &str = include_str!("../../../../bench/peers/bullmq/schema.sql");
/// Its usual default is 5, and slower.
const CONCURRENCY: &str = "50";
/// Waybill's locks are in database 0 of the same server.
const REDIS_DB: &str = "5";
const READY_WITHIN: Duration = Duration::from_secs(30);
/// It has to send what is left, or a round has failed.
const END_WITHIN: Duration = Duration::from_secs(60);

pub(crate) struct Peer {
    processes: Vec<Child>,
    memory: MemoryWatch,
    pool: PgPool,
    receiver: Receiver,
    world: Arc<World>,
    api: SocketAddr,
}

impl Peer {
    /// `folder`: where its packages are installed.
    pub(super) async fn start(world: &Arc<World>, folder: &Path) -> Result<Peer> {
        let database = world.new_database("peer").await?;
        let pool = PgPool::connect(&database).await.context("connecting to the peer's database")?;
        sqlx::raw_sql(SCHEMA).execute(&pool).await.context("making the peer's tables")?;
        let api = free_address()?;
        let node = variable("WAYBILL_BENCH_NODE")?;
        let mut processes = Vec::new();
        for role in ["api", "worker"] {
            let log = File::create(world.folder.join(format!("peer-{role}.log"))).context("the peer's log")?;
            let mut command = Command::new(&node);
            command.arg("peer.js").current_dir(folder).env_clear();
            command.envs([
                ("PATH", std::env::var("PATH").unwrap_or_default().as_str()),
                ("NODE_ENV", "production"),
                ("ROLE", role),
                ("PORT", &api.port().to_string()),
                ("PGURL", &database),
                ("REDIS_URL", &world.redis_url),
                ("REDIS_DB", REDIS_DB),
                ("CONCURRENCY", CONCURRENCY),
            ]);
            command.stdin(Stdio::null()).stdout(log.try_clone().context("sharing a log")?).stderr(log);
            processes.push(command.spawn().with_context(|| format!("starting {node}"))?);
        }
        let memory = watch_memory(processes.iter().map(Child::id).collect());
        let receiver = Receiver::start().await?;
        let mut peer = Peer { processes, memory, pool, receiver, world: world.clone(), api };
        peer.until_ready().await?;
        Ok(peer)
    }

    async fn until_ready(&mut self) -> Result<()> {
        let url = format!("http://{}/ready", self.api);
        let give_up = Instant::now() + READY_WITHIN;
        while !self.world.http.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()) {
            self.still_runs()?;
            ensure!(Instant::now() < give_up, "the peer is not ready after {} s", READY_WITHIN.as_secs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    fn still_runs(&mut self) -> Result<()> {
        for process in &mut self.processes {
            if let Some(status) = process.try_wait().context("looking at the peer")? {
                bail!("a process of the peer ended with {status}, see {}", self.world.folder.display());
            }
        }
        Ok(())
    }

    fn posts(&self, round: usize, events: usize, recipients: usize) -> Posts {
        let body = |n: usize| {
            let recipients: Vec<Value> = (0..recipients)
                .map(|i| json!({"id": format!("r{i}@example.test"), "url": self.receiver.url(round, n, i)}))
                .collect();
            json!({"idempotencyKey": format!("v{round}-{n}"), "recipients": recipients, "payload": mail(round, n)})
        };
        Posts {
            http: self.world.http.clone(),
            url: format!("http://{}/events", self.api),
            key: self.world.key.clone(),
            recipients,
            backlog: BACKLOG,
            bodies: (0..events).map(|n| body(n).to_string().into()).collect(),
        }
    }

    pub(super) async fn round(&mut self, round: usize, events: usize, recipients: usize) -> Result<Round> {
        self.receiver.begin(round);
        let posts = self.posts(round, events, recipients);
        let (cpu, servers) = (self.cpu_seconds()?, servers::read(&self.world).await?);
        let receiver = self.receiver.clone();
        let started = load::closed_posts(posts, move || receiver.accepted()).await?;
        let (books, last) = self.balance((events * recipients) as u64).await?;
        Ok(Round {
            books,
            per_s: per_second(books.wanted, last - started),
            cpu_s: self.cpu_seconds()? - cpu,
            servers: servers::read(&self.world).await? - servers,
            counters: None,
        })
    }

    pub(super) async fn latencies(&mut self, round: usize, events: usize, rate: u32) -> Result<(Vec<f64>, Books)> {
        self.receiver.begin(round);
        let open = load::open_posts(self.posts(round, events, 1), rate).await?;
        let (books, _) = self.balance(events as u64).await?;
        Ok((open.latencies_of(self.receiver.arrivals().into_iter()), books))
    }

    /// As the books of Waybill: arrived, recorded as sent, and nothing twice.
    pub(super) async fn balance(&mut self, wanted: u64) -> Result<(Books, Instant)> {
        let give_up = Instant::now() + END_WITHIN;
        while self.receiver.accepted() < wanted && Instant::now() < give_up {
            self.still_runs()?;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let last = Instant::now();
        let open = "/* bench */ SELECT count(*) FROM delivery_logs WHERE status <> 'SENT'";
        while sqlx::query_scalar::<_, i64>(open).fetch_one(&self.pool).await? > 0 && Instant::now() < give_up {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok((self.receiver.books(wanted), last))
    }

    fn cpu_seconds(&self) -> Result<f64> {
        self.processes.iter().map(|process| cpu_seconds(process.id())).sum()
    }

    pub(super) fn memory_mb(&self) -> f64 {
        self.memory.so_far_mb()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // It may have ended already; then there is nothing to do.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// What a delivery carries: as many octets as Waybill's request to SendGrid for the same note.
fn mail(round: usize, n: usize) -> Value {
    let subject = side::notes(round, 0, 0).phase + &format!("-{n}");
    json!({
        "personalizations": [{
            "to": [{"email": "r0@example.test", "name": "Recipient 0"}],
            "custom_args": {
                "tenant": "019acb0a-0000-7000-8000-000000000000", "job": "019acb0a-0000-7000-8000-000000000000",
                "delivery_id": "019acb0a-0000-7000-8000-000000000000", "attempt": "019acb0a-0000-7000-8000-000000000000"
            }
        }],
        "from": {"email": "orders@shop.example", "name": "Shop"},
        "subject": subject,
        "content": [
            {"type": "text/plain", "value": "Hello Recipient 0,\n\nthis is a note."},
            {"type": "text/html", "value": "<!doctype html><html><body><p>Hello Recipient 0,</p><p>this is a note.</p></body></html>"}
        ]
    })
}
