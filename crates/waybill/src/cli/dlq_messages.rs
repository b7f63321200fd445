//! What lies on the dead-letter queues themselves: entries of dead letters, and messages that nobody could read.

use super::output::time;
use crate::wiring::{Operator, WiredQueue};
use chrono::{DateTime, Utc};
use serde_json::json;
use std::{collections::HashMap, time::Duration};
use waybill_core::ports::{MAX_BATCH, QueueName, ReceivedMessage};

/// Messages shown per queue.
const SHOWN: usize = 1_000;
/// Hidden from others while they are read; a command that dies half-way gives them back after this.
const HIDDEN: Duration = Duration::from_secs(30);
/// A queue of many servers may answer one request with nothing although there is something.
const WAIT: Duration = Duration::from_secs(1);

/// Shows the messages of every dead-letter queue. A queue whose messages can only be seen by receiving them shows its depth, and receives
/// when told to.
pub(super) async fn show(operator: &Operator, receive: bool, as_json: bool) -> anyhow::Result<()> {
    let queue = &operator.queue;
    for name in QueueName::ALL.into_iter().filter(|name| name.dead_letter().is_none()) {
        if let Some(local) = &queue.local {
            for m in local.peek(name, SHOWN as u32).await? {
                line(name, &m.id, reason(&m.attributes), m.receive_count, m.sent_at, &m.body, as_json);
            }
        } else if receive {
            for m in received(queue, name).await?.values() {
                line(name, &m.id, reason(&m.attributes), m.receive_count, m.sent_at, &m.body, as_json);
            }
        } else {
            let depth = queue.port.depth(name).await?;
            if as_json {
                println!("{}", json!({"queue": name.as_str(), "depth": depth.visible, "in_flight": depth.in_flight}));
            } else {
                println!("{}: {} message(s), {} in flight", name.as_str(), depth.visible, depth.in_flight);
            }
        }
    }
    if queue.local.is_none() && !receive && !as_json {
        println!("SQS shows a message only to who receives it: waybill dlq show --receive");
    }
    Ok(())
}

/// Receives what is there once, and puts it back.
async fn received(queue: &WiredQueue, name: QueueName) -> anyhow::Result<HashMap<String, ReceivedMessage>> {
    let mut seen = HashMap::new();
    while seen.len() < SHOWN {
        let messages = queue.port.receive(name, MAX_BATCH, WAIT, HIDDEN).await?;
        let before = seen.len();
        seen.extend(messages.into_iter().map(|m| (m.id.clone(), m)));
        if seen.len() == before {
            break;
        }
    }
    let back: Vec<_> = seen.values().map(|m| (m.receipt.clone(), Duration::ZERO)).collect();
    if !back.is_empty() {
        queue.port.change_visibility_batch(name, &back).await?;
    }
    Ok(seen)
}

fn reason(attributes: &[(String, String)]) -> &str {
    attributes.iter().find(|(name, _)| name == "reason").map_or("moved by the queue", |(_, value)| value.as_str())
}

fn line(queue: QueueName, id: &str, why: &str, receptions: u32, sent_at: DateTime<Utc>, body: &str, as_json: bool) {
    let (queue, sent_at) = (queue.as_str(), time(sent_at));
    if as_json {
        println!(
            "{}",
            json!({"queue": queue, "id": id, "reason": why, "receive_count": receptions, "sent_at": sent_at, "body": body})
        );
    } else {
        println!("{queue} {sent_at} {why}: {body}");
    }
}
