//! A database of the test's own, the ports as fakes, one tenant with one route, and what tests do with them.

use sqlx::postgres::PgPoolOptions;
use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};
use uuid::Uuid;
use waybill_core::{
    event::{Event, EventLimits},
    ids::{RouteId, TenantId},
    json,
    ports::{ObjectStore, Renderer},
    route::RouteSpec,
};
use waybill_pipeline::{
    accept::Acceptor,
    alerts::Alerter,
    context::{Context, Settings},
};
use waybill_store::Store;
use waybill_testkit::{
    clock::{ManualClock, SeededChance},
    db::TestDb,
    fakes::{FakeAlerts, FakeLock, FakeObjects, FakeProvider, FakeQueue, FakeRenderer},
};

/// What a test may set before its world begins.
pub(crate) struct Setup {
    pub(crate) settings: Settings,
    pub(crate) max_receive_count: u32,
    pub(crate) quiet: Duration,
    /// Of the store's connections: a row that somebody else holds for longer is an error.
    pub(crate) lock_timeout: Duration,
    pub(crate) objects: Arc<FakeObjects>,
    pub(crate) renderer: Option<Arc<dyn Renderer>>,
    pub(crate) ses: FakeProvider,
    pub(crate) sendgrid: FakeProvider,
}

pub(crate) struct World {
    pub(crate) db: TestDb,
    pub(crate) store: Store,
    pub(crate) context: Arc<Context>,
    pub(crate) acceptor: Acceptor,
    pub(crate) queue: FakeQueue,
    pub(crate) lock: Arc<FakeLock>,
    pub(crate) objects: Arc<FakeObjects>,
    pub(crate) renderer: Arc<FakeRenderer>,
    /// The first provider; its events reach us.
    pub(crate) ses: Arc<FakeProvider>,
    /// The second; its events don't.
    pub(crate) sendgrid: Arc<FakeProvider>,
    pub(crate) alerts: Arc<FakeAlerts>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) tenant: TenantId,
    pub(crate) route: RouteId,
    /// Of events, for their ids.
    pub(crate) count: AtomicU64,
}

fn settings() -> Settings {
    let mut settings = Settings {
        queue_wait: Duration::from_millis(50),
        worker_concurrency: 40,
        worker_pollers: 2,
        sweep_interval: Duration::from_millis(50),
        idempotency_wait: Duration::from_millis(300),
        ..Settings::default()
    };
    // The relay may publish at once; a message stays invisible for longer than any test lasts.
    settings.timings.outbox_grace = Duration::ZERO;
    settings.timings.document.base = Duration::from_millis(10);
    settings.timings.document.cap = Duration::from_millis(20);
    settings
}

impl World {
    pub(crate) async fn new() -> World {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Setup)) -> World {
        let mut setup = Setup {
            settings: settings(),
            max_receive_count: 5,
            quiet: Duration::from_secs(3600),
            lock_timeout: Duration::ZERO,
            objects: Arc::default(),
            renderer: None,
            ses: FakeProvider::new("ses").with_events(),
            sendgrid: FakeProvider::new("sendgrid"),
        };
        change(&mut setup);
        let db = TestDb::with_connections(3).await;
        let store = connect(&db, setup.lock_timeout).await;
        let queue = FakeQueue::new(setup.max_receive_count);
        let renderer = Arc::new(FakeRenderer::new(setup.objects.clone()));
        let (ses, sendgrid) = (Arc::new(setup.ses), Arc::new(setup.sendgrid));
        let (lock, alerts, clock) =
            (Arc::new(FakeLock::new()), Arc::new(FakeAlerts::new()), Arc::<ManualClock>::default());
        let context = Arc::new(Context {
            store: store.clone(),
            queue: Arc::new(queue.clone()),
            lock: lock.clone(),
            objects: setup.objects.clone(),
            renderer: setup.renderer.unwrap_or_else(|| renderer.clone()),
            providers: vec![ses.clone(), sendgrid.clone()],
            alerts: Alerter::new(store.clone(), vec![alerts.clone()], setup.quiet),
            clock: clock.clone(),
            chance: Arc::new(SeededChance::new(1)),
            settings: setup.settings,
            documents_bell: tokio::sync::Notify::new(),
        });
        let world = World {
            acceptor: Acceptor::start(context.clone()),
            tenant: TenantId(Uuid::now_v7()),
            route: RouteId(Uuid::now_v7()),
            count: AtomicU64::new(1),
            objects: setup.objects,
            db,
            store,
            context,
            queue,
            lock,
            renderer,
            ses,
            sendgrid,
            alerts,
            clock,
        };
        assert!(world.store.create_tenant(world.tenant, "acme", None).await.unwrap());
        world.put_route(&plain()).await;
        world
    }

    /// The world's context with another database or other objects.
    pub(crate) fn context_with(&self, store: Store, objects: Arc<dyn ObjectStore>) -> Arc<Context> {
        Arc::new(Context {
            store,
            queue: Arc::new(self.queue.clone()),
            lock: self.lock.clone(),
            objects,
            renderer: self.renderer.clone(),
            providers: vec![self.ses.clone(), self.sendgrid.clone()],
            alerts: self.context.alerts.clone(),
            clock: self.clock.clone(),
            chance: self.context.chance.clone(),
            settings: self.context.settings.clone(),
            documents_bell: tokio::sync::Notify::new(),
        })
    }

    /// A database that nobody reaches.
    pub(crate) async fn no_database(&self) -> Arc<Context> {
        let pool = PgPoolOptions::new().max_connections(1).connect_lazy(&self.db.url).unwrap();
        pool.close().await;
        self.context_with(Store::from_pool(pool), self.objects.clone())
    }

    /// The next version of the world's route.
    pub(crate) async fn put_route(&self, spec: &RouteSpec) -> i32 {
        self.store.put_route(self.tenant, self.route, "order.created", spec).await.unwrap()
    }

    /// From now on every mail needs its PDF.
    pub(crate) async fn need_documents(&self) {
        self.put_route(&RouteSpec { document: Some("purchase_order".into()), ..plain() }).await;
    }

    /// What to do about unknown outcomes.
    pub(crate) async fn on_unknown(&self, policy: &str) {
        self.put_route(&RouteSpec { on_unknown: Some(policy.into()), ..plain() }).await;
    }
}

async fn connect(db: &TestDb, lock_timeout: Duration) -> Store {
    let statement = format!("SET lock_timeout = {}", lock_timeout.as_millis());
    let pool = PgPoolOptions::new()
        .max_connections(8)
        .after_connect(move |connection, _| {
            let statement = statement.clone();
            Box::pin(async move {
                sqlx::query(sqlx::AssertSqlSafe(statement)).execute(connection).await?;
                Ok(())
            })
        })
        .connect(&db.url)
        .await
        .unwrap();
    Store::from_pool(pool)
}

/// A mail without a document.
pub(crate) fn plain() -> RouteSpec {
    serde_json::from_value(serde_json::json!({
        "channel": "email", "mail": {"from": "no-reply@acme.example", "subject": "Order {subject}", "text": "Hello {name}"},
    }))
    .unwrap()
}

pub(crate) fn event(value: &serde_json::Value) -> Event {
    let json = json::parse(value.to_string().as_bytes()).unwrap();
    Event::from_json(&json, &EventLimits::default()).unwrap()
}
