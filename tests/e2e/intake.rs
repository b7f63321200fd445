//! The two ways in by queue: events by way of the bus, and what providers tell about our mails.

use crate::support::{World, books::states};
use serde_json::{Value, json};
use waybill_core::ports::QueueName;

const SOURCE: &str = "com.shop.orders";

/// Puts an event where a producer on the bus would: onto a real bus with a rule, or in EventBridge's envelope onto the local queue.
async fn publish(world: &World, event: &Value) {
    if let Some(aws) = &world.aws {
        let bus = aws.bus(SOURCE).await;
        let file = world.file("event.json", &event.to_string());
        let id = world.cli(&["events", "send", &file, "--bus", &bus, "--source", SOURCE]);
        assert!(id.trim().len() > 10, "the id of the bus: {id}");
    } else {
        let envelope = json!({
            "version": "0", "id": uuid::Uuid::now_v7(), "detail-type": event["type"], "source": SOURCE,
            "account": "111122223333", "time": "2026-11-30T12:00:00Z", "region": "eu-central-1", "resources": [], "detail": event
        });
        world.queue.send(QueueName::Intake, &[envelope.to_string()]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_by_way_of_the_bus_is_a_job_of_the_tenant_that_takes_its_source() {
    let world = World::new().await;
    let tenant = world.tenant.to_string();
    assert_eq!(world.cli(&["tenants", "intake", "add", &tenant, SOURCE]).trim(), "added");
    assert!(world.cli(&["tenants", "intake", "list", &tenant]).contains(SOURCE));
    let mut processes = Vec::new();
    for role in ["api", "router", "worker", "scheduler", "intake"] {
        processes.push(world.start(role).await);
    }
    let event = world.order("e1");
    publish(&world, &event).await;
    world.until("the job", "SELECT count(*) FROM jobs", |n| n == 1).await;
    // The same event by the other way in is a repeat of it.
    let job = world.accept(&event).await;
    let books = world.all_sent_once(&[job]).await;
    assert_eq!((books.deliveries, world.count("SELECT count(*) FROM jobs").await), (3, 1));

    // What nobody takes is kept where a person finds it.
    assert_eq!(world.cli(&["tenants", "intake", "remove", &tenant, SOURCE]).trim(), "removed");
    publish(&world, &world.order("e2")).await;
    world.queue.until("the refused event", QueueName::IntakeDead, 1).await;
    let shown = world.cli(&["dlq", "show", "--receive"]);
    assert!(shown.contains("intake-dead") && shown.contains("unknown_source"), "{shown}");
    assert_eq!(world.count("SELECT count(*) FROM jobs").await, 1);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ses_tells_by_queue_settles_states_as_its_webhook_does() {
    // Without a secret `/inbound` is closed: the queue is the only way.
    let world = World::with(&[("WAYBILL_INBOUND_SECRET", "")]).await;
    let _process = world.start("all").await;
    let job = world.accept(&world.note("e1", "s1", 1)).await;
    let sent = world.finished(&job).await;
    assert_eq!(states(&sent), ["SENT"]);
    let delivery = &sent["deliveries"]["data"][0];
    let event = json!({
        "eventType": "Delivery",
        "mail": {
            "messageId": delivery["provider_message_id"], "timestamp": "2026-11-30T12:00:00.000Z",
            "tags": {"delivery_id": [delivery["delivery_id"]]}
        },
        "delivery": {"timestamp": "2026-11-30T12:00:01.000Z", "recipients": ["r0@example.test"]}
    });
    let by_sns = json!({"Type": "Notification", "MessageId": "1", "Message": event.to_string()});
    world.queue.send(QueueName::Feedback, &[by_sns.to_string(), "{\"Type\":\"Notification\"".into()]).await;
    world.until("delivered", "SELECT count(*) FROM deliveries WHERE state = 'DELIVERED'", |n| n == 1).await;
    world.queue.until("the half body", QueueName::FeedbackDead, 1).await;
    assert_eq!(states(&world.job(&job).await), ["DELIVERED"]);
    world.close().await;
}
