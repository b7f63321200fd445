//! Queues and a bucket for emulators and tests. Production uses the stacks in `infra/`, which also make alarms, keys and rights.

use crate::{AwsError, Topology, failure::Failure};
use aws_config::SdkConfig;
use aws_sdk_s3::types::{BucketLocationConstraint, CreateBucketConfiguration};
use aws_sdk_sqs::types::QueueAttributeName;
use std::collections::HashMap;

type Attributes = HashMap<QueueAttributeName, String>;

/// Makes the queues of `topology`, called `{prefix}-{name}`, and a bucket if one is named. Repeating it changes what differs.
///
/// For emulators and tests: it has no rights, alarms or keys to set, and no way back.
///
/// # Errors
/// [`AwsError`] that names what could not be made.
pub async fn provision(
    aws: &SdkConfig,
    topology: &Topology,
    prefix: &str,
    bucket: Option<&str>,
) -> Result<(), AwsError> {
    let client = aws_sdk_sqs::Client::new(aws);
    for (name, queue) in &topology.queues {
        // The dead-letter queue first: its source points at it.
        let dead_name = format!("{prefix}-{name}{}", topology.dead_letter.suffix);
        let dead = common(topology, topology.dead_letter.retention_s);
        let dead_arn = make_queue(&client, &dead_name, dead).await?;
        let mut source = common(topology, queue.retention_s);
        source.insert(QueueAttributeName::VisibilityTimeout, queue.visibility_timeout_s.to_string());
        let redrive = serde_json::json!({
            "deadLetterTargetArn": dead_arn,
            "maxReceiveCount": queue.max_receive_count,
        });
        source.insert(QueueAttributeName::RedrivePolicy, redrive.to_string());
        make_queue(&client, &format!("{prefix}-{name}"), source).await?;
    }
    match bucket {
        Some(bucket) => make_bucket(aws, bucket).await,
        None => Ok(()),
    }
}

fn common(topology: &Topology, retention_s: u64) -> Attributes {
    HashMap::from([
        (QueueAttributeName::MessageRetentionPeriod, retention_s.to_string()),
        (QueueAttributeName::MaximumMessageSize, topology.maximum_message_bytes.to_string()),
        (QueueAttributeName::ReceiveMessageWaitTimeSeconds, topology.receive_wait_s.to_string()),
        (QueueAttributeName::SqsManagedSseEnabled, "true".into()),
    ])
}

/// Made without attributes and then given them: `CreateQueue` refuses a queue that is there and differs. Returns its ARN.
async fn make_queue(client: &aws_sdk_sqs::Client, name: &str, attributes: Attributes) -> Result<String, AwsError> {
    let problem = |problem: String| AwsError::Queue { name: name.to_owned(), problem };
    let made = client.create_queue().queue_name(name).send().await;
    let made = made.map_err(|error| problem(format!("could not be made: {}", Failure::of(&error))))?;
    let url = made.queue_url.ok_or_else(|| problem("CreateQueue answered without an address".into()))?;
    let set = client.set_queue_attributes().queue_url(&url).set_attributes(Some(attributes)).send().await;
    set.map_err(|error| problem(format!("attributes could not be set: {}", Failure::of(&error))))?;
    let asked =
        client.get_queue_attributes().queue_url(&url).attribute_names(QueueAttributeName::QueueArn).send().await;
    let asked = asked.map_err(|error| problem(format!("could not be asked: {}", Failure::of(&error))))?;
    let arn = asked.attributes.unwrap_or_default().remove(&QueueAttributeName::QueueArn);
    arn.ok_or_else(|| problem("has no ARN".into()))
}

async fn make_bucket(aws: &SdkConfig, bucket: &str) -> Result<(), AwsError> {
    // Emulators have no DNS names for buckets.
    let settings = aws_sdk_s3::config::Builder::from(aws).force_path_style(aws.endpoint_url().is_some()).build();
    let mut request = aws_sdk_s3::Client::from_conf(settings).create_bucket().bucket(bucket);
    // The one region that refuses to be named.
    if let Some(region) = aws.region().map(AsRef::as_ref).filter(|region| *region != "us-east-1") {
        let place = CreateBucketConfiguration::builder().location_constraint(BucketLocationConstraint::from(region));
        request = request.create_bucket_configuration(place.build());
    }
    match request.send().await.map_err(|error| Failure::of(&error)) {
        Err(failure) if !failure.is(&["BucketAlreadyOwnedByYou"]) => {
            Err(AwsError::Config(format!("bucket {bucket} could not be made: {failure}")))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}
