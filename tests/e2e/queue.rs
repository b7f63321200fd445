//! What arrives on the queues and shouldn't.

use crate::support::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqs_08_poison_goes_to_the_dead_letter_queue_and_its_neighbours_go_on() {
    let world = World::new().await;
    let mut api = world.start("api").await;
    let mut router = world.start("router").await;
    let job = world.accept(&world.note("e1", "s1", 1)).await;
    world.until("the good message", "SELECT count(*) FROM queue_messages WHERE queue = 'delivery'", |n| n == 1).await;
    for body in ["{\"delivery_id\":", "null", "[]", "{\"v\":999,\"what\":1}"] {
        sqlx::query("INSERT INTO queue_messages (queue, body) VALUES ('delivery', $1)")
            .bind(body)
            .execute(&world.db.pool)
            .await
            .unwrap();
    }
    api.kill();
    router.kill();
    let process = world.start("all").await;
    world.all_sent_once(&[job]).await;
    world.until("poison", "SELECT count(*) FROM queue_messages WHERE queue = 'delivery-dead'", |n| n == 3).await;
    let newer = world.count("SELECT count(*) FROM queue_messages WHERE queue = 'delivery' AND body LIKE '%999%'").await;
    assert_eq!(newer, 1, "a newer build's message waits for a newer build");
    assert!(!process.log().contains("delivery_id\\\":"), "no body in the log");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_comes_three_times_sends_once() {
    let world = World::new().await;
    let mut router = world.start("router").await;
    let mut api = world.start("api").await;
    let job = world.accept(&world.note("e1", "s1", 5)).await;
    world.until("messages", "SELECT count(*) FROM queue_messages WHERE queue = 'delivery'", |n| n == 5).await;
    sqlx::query("INSERT INTO queue_messages (queue, body, group_id) SELECT queue, body, group_id FROM queue_messages, generate_series(1, 2) WHERE queue = 'delivery'").execute(&world.db.pool).await.unwrap();
    sqlx::query("INSERT INTO queue_messages (queue, body) VALUES ('main', $1)")
        .bind(format!("{{\"v\":1,\"job\":\"{job}\"}}"))
        .execute(&world.db.pool)
        .await
        .unwrap();
    router.kill();
    api.kill();
    let _all = world.start("all").await;
    let _worker = world.start("worker").await;
    let books = world.all_sent_once(&[job]).await;
    assert_eq!(books.deliveries, 5);
    world.close().await;
}
