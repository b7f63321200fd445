//! What arrives on the queues and shouldn't.

use crate::support::World;
use waybill_core::{
    ids::JobId,
    message::{DeliveryMessage, JobMessage, encode},
    ports::QueueName,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqs_08_poison_goes_to_the_dead_letter_queue_and_its_neighbours_go_on() {
    let world = World::new().await;
    let mut api = world.start("api").await;
    let mut router = world.start("router").await;
    let job = world.accept(&world.note("e1", "s1", 1)).await;
    world.queue.until("the good message", QueueName::Delivery, 1).await;
    let poison = ["{\"delivery_id\":", "null", "[]", "{\"v\":999,\"what\":1}"].map(str::to_owned);
    world.queue.send(QueueName::Delivery, &poison).await;
    api.kill();
    router.kill();
    let process = world.start("all").await;
    world.all_sent_once(&[job]).await;
    world.queue.until("poison", QueueName::DeliveryDead, 3).await;
    assert_eq!(world.queue.depth(QueueName::Delivery).await, 1, "a newer build's message waits for a newer build");
    assert!(!process.log().contains("delivery_id\\\":"), "no body in the log");
    let shown = world.cli(&["dlq", "show", "--receive", "--json"]);
    assert_eq!(shown.lines().count(), 3, "{shown}");
    assert!(shown.contains("delivery-dead") && shown.contains("\"body\":\"null\""), "{shown}");
    assert_eq!(world.queue.depth(QueueName::DeliveryDead).await, 3, "looking takes nothing away");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_comes_three_times_sends_once() {
    let world = World::new().await;
    let mut router = world.start("router").await;
    let mut api = world.start("api").await;
    let job = world.accept(&world.note("e1", "s1", 5)).await;
    world.queue.until("messages", QueueName::Delivery, 5).await;
    let deliveries: Vec<uuid::Uuid> =
        sqlx::query_scalar("SELECT id FROM deliveries").fetch_all(&world.db.pool).await.unwrap();
    let again: Vec<String> = deliveries.iter().map(|id| encode(&DeliveryMessage::new((*id).into()))).collect();
    world.queue.send(QueueName::Delivery, &again).await;
    world.queue.send(QueueName::Delivery, &again).await;
    let id: JobId = job.parse().unwrap();
    world.queue.send(QueueName::Main, &[encode(&JobMessage::new(id))]).await;
    router.kill();
    api.kill();
    let _all = world.start("all").await;
    let _worker = world.start("worker").await;
    let books = world.all_sent_once(&[job]).await;
    assert_eq!(books.deliveries, 5);
    world.close().await;
}
