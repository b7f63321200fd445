//! Start-up: where each queue is, and whether it is what the application counts on.

use super::{SqsConfig, SqsQueue, TIMEOUT, timeout};
use crate::{AwsError, failure::Failure};
use aws_sdk_sqs::types::QueueAttributeName;
use futures::future::join_all;
use serde_json::Value;
use std::collections::HashMap;
use waybill_core::{
    policy::Timings,
    ports::{MAX_BATCH_BYTES, QueueName},
};

/// A queue as it was found.
pub(super) struct Address {
    pub(super) url: String,
    /// Its own limit of a message (`MaximumMessageSize`). Queues made before August 2025, or by templates of that time, have 262,144.
    pub(super) max_bytes: usize,
}

/// What a queue says of itself, as far as anything depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Found {
    max_bytes: Option<usize>,
    visibility_s: Option<u64>,
    retention_s: Option<u64>,
    /// Name of the dead-letter queue, and `maxReceiveCount`.
    redrive: Option<(String, Option<u64>)>,
}

pub(super) async fn find_all(queue: &SqsQueue, config: &SqsConfig) -> Result<HashMap<QueueName, Address>, AwsError> {
    let asked = join_all(QueueName::ALL.map(|name| find(queue, &config.prefix, name))).await;
    // Of several errors the first in the queues' order, whichever came first.
    let found: Vec<_> = asked.into_iter().collect::<Result<_, _>>()?;
    let described: HashMap<QueueName, &Found> = found.iter().map(|(name, _, found)| (*name, found)).collect();
    for (name, _, found) in &found {
        let dead = name.dead_letter().and_then(|dead| described.get(&dead));
        check(*name, &config.prefix, found, dead.copied())?;
        if let Some(expected) = &config.expected {
            for difference in differences(*name, found, expected) {
                tracing::warn!(queue = full_name(&config.prefix, *name), difference, "sqs.queue_differs");
            }
        }
    }
    let address = |(name, url, found): (QueueName, String, Found)| {
        (name, Address { url, max_bytes: found.max_bytes.unwrap_or(MAX_BATCH_BYTES).min(MAX_BATCH_BYTES) })
    };
    Ok(found.into_iter().map(address).collect())
}

fn full_name(prefix: &str, name: QueueName) -> String {
    format!("{prefix}-{}", name.as_str())
}

fn problem(prefix: &str, name: QueueName, problem: impl Into<String>) -> AwsError {
    AwsError::Queue { name: full_name(prefix, name), problem: problem.into() }
}

async fn find(queue: &SqsQueue, prefix: &str, name: QueueName) -> Result<(QueueName, String, Found), AwsError> {
    use QueueAttributeName::{MaximumMessageSize, MessageRetentionPeriod, RedrivePolicy, VisibilityTimeout};
    queue.count("GetQueueUrl");
    let request = queue.client.get_queue_url().queue_name(full_name(prefix, name));
    let answer = request.customize().config_override(timeout(TIMEOUT)).send().await;
    let url = answer
        .map_err(|error| problem(prefix, name, advice(&Failure::of(&error), "sqs:GetQueueUrl")))?
        .queue_url
        .ok_or_else(|| problem(prefix, name, "GetQueueUrl answered without an address"))?;
    let attributes =
        attributes(queue, &url, &[MaximumMessageSize, MessageRetentionPeriod, RedrivePolicy, VisibilityTimeout])
            .await
            .map_err(|failure| problem(prefix, name, advice(&failure, "sqs:GetQueueAttributes")))?;
    Ok((name, url, read(&attributes)))
}

/// What a person has to do about it.
fn advice(failure: &Failure, right: &str) -> String {
    if failure.is(&["NonExistentQueue", "QueueDoesNotExist"]) {
        return "does not exist in this account and region. Deploy the queues' stack, or correct the queues' prefix, \
                AWS_REGION or AWS_ENDPOINT_URL"
            .into();
    }
    if failure.is(&["AccessDenied", "AccessDeniedException"]) {
        return format!("may not be read ({failure}). Give this role the right to {right}");
    }
    format!("could not be asked: {failure}")
}

