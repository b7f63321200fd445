//! The adapters against an emulator of AWS, by the environment: `AWS_ENDPOINT_URL`, dummy keys, a region. Every test has names of its own.

#![allow(clippy::disallowed_methods, reason = "tests run on the real clock and make names by chance")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use aws_config::SdkConfig;
use aws_sdk_sqs::types::QueueAttributeName;
use serde_json::Value;
use std::time::Duration;
use waybill_aws::{BusEvent, EventBridgeBus, SnsAlerts, SqsConfig, SqsQueue, Topology, provision};
use waybill_core::{
    policy::Timings,
    ports::{Alert, AlertCause, AlertSink, OutgoingMessage, Queue, QueueName},
};
use waybill_testkit::contract;

struct World {
    aws: SdkConfig,
    prefix: String,
    queue: SqsQueue,
}

async fn aws() -> SdkConfig {
    assert!(
        std::env::var("AWS_ENDPOINT_URL").is_ok(),
        "AWS_ENDPOINT_URL must name an emulator: cargo xtask test --aws"
    );
    waybill_aws::load(None).await
}

fn a_name() -> String {
    format!("t-{}", uuid::Uuid::new_v4().simple())
}

async fn world_of(topology: &Topology) -> World {
    let (aws, prefix) = (aws().await, a_name());
    provision(&aws, topology, &prefix, None).await.unwrap();
    let config = SqsConfig { expected: Some(Timings::default()), ..SqsConfig::new(&prefix) };
    let queue = SqsQueue::connect(&aws, config).await.unwrap();
    World { aws, prefix, queue }
}

async fn world() -> World {
    world_of(&Topology::load().unwrap()).await
}

