//! What surrounds the process: a migrated and seeded database, and the providers.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use waybill_core::{
    ids::{KeyId, RouteId, TenantId},
    mail::MailTemplate,
    route::RouteSpec,
};
use waybill_crypto::ApiKey;
use waybill_sink::{Sink, SinkConfig};
use waybill_store::{NewApiKey, Store};

pub(crate) const REGION: &str = "eu-central-1";
/// Mails that the sink keeps: those of the longest phase, which the latencies are read from.
const MAX_MAILS: usize = 100_000;

pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) sink: Sink,
    pub(crate) sink_url: String,
    pub(crate) database_url: String,
    pub(crate) redis_url: String,
    /// The binary under test.
    pub(crate) binary: PathBuf,
    /// Logs and documents of this run.
    pub(crate) folder: PathBuf,
    pub(crate) key: String,
    /// Of a second tenant, with the same routes.
    pub(crate) neighbour_key: String,
    pub(crate) api: SocketAddr,
    pub(crate) ops: SocketAddr,
    /// The queues of this run on SQS; `None`: the local queue.
    pub(crate) sqs: Option<Sqs>,
    pub(crate) http: reqwest::Client,
}

/// Queues at `AWS_ENDPOINT_URL`, where an emulator plays SQS.
pub(crate) struct Sqs {
    pub(crate) endpoint: String,
    pub(crate) prefix: String,
}

impl Sqs {
    /// Makes the queues of `infra/topology.json`, where `WAYBILL_BENCH_SQS` asks for it.
    async fn make() -> Result<Option<Sqs>> {
        if std::env::var_os("WAYBILL_BENCH_SQS").is_none() {
            return Ok(None);
        }
        let (endpoint, prefix) = (variable("AWS_ENDPOINT_URL")?, format!("bench-{}", std::process::id()));
        let aws = waybill_aws::load(Some(REGION.to_owned())).await;
        let topology = waybill_aws::Topology::load().context("infra/topology.json")?;
        waybill_aws::provision(&aws, &topology, &prefix, None).await.context("making the queues")?;
        Ok(Some(Sqs { endpoint, prefix }))
    }
}

/// What an event asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A plain mail.
    Note,
    /// A mail with a PDF that is rendered for this event.
    Order,
}

pub(crate) fn variable(name: &str) -> Result<String> {
    std::env::var(name).with_context(|| format!("{name} is not set: run `cargo xtask bench`"))
}

#[expect(clippy::disallowed_methods, reason = "the bench is a process of its own and its ids decide nothing")]
pub(crate) fn new_id() -> Uuid {
    Uuid::now_v7()
}

pub(crate) fn free_address() -> Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").context("looking for a free port")?;
    listener.local_addr().context("reading a port")
}

impl World {
    pub(crate) async fn make() -> Result<World> {
        let folder = PathBuf::from(variable("WAYBILL_BENCH_DIR")?).join(std::process::id().to_string());
        World::with(variable("DATABASE_URL")?, variable("WAYBILL_BIN")?.into(), folder, Sqs::make().await?).await
    }

    /// Another one on the same servers, for another build: its own database, its own providers.
    pub(crate) async fn beside(&self, name: &str, binary: PathBuf) -> Result<World> {
        let database_url = self.new_database(name).await?;
        World::with(database_url, binary, self.folder.join(name), None).await
    }

    async fn with(database_url: String, binary: PathBuf, folder: PathBuf, sqs: Option<Sqs>) -> Result<World> {
        let store =
            Store::connect(&database_url, 4, Duration::from_secs(10)).await.context("connecting to PostgreSQL")?;
        store.migrate().await.context("migrating")?;
        let key = seed(&store, "bench").await.context("seeding the tenant")?;
        let neighbour_key = seed(&store, "neighbour").await.context("seeding the second tenant")?;
        let (sink, sink_url) = start_sink().await?;
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(World {
            store,
            sink,
            sink_url,
            database_url,
            redis_url: variable("REDIS_URL")?,
            binary,
            folder,
            key,
            neighbour_key,
            api: free_address()?,
            ops: free_address()?,
            sqs,
            http: reqwest::Client::builder()
                .timeout(Duration::from_secs(20))
                .build()
                .context("making an HTTP client")?,
        })
    }

