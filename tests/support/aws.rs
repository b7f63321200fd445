//! AWS mode of the black-box tests (`WAYBILL_TEST_AWS=1`): the queues and the bucket of a world's own at `AWS_ENDPOINT_URL`, where an
//! emulator listens, and a gate in front of its SQS.
//!
//! `WAYBILL_TEST_FUNCTION` names a renderer's function that is there already, `WAYBILL_TEST_BUCKET` the bucket that it writes to: one
//! function serves all tests, and keys are made of ids. Without them documents are rendered by the worker and kept in S3.

use super::sqs_gate::SqsGate;
use serde_json::{Value, json};
use uuid::Uuid;
use waybill_aws::{SqsConfig, SqsQueue, Topology};

const REGION: &str = "eu-central-1";

pub struct AwsUnderTest {
    pub gate: SqsGate,
    prefix: String,
    bucket: String,
    endpoint: String,
    function: Option<String>,
}

impl AwsUnderTest {
    /// `None` in local mode.
    pub async fn start() -> Option<Self> {
        std::env::var("WAYBILL_TEST_AWS").ok().filter(|value| value == "1")?;
        let endpoint = std::env::var("AWS_ENDPOINT_URL").expect("WAYBILL_TEST_AWS=1 needs AWS_ENDPOINT_URL");
        let prefix = format!("t-{}", Uuid::now_v7().simple());
        let function = std::env::var("WAYBILL_TEST_FUNCTION").ok();
        let bucket = match (&function, std::env::var("WAYBILL_TEST_BUCKET")) {
            (Some(_), Ok(bucket)) => bucket,
            (Some(_), Err(_)) => {
                panic!("WAYBILL_TEST_FUNCTION needs WAYBILL_TEST_BUCKET, which the function writes to")
            }
            (None, _) => prefix.clone(),
        };
        let topology = Topology::load().expect("infra/topology.json");
        let aws = waybill_aws::load(Some(REGION.into())).await;
        waybill_aws::provision(&aws, &topology, &prefix, Some(&bucket)).await.expect("makes queues and a bucket");
        Some(Self { gate: SqsGate::start(&endpoint, &prefix).await, prefix, bucket, endpoint, function })
    }

    /// What `infra/emulator/deploy.ts` has deployed: its queues, bucket, function.
    pub async fn deployed(stack: &Value) -> Self {
        let endpoint = std::env::var("AWS_ENDPOINT_URL").expect("the deployed stacks are at AWS_ENDPOINT_URL");
        let text = |name: &str| stack[name].as_str().unwrap_or_else(|| panic!("{name} in {stack}")).to_owned();
        let prefix = text("prefix");
        let gate = SqsGate::start(&endpoint, &prefix).await;
        Self { gate, prefix, bucket: text("bucket"), endpoint, function: Some(text("function")) }
    }

    /// A queue of the test's own, past the gate.
    pub async fn queue(&self) -> SqsQueue {
        let aws = waybill_aws::load(Some(REGION.into())).await;
        SqsQueue::connect(&aws, SqsConfig::new(&self.prefix)).await.expect("finds the queues")
    }

    /// A bus whose rule leads events of a source to the intake queue. Repeating it changes nothing.
    pub async fn bus(&self, source: &str) -> String {
        let (bus, queue) = (&self.prefix, format!("arn:aws:sqs:{REGION}:000000000000:{}-intake", self.prefix));
        let pattern = json!({"source": [source]}).to_string();
        for (operation, body) in [
            ("CreateEventBus", json!({"Name": bus})),
            ("PutRule", json!({"Name": "intake", "EventBusName": bus, "EventPattern": pattern, "State": "ENABLED"})),
            ("PutTargets", json!({"Rule": "intake", "EventBusName": bus, "Targets": [{"Id": "1", "Arn": queue}]})),
        ] {
            let answer = reqwest::Client::new()
                .post(&self.endpoint)
                .header("X-Amz-Target", format!("AWSEvents.{operation}"))
                .header("Content-Type", "application/x-amz-json-1.1")
                .header(
                    "Authorization",
                    format!("AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/events/aws4_request"),
                )
                .body(body.to_string())
                .send()
                .await
                .expect("the emulator answers");
            let status = answer.status();
            let words = answer.text().await.unwrap_or_default();
            assert!(status.is_success() || words.contains("AlreadyExists"), "{operation}: {status} {words}");
        }
        bus.clone()
    }

    /// Publishes to an SNS topic, as SES does.
    pub async fn publish(&self, topic: &str, message: &str) {
        let answer = reqwest::Client::new()
            .post(&self.endpoint)
            .header("Authorization", format!("AWS4-HMAC-SHA256 Credential=test/20260101/{REGION}/sns/aws4_request"))
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(format!(
                "Action=Publish&Version=2010-03-31&TopicArn={}&Message={}",
                form_encoded(topic),
                form_encoded(message)
            ))
            .send()
            .await
            .expect("the emulator answers");
        assert!(answer.status().is_success(), "{}", answer.text().await.unwrap_or_default());
    }

    /// What a process needs to find the queues.
    pub fn queue_env(&self) -> Vec<(&'static str, String)> {
        vec![
            ("WAYBILL_QUEUE", "sqs".into()),
            ("WAYBILL_SQS_PREFIX", self.prefix.clone()),
            ("AWS_REGION", REGION.into()),
            ("AWS_ACCESS_KEY_ID", "test".into()),
            ("AWS_SECRET_ACCESS_KEY", "test".into()),
            ("AWS_ENDPOINT_URL", self.endpoint.clone()),
        ]
    }

    /// What a role needs.
    pub fn env(&self) -> Vec<(&'static str, String)> {
        let mut env = self.queue_env();
        env.extend([
            ("WAYBILL_OBJECTS", "s3".into()),
            ("WAYBILL_BUCKET", self.bucket.clone()),
            // SQS waits in whole seconds.
            ("WAYBILL_QUEUE_WAIT_MS", "1000".into()),
        ]);
        if let Some(function) = &self.function {
            env.extend([("WAYBILL_RENDERER", "lambda".into()), ("WAYBILL_RENDERER_FUNCTION", function.clone())]);
        }
        env
    }
}

/// Every octet but letters and digits as `%XX`.
fn form_encoded(text: &str) -> String {
    let octet = |byte: u8| if byte.is_ascii_alphanumeric() { char::from(byte).into() } else { format!("%{byte:02X}") };
    text.bytes().map(octet).collect()
}
