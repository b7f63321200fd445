//! The service on exactly what the CDK's templates make: `cargo xtask infra --deploy-emulator` deploys them to an emulator and runs this.

use crate::support::{World, books::states};
use serde_json::{Value, json};
use waybill_core::ports::QueueName;

/// Numbers of production (`infra/topology.json`), which the service compares with the queues' own when it starts.
/// `/inbound` is closed, so that the topic is the only way for SES's events.
const PRODUCTION: [(&str, &str); 3] =
    [("WAYBILL_QUEUE_VISIBILITY_MS", "180000"), ("WAYBILL_REQUEUE_AFTER_MS", "900000"), ("WAYBILL_INBOUND_SECRET", "")];
const SOURCE: &str = "com.shop.orders";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs deployed stacks: cargo xtask infra --deploy-emulator"]
async fn a_purchase_order_arrives_by_http_and_by_the_bus_on_the_deployed_stacks() {
    let stack = std::env::var("WAYBILL_TEST_STACK").expect("WAYBILL_TEST_STACK holds what was deployed");
    let stack: Value = serde_json::from_str(&stack).expect("JSON");
    let world = World::deployed(&stack, &PRODUCTION).await;
    let tenant = world.tenant.to_string();
    world.cli(&["tenants", "intake", "add", &tenant, SOURCE]);
    let mut processes = Vec::new();
    for role in ["api", "router", "worker", "scheduler", "intake"] {
        processes.push(world.start(role).await);
    }

    let posted = world.order("by-http");
    let job = world.accept(&posted).await;
    let mut on_the_bus = world.order("by-bus");
    on_the_bus["subject"] = json!("PO-BY-BUS");
    let file = world.file("order.json", &on_the_bus.to_string());
    let bus = stack["bus"].as_str().expect("a bus");
    world.cli(&["events", "send", &file, "--bus", bus, "--source", SOURCE]);
    world.until("the event of the bus", "SELECT count(*) FROM jobs", |n| n == 2).await;
    let other = world.accept(&on_the_bus).await;

    let books = world.all_sent_once(&[job.clone(), other]).await;
    assert_eq!(books.deliveries, 6);
    assert_eq!(
        world.count("SELECT count(*) FROM documents WHERE state = 'READY'").await,
        2,
        "the function rendered both"
    );
    for mail in world.sink.mails() {
        let pdf = mail.attachments.first().expect("a document");
        assert!(pdf.content_type == "application/pdf" && pdf.content.starts_with(b"%PDF-"));
    }

    // SES tells by its topic; the topic leads to the feedback queue.
    let sent = world.job(&job).await;
    let delivery = &sent["deliveries"]["data"][0];
    let told = json!({
        "eventType": "Delivery",
        "mail": {
            "messageId": delivery["provider_message_id"], "timestamp": "2026-11-30T12:00:00.000Z",
            "tags": {"delivery_id": [delivery["delivery_id"]]}
        },
        "delivery": {"timestamp": "2026-11-30T12:00:01.000Z", "recipients": ["someone@example.test"]}
    });
    let topic = stack["feedback_topic"].as_str().expect("a topic");
    world.aws.as_ref().expect("AWS").publish(topic, &told.to_string()).await;
    world.until("delivered", "SELECT count(*) FROM deliveries WHERE state = 'DELIVERED'", |n| n == 1).await;
    assert!(states(&world.job(&job).await).contains(&"DELIVERED"));

    for queue in QueueName::ALL.into_iter().filter(|queue| queue.dead_letter().is_none()) {
        assert_eq!(world.queue.depth(queue).await, 0, "{}", queue.as_str());
    }
    world.close().await;
}
