//! What surrounds the processes: servers, proxies before them, a migrated and seeded database, the providers.

use std::{collections::HashMap, net::SocketAddr, path::PathBuf, process::Command, time::Duration};

use anyhow::{Context as _, Result, ensure};
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use waybill_core::{
    ids::{KeyId, RouteId, TenantId},
    mail::MailTemplate,
    route::RouteSpec,
};
use waybill_crypto::ApiKey;
use waybill_services::{DataDir, Postgres, PostgresOptions, Progress, Redis, RedisOptions};
use waybill_sink::{EventsTarget, Sink, SinkConfig};
use waybill_store::{NewApiKey, Store};

use crate::{
    fleet::{Fleet, Member, Role},
    proxy::Proxy,
};

/// Password of the sink's provider events.
const INBOUND: &str = "inbound-secret-of-chaos";
/// Mails that the sink keeps: all of a run, because each acceptance is held against the attempt that made it.
const MAX_MAILS: usize = 1_000_000;

/// Short times, so that a run sees many claims expire; the inequalities of the protocol hold as in production.
const TIMES: [(&str, &str); 19] = [
    ("WAYBILL_SES_TIMEOUT_MS", "1000"),
    ("WAYBILL_SENDGRID_TIMEOUT_MS", "1000"),
    ("WAYBILL_CLAIM_MARGIN_MS", "200"),
    ("WAYBILL_HANDLER_TIMEOUT_MS", "2300"),
    ("WAYBILL_CLAIM_TTL_MS", "2600"),
    ("WAYBILL_QUEUE_VISIBILITY_MS", "14000"),
    ("WAYBILL_REQUEUE_AFTER_MS", "16000"),
    ("WAYBILL_RECONCILE_WINDOW_MS", "4000"),
    ("WAYBILL_RETRY_BASE_MS", "300"),
    ("WAYBILL_RETRY_CAP_MS", "1000"),
    ("WAYBILL_RETRY_HOLD_MS", "500"),
    ("WAYBILL_OUTBOX_GRACE_MS", "500"),
    ("WAYBILL_SCHEDULER_INTERVAL_MS", "200"),
    ("WAYBILL_QUEUE_WAIT_MS", "500"),
    ("WAYBILL_API_DRAIN_DELAY_MS", "0"),
    ("WAYBILL_STOP_TIMEOUT_MS", "8000"),
    ("WAYBILL_DATABASE_CONNECTIONS", "8"),
    ("WAYBILL_SES_EVENTS_WIRED", "true"),
    ("WAYBILL_SENDGRID_EVENTS_WIRED", "true"),
];

/// Provider events as they came, never updated: so the commit of each can be read afterwards. (`received_at` is when its statement began, and
/// that may wait for a lock while a claim goes first.)
const TOLD: &str = "
    CREATE SCHEMA chaos;
    CREATE TABLE chaos.told (delivery_id uuid NOT NULL);
    CREATE FUNCTION chaos.note() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.delivery_id IS NOT NULL THEN INSERT INTO chaos.told VALUES (NEW.delivery_id); END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER told AFTER INSERT ON provider_events FOR EACH ROW EXECUTE FUNCTION chaos.note();";

pub(crate) struct World {
    pub(crate) postgres: Postgres,
    pub(crate) redis: Redis,
    pub(crate) to_postgres: Proxy,
    pub(crate) to_redis: Proxy,
    /// Past the proxy: the harness sees the database whatever the service sees.
    pub(crate) pool: PgPool,
    pub(crate) sink: Sink,
    pub(crate) key: String,
    pub(crate) apis: Vec<SocketAddr>,
    pub(crate) folder: PathBuf,
    pub(crate) binary: PathBuf,
    /// The wall clocks of some processes are wrong.
    pub(crate) skewed: bool,
    env: HashMap<String, String>,
    own: HashMap<Member, Vec<(String, String)>>,
}

fn variable(name: &str) -> Result<PathBuf> {
    Ok(std::env::var_os(name).with_context(|| format!("{name} is not set: run `cargo xtask chaos`"))?.into())
}

