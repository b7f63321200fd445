//! Roles, signals and the two ways to stop.

use crate::{
    config::{ApiConfig, Config},
    service::{Inbound, PipelineService},
    wiring::{self, Wired},
};
use anyhow::Context as _;
use std::{process::ExitCode, sync::Arc, time::Duration};
use tokio::net::TcpListener;
use tracing::{error, info, warn};
use tracing_subscriber::{EnvFilter, layer::SubscriberExt as _, util::SubscriberInitExt as _};
use waybill_core::ports::FeedbackEvent;
use waybill_pipeline::{
    accept::Acceptor,
    context::{Context, Lifecycle},
    deliver, documents, feedback, intake, router, scheduler,
};
use waybill_providers::{Settings, registry};

/// What roles get after `hard` for their last words.
const AFTER_HARD: Duration = Duration::from_millis(500);

/// Which roles a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Roles {
    pub(crate) api: bool,
    pub(crate) router: bool,
    pub(crate) worker: bool,
    pub(crate) scheduler: bool,
    pub(crate) intake: bool,
}

impl Roles {
    const NONE: Roles = Roles { api: false, router: false, worker: false, scheduler: false, intake: false };
    pub(crate) const ALL: Roles = Roles { api: true, router: true, worker: true, scheduler: true, intake: true };
    pub(crate) const API: Roles = Roles { api: true, ..Self::NONE };
    pub(crate) const ROUTER: Roles = Roles { router: true, ..Self::NONE };
    pub(crate) const WORKER: Roles = Roles { worker: true, ..Self::NONE };
    pub(crate) const SCHEDULER: Roles = Roles { scheduler: true, ..Self::NONE };
    pub(crate) const INTAKE: Roles = Roles { intake: true, ..Self::NONE };
}

pub(crate) fn init_log(json: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,sqlx=error"));
    let registry = tracing_subscriber::registry().with(filter);
    let writer = std::io::stderr;
    let started = if json {
        registry.with(tracing_subscriber::fmt::layer().json().with_writer(writer)).try_init()
    } else {
        registry.with(tracing_subscriber::fmt::layer().with_writer(writer).with_target(false)).try_init()
    };
    drop(started);
}

/// Runs roles by the environment's configuration until a signal.
///
/// # Errors
/// When something can't be started; the message names it.
pub(crate) async fn run_service(roles: Roles) -> anyhow::Result<ExitCode> {
    let config = Config::from_env()?;
    init_log(config.log_json);
    // What is warned of matters to who locks and renders.
    for warning in config.warnings().into_iter().filter(|_| roles.worker) {
        warn!("config: {warning}");
    }
    // First, so that a stop during a slow start is a stop and not a crash.
    let life = Lifecycle::default();
    stop_on_signals(&life, config.api.stop_timeout);
    let wired = wiring::wire(&config).await?;
    let listener =
        if roles.api { Some(bind(&config.api.listen.to_string(), "WAYBILL_API_LISTEN").await?) } else { None };
    let ops = match config.api.ops_listen {
        Some(address) => Some(bind(&address.to_string(), "WAYBILL_OPS_LISTEN").await?),
        None => None,
    };
    info!(?roles, "waybill.started");
    run(&config, &wired, roles, listener, ops, life).await
}

/// # Errors
/// One line that names the variable, when the address is taken or not ours.
pub(crate) async fn bind(address: &str, variable: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("can't listen on {address} ({variable}); is another waybill running? Set {variable} to a free address")
    })
}

/// The first SIGTERM or Ctrl-C stops softly (or `soft` was cancelled by somebody else); `hard` follows after `timeout`, or at a second signal.
pub(crate) fn stop_on_signals(life: &Lifecycle, timeout: Duration) {
    let life = life.clone();
    tokio::spawn(async move {
        use tokio::signal::unix::{SignalKind, signal};
        let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            error!("waybill.no_signal_handlers");
            return;
        };
        // A role that ended by itself stops the others as a signal does.
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {}, () = life.soft.cancelled() => {} }
        info!("waybill.stopping");
        life.soft.cancel();
        tokio::select! {
            () = tokio::time::sleep(timeout) => warn!("waybill.stop_timeout"),
            _ = terminate.recv() => warn!("waybill.second_signal"),
            _ = interrupt.recv() => warn!("waybill.second_signal"),
        }
        life.hard.cancel();
    });
}

/// # Errors
/// A signing key that is none; the configuration's check has named it before.
fn inbound(config: &Config) -> anyhow::Result<Inbound> {
    let lookup = |name: &str| (config.providers.environment)(name);
    let mut inbound = Inbound { secret: config.providers.inbound_secret.clone(), ..Inbound::default() };
    // Of every provider, not only of those that send: one that was taken out of the list still has something to tell.
    for kind in registry::PROVIDERS {
        if let Some(signature) = (kind.signature)(&Settings::new(&lookup))? {
            inbound.signatures.insert(kind.name, signature);
        }
    }
    Ok(inbound)
}