    /// An empty database on the same server; returns its address.
    pub(crate) async fn new_database(&self, name: &str) -> Result<String> {
        // The name is one of ours.
        let create = sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}"));
        sqlx::raw_sql(create).execute(self.store.pool()).await.with_context(|| format!("making database {name}"))?;
        let (server, _) = self.database_url.rsplit_once('/').context("the database's address has no name")?;
        let (_, options) = self.database_url.split_once('?').unwrap_or_default();
        Ok(if options.is_empty() { format!("{server}/{name}") } else { format!("{server}/{name}?{options}") })
    }

    /// Forgets what the providers saw, between phases.
    pub(crate) fn forget(&self) {
        self.sink.clear_mailbox();
        self.sink.reset_counts();
    }

    /// Removes logs and documents. Only after a good run: a bad one leaves them to be read.
    pub(crate) fn tidy(&self) {
        // What can't be removed is in the target folder and in nobody's way.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn mail(subject: &str) -> MailTemplate {
    let text = "Hello {name},\n\nthis is a note.".to_owned();
    MailTemplate { from: "orders@shop.example".into(), from_name: "Shop".into(), subject: subject.into(), text }
}

/// A tenant with two routes; returns its API key.
async fn seed(store: &Store, name: &str) -> Result<String> {
    let tenant = store.ensure_tenant(TenantId(new_id()), name, None).await?;
    let note = RouteSpec {
        channel: "email".into(),
        document: None,
        recipients: None,
        dedupe: true,
        on_unknown: None,
        mail: mail("{subject}"),
    };
    let order = RouteSpec { document: Some("purchase_order".into()), ..note.clone() };
    store.put_route(tenant, RouteId(new_id()), "note.posted", &note).await?;
    store.put_route(tenant, RouteId(new_id()), "order.placed", &order).await?;
    let key = ApiKey::random(false)?;
    let id = KeyId(new_id());
    let (key_hash, prefix, scopes) = (key.hash(), key.hint().to_owned(), vec!["events:write".to_owned()]);
    store.insert_api_key(&NewApiKey { id, tenant, key_hash, prefix, scopes, expires_at: None }).await?;
    Ok(key.expose().to_owned())
}

/// Without provider events: what they cost depends on the account, and it is not part of sending.
async fn start_sink() -> Result<(Sink, String)> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.context("a port for the sink")?;
    let url = format!("http://{}", listener.local_addr().context("the sink's port")?);
    let sink = Sink::new(SinkConfig { max_mails: MAX_MAILS, ..SinkConfig::default() });
    // Never cancelled: it serves until this process ends.
    tokio::spawn(sink.clone().serve(listener, CancellationToken::new()));
    Ok((sink, url))
}

/// Event number `n` of a phase. Its subject is its own, so no two events of a run share an identity, and it is also the mail's subject,
/// by which a mail is matched with its post.
pub(crate) fn event(kind: Kind, phase: &str, n: usize, recipients: usize) -> Value {
    let id = subject(phase, n);
    let recipients: Vec<Value> = (0..recipients)
        .map(|i| json!({"email": format!("r{i}@example.test"), "name": format!("Recipient {i}")}))
        .collect();
    match kind {
        Kind::Note => json!({
            "id": id, "source": "/bench", "type": "note.posted", "subject": id, "recipients": recipients, "data": {"text": "A note."}
        }),
        Kind::Order => {
            let mut order = example_order();
            order["id"] = json!(id);
            order["subject"] = json!(id);
            order["recipients"] = json!(recipients);
            order["data"]["order_number"] = json!(id);
            order
        }
    }
}

fn example_order() -> Value {
    serde_json::from_str(include_str!("../../../examples/purchase-order.json")).unwrap_or_default()
}

pub(crate) fn subject(phase: &str, n: usize) -> String {
    format!("{phase}-{n}")
}

/// The number in a subject of this phase.
pub(crate) fn number(phase: &str, subject: &str) -> Option<usize> {
    subject.strip_prefix(phase)?.strip_prefix('-')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_found_again_by_its_subject() {
        for kind in [Kind::Note, Kind::Order] {
            let event = event(kind, "load", 17, 3);
            assert_eq!(number("load", event["subject"].as_str().unwrap()), Some(17));
            assert_eq!(event["recipients"].as_array().unwrap().len(), 3);
            assert!(event["data"].is_object() && event["type"].is_string());
        }
        assert_eq!(number("load", "warm-1"), None);
    }
}
