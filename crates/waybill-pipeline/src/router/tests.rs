use super::*;
use crate::{
    accept::{AcceptAnswer, Acceptor},
    alerts::Alerter,
    context::Settings,
};
use uuid::Uuid;
use waybill_core::{
    event::{Event, EventLimits},
    ids::RouteId,
    route::RouteSpec,
};
use waybill_store::Store;
use waybill_testkit::{
    clock::{ManualClock, SeededChance},
    db::TestDb,
    fakes::{FakeLock, FakeObjects, FakeQueue, FakeRenderer},
};

fn context(store: &Store) -> Arc<Context> {
    let objects = Arc::new(FakeObjects::default());
    Arc::new(Context {
        store: store.clone(),
        queue: Arc::new(FakeQueue::new(5)),
        lock: Arc::new(FakeLock::new()),
        renderer: Arc::new(FakeRenderer::new(objects.clone())),
        objects,
        providers: Vec::new(),
        alerts: Alerter::new(store.clone(), Vec::new(), Duration::ZERO),
        clock: Arc::<ManualClock>::default(),
        chance: Arc::new(SeededChance::new(1)),
        settings: Settings::default(),
        documents_bell: tokio::sync::Notify::new(),
    })
}

fn spec(recipient: &str) -> RouteSpec {
    let pointer = format!("/{recipient}");
    let spec = serde_json::json!({ "channel": "email", "recipients": pointer,
        "mail": { "from": "a@b.test", "subject": "s", "text": "t" } });
    serde_json::from_value(spec).unwrap()
}

/// During a deployment: whoever decides without the route that it can't read loses that route's recipients for good.
#[tokio::test]
async fn a_job_with_a_route_of_a_newer_build_is_left_to_a_process_that_can_read_it() {
    let db = TestDb::new().await;
    let store = Store::from_pool(db.pool.clone());
    let context = context(&store);
    let tenant = TenantId(Uuid::now_v7());
    assert!(store.create_tenant(tenant, "acme", None).await.unwrap());
    for recipient in ["buyer", "supplier"] {
        store.put_route(tenant, RouteId(Uuid::now_v7()), "order.created", &spec(recipient)).await.unwrap();
    }
    let newer = "UPDATE routes SET spec = spec || '{\"from_the_future\": 1}' WHERE spec ->> 'recipients' = '/supplier'";
    sqlx::query(newer).execute(&db.pool).await.unwrap();
    let event = serde_json::json!({ "id": "1", "source": "/orders", "type": "order.created",
        "data": { "buyer": "ana@example.test", "supplier": "bo@example.test" } });
    let event = Event::from_json(&json::parse(event.to_string().as_bytes()).unwrap(), &EventLimits::default()).unwrap();
    let answer = Acceptor::start(context.clone()).accept(tenant, &event, None).await;
    let Ok(AcceptAnswer::New(job)) = answer else { panic!("{answer:?}") };

    assert_eq!(route(&context, &[job]).await.unwrap(), HashSet::new(), "its message has to come back");
    let found = store.find_job(None, job).await.unwrap().unwrap();
    assert_eq!((found.status, found.deliveries.len()), (JobState::Pending, 0));

    sqlx::query("UPDATE routes SET spec = spec - 'from_the_future'").execute(&db.pool).await.unwrap();
    assert_eq!(route(&context, &[job]).await.unwrap(), HashSet::from([job]));
    let found = store.find_job(None, job).await.unwrap().unwrap();
    assert_eq!(found.deliveries.iter().map(|d| d.1).sum::<i64>(), 2);
    db.close().await;
}