/// Runs roles until `life` stops. A role that ends by itself (it panicked) stops the others, and the exit code says so.
///
/// # Errors
/// When the API's server can't be made.
pub(crate) async fn run(
    config: &Config,
    wired: &Wired,
    roles: Roles,
    listener: Option<TcpListener>,
    ops: Option<TcpListener>,
    life: Lifecycle,
) -> anyhow::Result<ExitCode> {
    let context = wired.context.clone();
    let mut tasks = tokio::task::JoinSet::new();
    // One for both ways in, so that their commits are shared.
    let acceptor = (roles.api || roles.intake).then(|| Acceptor::start(context.clone()));
    let service = Arc::new(PipelineService::new(context.clone(), acceptor.clone(), inbound(config)?));
    let state = waybill_api::ApiState::new(service, api_limits(config), life.soft.clone());
    if let Some(listener) = listener {
        tasks.spawn(serve(listener, waybill_api::router(state.clone()), config.api.clone(), life.clone()));
    }
    if let Some(listener) = ops {
        tasks.spawn(serve(
            listener,
            waybill_api::ops_router(state.clone(), metrics(wired)?),
            config.api.clone(),
            life.clone(),
        ));
    }
    spawn_roles(&mut tasks, &context, roles, &life);
    if let Some(acceptor) = acceptor.filter(|_| roles.intake) {
        tasks.spawn(intake::run(context.clone(), acceptor, life.clone()));
        tasks.spawn(feedback::consume(context.clone(), ses_events, life.clone()));
    }
    let good = until_they_end(&mut tasks, &life).await;
    info!("waybill.stopped");
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Waits for all roles; for those that hear of `hard` and say so, a moment longer than that. Returns whether all ended in time and none by
/// itself. A role in the middle of a statement that the database never answers must not keep the process.
async fn until_they_end(tasks: &mut tokio::task::JoinSet<()>, life: &Lifecycle) -> bool {
    let mut good = true;
    let cut = async {
        life.hard.cancelled().await;
        tokio::time::sleep(AFTER_HARD).await;
    };
    tokio::pin!(cut);
    loop {
        let ended = tokio::select! {
            ended = tasks.join_next() => ended,
            () = &mut cut => {
                warn!(roles = tasks.len(), "waybill.roles_cut");
                return false;
            }
        };
        let Some(ended) = ended else { return good && !life.hard.is_cancelled() };
        if !life.stopping() || ended.is_err() {
            error!(panicked = ended.is_err(), "waybill.role_ended_by_itself");
            good = false;
            life.soft.cancel();
        }
    }
}

fn spawn_roles(tasks: &mut tokio::task::JoinSet<()>, context: &Arc<Context>, roles: Roles, life: &Lifecycle) {
    if roles.router {
        for _ in 0..context.settings.router_pollers.max(1) {
            tasks.spawn(router::run(context.clone(), life.clone()));
        }
    }
    if roles.worker {
        tasks.spawn(deliver::worker::run(context.clone(), life.clone()));
        tasks.spawn(documents::run(context.clone(), life.clone()));
    }
    if roles.scheduler {
        tasks.spawn(scheduler::run(context.clone(), life.clone()));
    }
}

/// What SES tells by way of SNS, as the registry's parser reads it from `POST /inbound` too.
fn ses_events(body: &str) -> Result<Vec<FeedbackEvent>, String> {
    let parse = registry::find("ses").and_then(|ses| ses.parse_events).ok_or("this build has no SES")?;
    parse(body.as_bytes()).map_err(|error| error.to_string())
}

fn api_limits(config: &Config) -> waybill_api::ApiConfig {
    waybill_api::ApiConfig {
        event: config.settings.limits.clone(),
        body_timeout: config.api.body_read_timeout,
        ..waybill_api::ApiConfig::default()
    }
}

/// Prometheus text. The totals that adapters count themselves are read when somebody asks.
fn metrics(wired: &Wired) -> anyhow::Result<Arc<dyn Fn() -> String + Send + Sync>> {
    let handle = metrics_exporter_prometheus::PrometheusBuilder::new()
        .install_recorder()
        .context("installing the metrics recorder")?;
    let (store, queue, redis) = (wired.context.store.clone(), wired.queue.clone(), wired.redis.clone());
    Ok(Arc::new(move || {
        metrics::gauge!("waybill_sql_statements").set(store.statements() as f64);
        metrics::gauge!("waybill_queue_requests").set((queue.requests)() as f64);
        metrics::gauge!("waybill_redis_round_trips").set(redis.as_ref().map_or(0, |redis| redis.round_trips()) as f64);
        handle.run_upkeep();
        handle.render()
    }))
}

async fn serve(listener: TcpListener, router: axum::Router, config: ApiConfig, life: Lifecycle) {
    let shutdown =
        waybill_api::Shutdown { soft: life.soft.clone(), hard: life.hard.clone(), drain_delay: config.drain_delay };
    let served = waybill_api::serve(listener, router, shutdown, waybill_api::ServeOptions::default()).await;
    if served.cut > 0 {
        warn!(connections = served.cut, "api.connections_cut");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_role_that_never_ends_does_not_keep_the_process() {
        let (life, mut tasks) = (Lifecycle::default(), tokio::task::JoinSet::new());
        tasks.spawn(std::future::pending());
        let soft = life.soft.clone();
        tasks.spawn(async move { soft.cancelled().await });
        let stop = life.clone();
        tokio::spawn(async move {
            stop.soft.cancel();
            tokio::time::sleep(Duration::from_secs(22)).await;
            stop.hard.cancel();
        });
        let ended = tokio::time::timeout(Duration::from_secs(23), until_they_end(&mut tasks, &life)).await;
        assert_eq!(ended, Ok(false));
    }

    #[tokio::test(start_paused = true)]
    async fn roles_that_end_when_they_are_asked_are_a_success_and_one_that_ends_by_itself_is_not() {
        for (by_itself, good) in [(false, true), (true, false)] {
            let (life, mut tasks) = (Lifecycle::default(), tokio::task::JoinSet::new());
            let soft = life.soft.clone();
            tasks.spawn(async move { soft.cancelled().await });
            if by_itself {
                tasks.spawn(async {});
            } else {
                life.soft.cancel();
            }
            assert_eq!(until_they_end(&mut tasks, &life).await, good);
            assert!(life.stopping());
        }
    }
}
