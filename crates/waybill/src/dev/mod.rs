//! `waybill dev`: the whole of Waybill on a laptop in one command, with nothing but this repository.

mod database;
mod environment;
mod seed;

pub(crate) use seed::seed;

use crate::{
    roles::{self, Roles},
    wiring,
};
use anyhow::Context as _;
use clap::Args;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use waybill_pipeline::context::Lifecycle;
use waybill_sink::{EventsTarget, Provider, Sink, SinkConfig};

#[derive(Args)]
pub(crate) struct DevArgs {
    /// Address of the HTTP API
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Address of the mailbox (the provider sink, where local mails go)
    #[arg(long, default_value = "127.0.0.1:8025")]
    mailbox: SocketAddr,
    /// Address of `/metrics` and health
    #[arg(long, default_value = "127.0.0.1:8081")]
    ops: SocketAddr,
    /// Folder of the local database, documents and settings
    #[arg(long, default_value = ".waybill")]
    dir: PathBuf,
}

/// # Errors
/// One clear line: a taken port, a PostgreSQL that can't be had, a schema that is too new.
pub(crate) async fn run(args: DevArgs) -> anyhow::Result<ExitCode> {
    roles::init_log(false);
    std::fs::create_dir_all(&args.dir).with_context(|| format!("creating {}", args.dir.display()))?;
    // Ports first: they fail at once, a database takes seconds.
    let api = roles::bind(&args.listen.to_string(), "--listen").await?;
    let mailbox = roles::bind(&args.mailbox.to_string(), "--mailbox").await?;
    let ops = roles::bind(&args.ops.to_string(), "--ops").await?;
    // For `WAYBILL_PROVIDERS=…,smtp`; nobody types its address, so any port will do.
    let smtp = roles::bind("127.0.0.1:0", "SMTP").await?;
    let life = Lifecycle::default();
    let database = tokio::select! {
        database = database::find_or_start(&args.dir) => database?,
        () = interrupted() => return Ok(ExitCode::SUCCESS),
    };
    let redis = database::reachable_redis().await;
    let secret = hex(&waybill_crypto::random_bytes::<16>()?);
    let addresses = Addresses {
        api: api.local_addr()?,
        mailbox: mailbox.local_addr()?,
        ops: ops.local_addr()?,
        smtp: smtp.local_addr()?,
    };
    let config = environment::config(&args.dir, &database.url, redis.as_deref(), &addresses, &secret)?;
    roles::stop_on_signals(&life, config.api.stop_timeout);

    let store = wiring::connect_store(&config).await?;
    if let waybill_store::SchemaState::Ahead { .. } = store.schema_version().await? {
        wiring::check_schema(&store).await?;
    }
    store.migrate().await.context("migrating the database")?;
    let key = seed(&store, &args.dir).await?;
    let wired = wiring::wire(&config).await?;
    let (sink, stop_sink) = start_sink(mailbox, smtp, &addresses, &secret);
    let announce = tokio::spawn(announce(args.dir.clone(), addresses, key, database.url.clone(), life.clone()));
    let code = roles::run(&config, &wired, Roles::ALL, Some(api), Some(ops), life).await?;
    announce.abort();
    stop_sink.cancel();
    let _ = sink.await;
    store.pool().close().await;
    database.stop().await?;
    println!("stopped");
    Ok(code)
}

/// Where things listen.
pub(crate) struct Addresses {
    api: SocketAddr,
    mailbox: SocketAddr,
    ops: SocketAddr,
    smtp: SocketAddr,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
}

/// The secret in the form of a webhook's: its 32 hexadecimal digits are base64 of something, too.
fn webhook_secret(secret: &str) -> String {
    format!("whsec_{secret}")
}

/// The sink takes the mails through the real adapters and reports them back as provider events.
fn start_sink(
    listener: TcpListener,
    smtp: TcpListener,
    addresses: &Addresses,
    secret: &str,
) -> (tokio::task::JoinHandle<()>, CancellationToken) {
    let inbound = |provider: &str| format!("http://sink:{secret}@{}/inbound/{provider}/default", addresses.api);
    // Not loopback (`--listen 0.0.0.0:8080`): the sink sends no events there, and unknown outcomes are settled by the window's end.
    let events = EventsTarget::new(Some(&inbound("ses")), Some(&inbound("sendgrid")))
        .and_then(|events| events.with(Provider::Resend, Some(&inbound("resend"))))
        .and_then(|events| events.with(Provider::Postmark, Some(&inbound("postmark"))))
        .and_then(|events| events.signed_for_resend(&webhook_secret(secret)))
        .ok();
    let stop = CancellationToken::new();
    let sink = Sink::new(SinkConfig { events, ..SinkConfig::default() });
    let stopped = stop.clone();
    tokio::spawn(sink.clone().serve_smtp(smtp, stop.clone()));
    let task = tokio::spawn(async move {
        if let Err(error) = sink.serve(listener, stopped).await {
            tracing::error!(error = &error as &dyn std::error::Error, "dev.mailbox_failed");
        }
    });
    (task, stop)
}

/// Writes `dev.env` and says what to do next, once the API answers.
async fn announce(dir: PathBuf, addresses: Addresses, key: String, database: String, life: Lifecycle) {
    let url = format!("http://{}", addresses.api);
    let client = reqwest::Client::new();
    while !client.get(format!("{url}/readyz")).send().await.is_ok_and(|answer| answer.status().is_success()) {
        if !life.pause(std::time::Duration::from_millis(100)).await {
            return;
        }
    }
    if let Err(error) = environment::write(&dir, &addresses, &key, &database) {
        tracing::error!(error = %error, "dev.env_not_written");
        life.soft.cancel();
        return;
    }
    println!("{}", banner(&dir, &addresses, &key));
}

fn banner(dir: &Path, addresses: &Addresses, key: &str) -> String {
    let env = dir.join("dev.env");
    format!(
        "
Waybill runs.

  API       http://{api}            (OpenAPI: /openapi.json)
  Mailbox   http://{mailbox}/mailbox    <- open this in a browser
  Metrics   http://{ops}/metrics
  Key       {key}
  Settings  {env}

Post a purchase order for three recipients:

  curl -X POST http://{api}/events -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' -d @examples/purchase-order.json

Then see its story with the job's id from the answer:

  curl http://{api}/jobs/JOB_ID -H 'Authorization: Bearer {key}'

The operator's commands (`queues`, `dlq list`, `redrive`, ...) find the database by the settings file:

  set -a; . {env}; set +a; cargo run -- queues

Ctrl-C stops everything that was started.
",
        api = addresses.api,
        mailbox = addresses.mailbox,
        ops = addresses.ops,
        env = env.display(),
    )
}