impl World {
    async fn arn(&self, queue: QueueName) -> String {
        let client = aws_sdk_sqs::Client::new(&self.aws);
        let name = format!("{}-{}", self.prefix, queue.as_str());
        let url = client.get_queue_url().queue_name(name).send().await.unwrap().queue_url.unwrap();
        let asked = client.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::QueueArn);
        asked.send().await.unwrap().attributes.unwrap().remove(&QueueAttributeName::QueueArn).unwrap()
    }

    async fn first_body(&self, queue: QueueName) -> Value {
        let wait = Duration::from_secs(10);
        let got = self.queue.receive(queue, 10, wait, Duration::from_secs(60)).await.unwrap();
        assert_eq!(got.len(), 1, "from {}", queue.as_str());
        serde_json::from_str(&got[0].body).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs an emulator: cargo xtask test --aws"]
async fn it_keeps_the_contract_of_the_queue() {
    let topology = Topology::load().unwrap();
    let world = world_of(&topology).await;
    contract::queue::run(contract::queue::Subject {
        queue: &world.queue,
        max_receive_count: topology.queues["main"].max_receive_count,
        tick: Duration::from_secs(1),
        reports_stale_receipts: true,
        // MiniStack says ReceiptHandleIsInvalid for what is gone. That is a stale receipt then, which nobody repeats.
        forgives_second_delete: false,
        // MiniStack hides it again. The code MessageNotInflight of SQS is proved in `faults`.
        refuses_not_in_flight: false,
        // Not in SQS's attributes.
        oldest_age: false,
        // MiniStack takes groups and doesn't look at them. That each entry has one is proved in `faults`.
        fair: false,
    })
    .await;
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask test --aws"]
async fn sqs_02_b_a_queue_with_the_old_limit_takes_what_fits_it() {
    let topology = Topology { maximum_message_bytes: 262_144, ..Topology::load().unwrap() };
    let world = world_of(&topology).await;
    let message = |n: usize| OutgoingMessage { body: "x".repeat(n), ..Default::default() };
    let before = world.queue.requests();
    let results =
        world.queue.send_batch(QueueName::Main, &[message(200_000), message(200_000), message(300_000)]).await;
    let results = results.unwrap();
    assert_eq!((&results[0], &results[1]), (&Ok(()), &Ok(())));
    assert!(results[2].as_ref().unwrap_err().to_string().contains("262144"));
    assert_eq!(world.queue.requests() - before, 2);
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask test --aws"]
async fn twenty_five_messages_cost_three_requests_to_send_and_three_to_delete() {
    let world = world().await;
    let messages: Vec<_> = (0..25).map(|n| OutgoingMessage { body: format!("{n}"), ..Default::default() }).collect();
    let before = world.queue.requests();
    assert_eq!(world.queue.send_batch(QueueName::Main, &messages).await.unwrap(), vec![Ok(()); 25]);
    assert_eq!(world.queue.requests() - before, 3);
    let mut receipts = Vec::new();
    while receipts.len() < 25 {
        let got = world.queue.receive(QueueName::Main, 10, Duration::ZERO, Duration::from_secs(60)).await.unwrap();
        assert!(!got.is_empty());
        receipts.extend(got.into_iter().map(|message| message.receipt));
    }
    let before = world.queue.requests();
    assert_eq!(world.queue.delete_batch(QueueName::Main, &receipts).await.unwrap(), vec![Ok(()); 25]);
    assert_eq!(world.queue.requests() - before, 3);
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask test --aws"]
async fn provisioning_again_changes_what_differs_and_nothing_else() {
    let (aws, prefix, bucket) = (aws().await, a_name(), a_name());
    let missing = SqsQueue::connect(&aws, SqsConfig::new(&prefix)).await.err().unwrap().to_string();
    assert!(missing.contains(&format!("queue {prefix}-main: does not exist")), "{missing}");
    let mut topology = Topology::load().unwrap();
    topology.queues.get_mut("main").unwrap().visibility_timeout_s = 30;
    provision(&aws, &topology, &prefix, Some(&bucket)).await.unwrap();
    let queue = SqsQueue::connect(&aws, SqsConfig::new(&prefix)).await.unwrap();
    let message = OutgoingMessage { body: "kept".into(), ..Default::default() };
    assert_eq!(queue.send_batch(QueueName::Main, &[message]).await.unwrap(), [Ok(())]);
    provision(&aws, &Topology::load().unwrap(), &prefix, Some(&bucket)).await.unwrap();
    assert_eq!(queue.depth(QueueName::Main).await.unwrap().visible, 1);
    let client = aws_sdk_sqs::Client::new(&aws);
    let url = client.get_queue_url().queue_name(format!("{prefix}-main")).send().await.unwrap().queue_url.unwrap();
    let all =
        client.get_queue_attributes().queue_url(url).attribute_names(QueueAttributeName::All).send().await.unwrap();
    let all = all.attributes.unwrap();
    let value = |name| all.get(&name).map(String::as_str);
    assert_eq!(value(QueueAttributeName::VisibilityTimeout), Some("180"));
    assert_eq!(value(QueueAttributeName::MessageRetentionPeriod), Some("345600"));
    assert_eq!(value(QueueAttributeName::SqsManagedSseEnabled), Some("true"));
    let s3 = aws_sdk_s3::config::Builder::from(&aws).force_path_style(true).build();
    aws_sdk_s3::Client::from_conf(s3).head_bucket().bucket(bucket).send().await.unwrap();
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask test --aws"]
async fn an_event_goes_over_the_bus_and_its_rule_to_the_intake_queue() {
    let world = world().await;
    let client = aws_sdk_eventbridge::Client::new(&world.aws);
    client.create_event_bus().name(&world.prefix).send().await.unwrap();
    let pattern = "{\"source\":[\"shop\"]}";
    client.put_rule().name("orders").event_bus_name(&world.prefix).event_pattern(pattern).send().await.unwrap();
    let target = aws_sdk_eventbridge::types::Target::builder().id("intake").arn(world.arn(QueueName::Intake).await);
    let put = client.put_targets().rule("orders").event_bus_name(&world.prefix).targets(target.build().unwrap());
    assert_eq!(put.send().await.unwrap().failed_entry_count(), 0);
    let event = |source: &str| BusEvent {
        source: source.into(),
        detail_type: "order.placed".into(),
        detail: "{\"order\":\"17\"}".into(),
    };
    let results = EventBridgeBus::new(&world.aws, &world.prefix).publish(&[event("other"), event("shop")]).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let body = world.first_body(QueueName::Intake).await;
    assert_eq!((&body["source"], &body["detail-type"]), (&"shop".into(), &"order.placed".into()));
    assert_eq!(body["detail"]["order"], "17");
    assert_eq!(body["id"].as_str(), results[1].as_deref().ok());
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask test --aws"]
async fn an_alert_goes_over_its_topic_to_a_subscribed_queue() {
    let world = world().await;
    let client = aws_sdk_sns::Client::new(&world.aws);
    let topic = client.create_topic().name(&world.prefix).send().await.unwrap().topic_arn.unwrap();
    let queue = world.arn(QueueName::Feedback).await;
    client.subscribe().topic_arn(&topic).protocol("sqs").endpoint(queue).send().await.unwrap();
    let alert = Alert {
        cause: AlertCause::DeadLetter,
        key: "expired".into(),
        count: 3,
        message: "3 new dead letter(s): expired".into(),
        command: "waybill dlq list --reason expired".into(),
    };
    SnsAlerts::new(&world.aws, &topic).raise(&alert).await;
    let body = world.first_body(QueueName::Feedback).await;
    assert_eq!(body["Subject"], "Waybill: dead_letter (3 in all) expired");
    let text = body["Message"].as_str().unwrap();
    assert!(text.starts_with(&alert.message) && text.contains(&alert.command), "{text}");
}