#[expect(clippy::disallowed_methods, reason = "a process of its own, whose ids decide nothing")]
pub(crate) fn new_id() -> Uuid {
    Uuid::now_v7()
}

fn free_address() -> Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").context("looking for a free port")?;
    listener.local_addr().context("reading a port")
}

/// The address in `scheme://user:password@127.0.0.1:port/…`.
fn address(url: &str) -> Result<SocketAddr> {
    let (_, rest) = url.rsplit_once('@').context("a URL without a host")?;
    let host = rest.split('/').next().unwrap_or_default();
    host.parse().with_context(|| format!("{host} is no address"))
}

impl World {
    /// `skew`: lets the wall clocks of some processes be wrong, where a C compiler can make it so.
    pub(crate) async fn make(skew: bool) -> Result<World> {
        let folder = variable("WAYBILL_CHAOS_DIR")?.join(std::process::id().to_string());
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let cache = variable("WAYBILL_SERVICES_DIR")?;
        let (postgres, redis) = (start_postgres(&folder, &cache)?, start_redis(&cache)?);
        let (to_postgres, to_redis) =
            (Proxy::start(address(postgres.url())?).await?, Proxy::start(address(&redis.url())?).await?);
        let through = |url: &str, proxy: &Proxy| -> Result<String> {
            Ok(url.replace(&address(url)?.to_string(), &proxy.address.to_string()))
        };
        let store =
            Store::connect(postgres.url(), 6, Duration::from_secs(30)).await.context("connecting to PostgreSQL")?;
        store.migrate().await.context("migrating")?;
        sqlx::raw_sql(TOLD).execute(store.pool()).await.context("preparing the books")?;
        let key = seed(&store).await.context("seeding the tenant")?;
        let apis = (0..Role::Api.count()).map(|_| free_address()).collect::<Result<Vec<_>>>()?;
        let (sink, sink_url) = start_sink(&apis).await?;
        let mut env: HashMap<String, String> = TIMES.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        for (name, value) in [
            ("DATABASE_URL", through(postgres.url(), &to_postgres)?),
            ("REDIS_URL", through(&redis.url(), &to_redis)?),
            ("AWS_ENDPOINT_URL_SESV2", sink_url.clone()),
            ("AWS_ACCESS_KEY_ID", "chaos".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "chaos".to_owned()),
            ("AWS_REGION", "eu-central-1".to_owned()),
            ("WAYBILL_SENDGRID_BASE_URL", sink_url),
            ("WAYBILL_SENDGRID_API_KEY", "SG.chaos".to_owned()),
            ("WAYBILL_INBOUND_SECRET", INBOUND.to_owned()),
            ("WAYBILL_DATA_DIR", folder.join("data").to_string_lossy().into_owned()),
            ("RUST_LOG", "info".to_owned()),
        ] {
            env.insert(name.to_owned(), value);
        }
        let mut own: HashMap<Member, Vec<(String, String)>> = HashMap::new();
        for (index, api) in apis.iter().enumerate() {
            let listen = ("WAYBILL_API_LISTEN".to_owned(), api.to_string());
            own.entry(Member { role: Role::Api, index }).or_default().push(listen);
        }
        let skewed = skew && skew_clocks(&folder, &mut own)?;
        Ok(World {
            pool: store.pool().clone(),
            postgres,
            redis,
            to_postgres,
            to_redis,
            sink,
            key,
            apis,
            folder,
            binary: variable("WAYBILL_BIN")?,
            skewed,
            env,
            own,
        })
    }

    pub(crate) fn fleet(&self) -> Fleet {
        Fleet::new(self.binary.clone(), self.folder.clone(), self.env.clone(), self.own.clone())
    }

    /// The operator's command line, with what an operator has.
    pub(crate) fn operate(&self, words: &[&str]) -> Result<()> {
        let done = Command::new(&self.binary)
            .args(words)
            .env_clear()
            .env("DATABASE_URL", self.postgres.url())
            .output()
            .context("running waybill")?;
        ensure!(done.status.success(), "waybill {}: {}", words.join(" "), String::from_utf8_lossy(&done.stderr));
        Ok(())
    }

