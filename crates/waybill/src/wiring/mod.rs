//! Adapters to ports, by configuration.

mod documents;
mod operator;
mod queue;

pub(crate) use operator::Operator;
pub(crate) use queue::{WiredQueue, queue};

use crate::{
    alerts::{LogAlerts, WebhookAlerts},
    config::Config,
    system::{SystemChance, SystemClock},
};
use anyhow::{Context as _, bail};
use std::sync::Arc;
use waybill_aws::SnsAlerts;
use waybill_core::ports::{AlertSink, Lock, Provider};
use waybill_local::InProcessLock;
use waybill_pipeline::{alerts::Alerter, context::Context};
use waybill_providers::Settings;
use waybill_redis::RedisLock;
use waybill_store::{SchemaState, Store};

/// The context with its concrete parts that measurements and operators look at.
pub(crate) struct Wired {
    pub(crate) context: Arc<Context>,
    pub(crate) queue: WiredQueue,
    pub(crate) redis: Option<Arc<RedisLock>>,
}

/// Connects and refuses a schema that this build doesn't know.
///
/// # Errors
/// One line that says what is missing and what to do.
pub(crate) async fn connect_store(config: &Config) -> anyhow::Result<Store> {
    let db = &config.database;
    let store = Store::connect(db.url.expose(), db.connections, db.acquire_timeout)
        .await
        .context("PostgreSQL (DATABASE_URL) can't be reached")?;
    Ok(store)
}

/// # Errors
/// With the command to run when the schema is not this build's.
pub(crate) async fn check_schema(store: &Store) -> anyhow::Result<()> {
    match store.schema_version().await.context("reading the schema's version")? {
        SchemaState::UpToDate => Ok(()),
        SchemaState::Empty => bail!("the database is empty: run `waybill migrate`"),
        SchemaState::Behind { have, want } => {
            bail!("the database's schema is version {have}, this build needs {want}: run `waybill migrate`")
        }
        SchemaState::Ahead { have, want } => {
            bail!("the database's schema is version {have}, newer than this build's {want}: run a newer waybill")
        }
    }
}

/// # Errors
/// What can't be reached or is configured wrongly.
pub(crate) async fn wire(config: &Config) -> anyhow::Result<Wired> {
    let store = connect_store(config).await?;
    check_schema(&store).await?;
    let queue = queue(config, &store, Some(config.settings.timings.clone())).await?;
    let redis = match &config.redis_url {
        Some(url) => Some(Arc::new(RedisLock::connect(url.expose()).context("REDIS_URL")?)),
        None => None,
    };
    let lock: Arc<dyn Lock> = match &redis {
        Some(redis) => redis.clone(),
        None => Arc::new(InProcessLock::new()),
    };
    let objects = documents::objects(config).await?;
    let context = Context {
        alerts: alerter(config, &store).await?,
        store,
        queue: queue.port.clone(),
        lock,
        renderer: documents::renderer(config, objects.clone()).await,
        objects,
        providers: providers(config).await?,
        clock: Arc::new(SystemClock::new()),
        chance: Arc::new(SystemChance),
        settings: config.settings.clone(),
        documents_bell: tokio::sync::Notify::new(),
    };
    Ok(Wired { context: Arc::new(context), queue, redis })
}

async fn alerter(config: &Config, store: &Store) -> anyhow::Result<Alerter> {
    let mut sinks: Vec<Arc<dyn AlertSink>> = vec![Arc::new(LogAlerts)];
    if let Some(url) = &config.alerts.webhook_url {
        sinks.push(Arc::new(WebhookAlerts::new(url.clone())?));
    }
    if let Some(arn) = &config.alerts.topic_arn {
        // The topic's own region, which needs not be the service's.
        let region = arn.split(':').nth(3).map(str::to_owned);
        sinks.push(Arc::new(SnsAlerts::new(&waybill_aws::load(region).await, arn.clone())));
    }
    Ok(Alerter::new(store.clone(), sinks, config.alerts.quiet))
}

async fn providers(config: &Config) -> anyhow::Result<Vec<Arc<dyn Provider>>> {
    let lookup = |name: &str| (config.providers.environment)(name);
    let mut out = Vec::new();
    for kind in &config.providers.order {
        // Checked when the configuration was read; what can still fail is making the client.
        let build = (kind.build)(&Settings::new(&lookup))
            .map_err(|errors| anyhow::anyhow!("provider {}: {errors:?}", kind.name))?;
        out.push(build.await.with_context(|| format!("provider {}", kind.name))?);
    }
    Ok(out)
}