pub(super) async fn attributes(
    queue: &SqsQueue,
    url: &str,
    names: &[QueueAttributeName],
) -> Result<HashMap<QueueAttributeName, String>, Failure> {
    queue.count("GetQueueAttributes");
    let request = queue.client.get_queue_attributes().queue_url(url).set_attribute_names(Some(names.to_vec()));
    let answer = request.customize().config_override(timeout(TIMEOUT)).send().await;
    Ok(answer.map_err(|error| Failure::of(&error))?.attributes.unwrap_or_default())
}

fn read(attributes: &HashMap<QueueAttributeName, String>) -> Found {
    let number = |name| attributes.get(&name).and_then(|text: &String| text.parse::<u64>().ok());
    Found {
        max_bytes: number(QueueAttributeName::MaximumMessageSize).and_then(|n| usize::try_from(n).ok()),
        visibility_s: number(QueueAttributeName::VisibilityTimeout),
        retention_s: number(QueueAttributeName::MessageRetentionPeriod),
        redrive: attributes.get(&QueueAttributeName::RedrivePolicy).and_then(|text| read_redrive(text)),
    }
}

fn read_redrive(text: &str) -> Option<(String, Option<u64>)> {
    let policy: Value = serde_json::from_str(text).ok()?;
    let target = policy["deadLetterTargetArn"].as_str()?.rsplit(':').next()?.to_owned();
    // A number, or a number as text.
    let count = &policy["maxReceiveCount"];
    Some((target, count.as_u64().or_else(|| count.as_str()?.parse().ok())))
}

/// What makes messages vanish or come back for ever.
fn check(name: QueueName, prefix: &str, found: &Found, dead: Option<&Found>) -> Result<(), AwsError> {
    let Some(dead_name) = name.dead_letter().map(|dead| full_name(prefix, dead)) else { return Ok(()) };
    let Some((target, _)) = &found.redrive else {
        let text =
            format!("has no RedrivePolicy: a message that kills its worker comes back for ever. Set {dead_name}");
        return Err(problem(prefix, name, text));
    };
    if *target != dead_name {
        return Err(problem(
            prefix,
            name,
            format!("sends its dead letters to {target}; nobody looks there. Set {dead_name}"),
        ));
    }
    // A dead letter keeps the time of its first sending: with equal times it is gone soon after it arrives.
    match (found.retention_s, dead.and_then(|dead| dead.retention_s)) {
        (Some(own), Some(dead)) if dead <= own => Err(problem(
            prefix,
            name,
            format!(
                "keeps messages for {own} s and {dead_name} for {dead} s: make the latter longer (1209600 s at most)"
            ),
        )),
        _ => Ok(()),
    }
}

/// What works, but not as planned.
fn differences(name: QueueName, found: &Found, expected: &Timings) -> Vec<String> {
    let is_dead = name.dead_letter().is_none();
    let retention = if is_dead { expected.dead_letter_retention } else { expected.queue_retention };
    let redrive_count = found.redrive.as_ref().and_then(|(_, count)| *count);
    let rows = [
        ("VisibilityTimeout", found.visibility_s.filter(|_| !is_dead), expected.visibility_timeout.as_secs()),
        ("MessageRetentionPeriod", found.retention_s, retention.as_secs()),
        ("maxReceiveCount", redrive_count, u64::from(expected.max_receive_count)),
        ("MaximumMessageSize", found.max_bytes.map(|n| n as u64), MAX_BATCH_BYTES as u64),
    ];
    let differs = |(what, is, wanted): (&str, Option<u64>, u64)| {
        let is = is.filter(|is| *is != wanted)?;
        Some(format!("{what} is {is}, the application expects {wanted}"))
    };
    rows.into_iter().filter_map(differs).collect()
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
