//! What every use case works with: the store, the ports and the settings.

use crate::alerts::Alerter;
use std::{sync::Arc, time::Duration};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use waybill_core::{
    clock::{Chance, Clock},
    event::EventLimits,
    policy::{RetryPolicy, Timings},
    ports::{Lock, ObjectStore, Provider, Queue, Renderer},
    walk::Steps,
};
use waybill_store::Store;

/// Numbers that an operator may set; the defaults are those of the configuration table.
#[derive(Debug, Clone)]
pub struct Settings {
    pub timings: Timings,
    pub retry: RetryPolicy,
    pub limits: EventLimits,
    /// Bytes of an event that comes by queue, in its message or in an object: as many as a request's body may have.
    pub max_body_bytes: usize,
    /// How long a repeat of an event or an `Idempotency-Key` is answered with the first result.
    pub idempotency_ttl: Duration,
    /// How long a post waits for another transaction that holds its key before it answers 409.
    pub idempotency_wait: Duration,
    /// Deliveries in flight per worker process.
    pub worker_concurrency: usize,
    /// Receive loops per worker process.
    pub worker_pollers: usize,
    pub router_pollers: usize,
    /// Documents rendered at once per process.
    pub render_concurrency: usize,
    /// Long poll. Stopping waits for the last one.
    pub queue_wait: Duration,
    /// Pause between two looks of the scheduler.
    pub sweep_interval: Duration,
    /// Rows overdue by more than this are stuck: an alert.
    pub stuck_after: Duration,
    /// An outbox older than this is lagging: an alert.
    pub outbox_lag_alert: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timings: Timings::default(),
            retry: RetryPolicy::default(),
            limits: EventLimits::default(),
            max_body_bytes: 1024 * 1024,
            idempotency_ttl: Duration::from_secs(7 * 86_400),
            idempotency_wait: Duration::from_secs(1),
            worker_concurrency: 200,
            worker_pollers: 4,
            router_pollers: 1,
            render_concurrency: 2,
            queue_wait: Duration::from_secs(10),
            sweep_interval: Duration::from_secs(1),
            stuck_after: Duration::from_secs(120),
            outbox_lag_alert: Duration::from_secs(60),
        }
    }
}

/// Shared by all roles of a process.
pub struct Context {
    pub store: Store,
    pub queue: Arc<dyn Queue>,
    pub lock: Arc<dyn Lock>,
    pub objects: Arc<dyn ObjectStore>,
    pub renderer: Arc<dyn Renderer>,
    /// In the order in which they are tried.
    pub providers: Vec<Arc<dyn Provider>>,
    pub alerts: Alerter,
    pub clock: Arc<dyn Clock>,
    pub chance: Arc<dyn Chance>,
    pub settings: Settings,
    /// Rung when the router has decided on documents, so that rendering in the same process starts at once.
    pub documents_bell: tokio::sync::Notify,
}

impl Context {
    /// The steps of a pass over its providers.
    pub fn steps(&self) -> Steps {
        Steps::of(self.providers.iter().map(|p| p.idempotent()), self.settings.timings.reconcile_window)
    }
}

/// Two ways to stop. Soft: take nothing new, finish what was begun. Hard: the time for that is over.
#[derive(Clone, Default)]
pub struct Lifecycle {
    pub soft: CancellationToken,
    pub hard: CancellationToken,
    pub tasks: TaskTracker,
}

impl Lifecycle {
    pub fn stopping(&self) -> bool {
        self.soft.is_cancelled()
    }

    /// Sleeps, or returns `false` at once when stopping.
    pub async fn pause(&self, time: Duration) -> bool {
        tokio::select! {
            () = self.soft.cancelled() => false,
            () = tokio::time::sleep(time) => true,
        }
    }
}