    /// A connection of its own, for what holds locks.
    pub(crate) async fn connect(&self) -> Result<sqlx::PgConnection> {
        use sqlx::Connection as _;
        sqlx::PgConnection::connect(self.postgres.url()).await.context("connecting to PostgreSQL")
    }
}

/// With the durability of production: a server that is ended at once has to have kept what it confirmed.
fn start_postgres(folder: &std::path::Path, cache: &std::path::Path) -> Result<Postgres> {
    let mut options = PostgresOptions::new(DataDir::Temporary(folder.join("postgres")), cache.to_owned());
    // The books ask which of two commits was first.
    options.settings = [("max_connections", "200"), ("track_commit_timestamp", "on")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    options.progress = Progress::new(|step| eprintln!("   {step}"));
    Postgres::start(&options).context("starting PostgreSQL")
}

fn start_redis(cache: &std::path::Path) -> Result<Redis> {
    Redis::start(&RedisOptions::new(cache)).context("starting Redis")
}

/// A tenant with a route for notes and one for purchase orders; returns its API key.
async fn seed(store: &Store) -> Result<String> {
    let tenant = store.ensure_tenant(TenantId(new_id()), "chaos", None).await?;
    let mail = MailTemplate {
        from: "orders@shop.example".into(),
        from_name: "Shop".into(),
        subject: "{subject}".into(),
        text: "Hello {name}".into(),
    };
    let note =
        RouteSpec { channel: "email".into(), document: None, recipients: None, dedupe: true, on_unknown: None, mail };
    let order = RouteSpec { document: Some("purchase_order".into()), ..note.clone() };
    store.put_route(tenant, RouteId(new_id()), "note.posted", &note).await?;
    store.put_route(tenant, RouteId(new_id()), "order.placed", &order).await?;
    let key = ApiKey::random(false)?;
    let (key_hash, prefix) = (key.hash(), key.hint().to_owned());
    let scopes = vec!["events:write".to_owned()];
    store
        .insert_api_key(&NewApiKey { id: KeyId(new_id()), tenant, key_hash, prefix, scopes, expires_at: None })
        .await?;
    Ok(key.expose().to_owned())
}

/// The events of each provider go to another API process.
async fn start_sink(apis: &[SocketAddr]) -> Result<(Sink, String)> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.context("a port for the sink")?;
    let url = format!("http://{}", listener.local_addr().context("the sink's port")?);
    let target = |index: usize, provider: &str| {
        let api = apis.get(index).context("two APIs")?;
        Ok::<_, anyhow::Error>(format!("http://sink:{INBOUND}@{api}/inbound/{provider}/default"))
    };
    let events = EventsTarget::new(Some(&target(0, "ses")?), Some(&target(1, "sendgrid")?))
        .map_err(|error| anyhow::anyhow!("the events' target: {error}"))?;
    let sink = Sink::new(SinkConfig { events: Some(events), max_mails: MAX_MAILS });
    // Never cancelled: it serves until this process ends.
    tokio::spawn(sink.clone().serve(listener, CancellationToken::new()));
    Ok((sink, url))
}

/// Moves the wall clock of one process of each role: one is ahead by 45 s, one behind. No clock of ours may decide anything between two
/// processes, so nobody should notice. `false` without a C compiler.
fn skew_clocks(folder: &std::path::Path, own: &mut HashMap<Member, Vec<(String, String)>>) -> Result<bool> {
    let (source, library) = (folder.join("skew.c"), folder.join("skew.so"));
    std::fs::write(&source, include_str!("skew.c")).context("writing the clock's source")?;
    let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).output();
    if !built.is_ok_and(|done| done.status.success()) {
        return Ok(false);
    }
    for (role, index, seconds) in
        [(Role::Worker, 1, "45"), (Role::Worker, 2, "-45"), (Role::Scheduler, 1, "45"), (Role::Api, 1, "-45")]
    {
        let env = own.entry(Member { role, index }).or_default();
        env.push(("LD_PRELOAD".to_owned(), library.to_string_lossy().into_owned()));
        env.push(("CHAOS_SKEW_SECONDS".to_owned(), seconds.to_owned()));
    }
    Ok(true)
}
