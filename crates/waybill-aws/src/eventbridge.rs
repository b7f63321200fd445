//! Events to an EventBridge bus.
//!
//! `PutEvents` answers 200 with failed entries, so each event has a result of its own. Nothing is retried here: a repeated event is a
//! second event with another id, and only the caller knows whether its readers can tell.

use crate::{
    batches::{Answer, settle},
    config::within,
    failure::{Failure, is_passing},
};
use aws_config::{SdkConfig, retry::RetryConfig};
use aws_sdk_eventbridge::{
    config::Builder,
    types::{PutEventsRequestEntry, PutEventsResultEntry},
};
use futures::FutureExt;
use std::{ops::Range, time::Duration};
use waybill_core::text::storable;

const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ENTRIES: usize = 10;
/// "Less than 1 MB" for the whole request, and so for one event (Amazon EventBridge user guide, "PutEvents entry size"). An SQS target
/// takes 1 MiB with the envelope around it, so the decimal reading leaves it room.
const MAX_BYTES: usize = 1_000_000 - 1;
const MAX_DETAIL_TYPE: usize = 128;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BusEvent {
    /// Who tells: `waybill`.
    pub source: String,
    /// What happened, at most 128 characters.
    pub detail_type: String,
    /// The text of a JSON object.
    pub detail: String,
}

impl BusEvent {
    /// As AWS counts: 14 for a time, then the texts. We name no resources, and no time either, but that rule once changed.
    fn bytes(&self) -> usize {
        14 + self.source.len() + self.detail_type.len() + self.detail.len()
    }

    fn check(&self) -> Result<(), BusError> {
        let refuse = |why: String| Err(BusError::Permanent(why));
        let characters = self.detail_type.chars().count();
        if self.source.is_empty() || self.detail_type.is_empty() {
            return refuse("source and detail-type must not be empty".into());
        }
        if characters > MAX_DETAIL_TYPE {
            return refuse(format!("the detail-type has {characters} characters, {MAX_DETAIL_TYPE} are allowed"));
        }
        if self.bytes() > MAX_BYTES {
            return refuse(format!("the event has {} bytes, {MAX_BYTES} are allowed", self.bytes()));
        }
        let is_object = self.detail.trim_start().starts_with('{')
            && serde_json::from_str::<serde::de::IgnoredAny>(&self.detail).is_ok();
        if is_object { Ok(()) } else { refuse("the detail is no JSON object".into()) }
    }
}

/// Why one event is not on the bus.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// Publish it again later.
    #[error("the bus did not take the event: {0}")]
    Temporary(String),
    /// This event, as it is, is never taken.
    #[error("the bus refuses the event: {0}")]
    Permanent(String),
}

/// One event bus ("Custom Event Bus - Classic").
pub struct EventBridgeBus {
    client: aws_sdk_eventbridge::Client,
    bus: String,
}

impl EventBridgeBus {
    /// `bus`: name or ARN.
    pub fn new(config: &SdkConfig, bus: impl Into<String>) -> Self {
        let settings = Builder::from(config).retry_config(RetryConfig::disabled()).timeout_config(within(TIMEOUT));
        Self { client: aws_sdk_eventbridge::Client::from_conf(settings.build()), bus: bus.into() }
    }

    /// Publishes any number of events. One result per event, in order: its id on the bus, or why it is not there.
    pub async fn publish(&self, events: &[BusEvent]) -> Vec<Result<String, BusError>> {
        let checked: Vec<_> = events.iter().map(BusEvent::check).collect();
        let good: Vec<&BusEvent> = events.iter().zip(&checked).filter(|(_, c)| c.is_ok()).map(|(e, _)| e).collect();
        let answers = settle(split(&good), |range| self.put(&good[range]).boxed()).await;
        let mut answers = answers.into_iter();
        let lost = || Err(BusError::Temporary("the event was not sent".into()));
        checked.into_iter().map(|check| check.and_then(|()| answers.next().unwrap_or_else(lost))).collect()
    }

    async fn put(&self, events: &[&BusEvent]) -> Answer<String, BusError> {
        let entry = |event: &&BusEvent| {
            PutEventsRequestEntry::builder()
                .event_bus_name(&self.bus)
                .source(&event.source)
                .detail_type(&event.detail_type)
                .detail(&event.detail)
                .build()
        };
        let entries = events.iter().map(entry).collect();
        match self.client.put_events().set_entries(Some(entries)).send().await {
            Ok(answer) => Answer::Entries(results(events.len(), answer.entries())),
            Err(error) => {
                let failure = Failure::of(&error);
                if failure.is(&["ValidationException", "RequestEntityTooLarge"]) {
                    return Answer::Refused(BusError::Permanent(failure.to_string()));
                }
                // The service, the way there, or our rights: the events are good.
                Answer::Entries(vec![Err(BusError::Temporary(failure.to_string())); events.len()])
            }
        }
    }
}

/// Requests of at most ten events and less than 1 MB.
fn split(events: &[&BusEvent]) -> Vec<Range<usize>> {
    let (mut out, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, event) in events.iter().enumerate() {
        let size = event.bytes();
        if index > start && (index - start == MAX_ENTRIES || bytes + size > MAX_BYTES) {
            out.push(start..index);
            (start, bytes) = (index, 0);
        }
        bytes += size;
    }
    if start < events.len() {
        out.push(start..events.len());
    }
    out
}

/// The answer's entries stand where the request's did. A list of another length answers nothing.
fn results(asked: usize, entries: &[PutEventsResultEntry]) -> Vec<Result<String, BusError>> {
    if entries.len() != asked {
        let why = format!("the answer has {} entries for {asked} events", entries.len());
        return vec![Err(BusError::Temporary(why)); asked];
    }
    entries.iter().map(result).collect()
}

fn result(entry: &PutEventsResultEntry) -> Result<String, BusError> {
    match (entry.error_code(), entry.event_id()) {
        (Some(code), _) => {
            let text = storable(&format!("{code}: {}", entry.error_message().unwrap_or_default()), 300);
            Err(if is_passing(code) { BusError::Temporary(text) } else { BusError::Permanent(text) })
        }
        (None, Some(id)) if !id.is_empty() => Ok(id.to_owned()),
        (None, _) => Err(BusError::Temporary("the answer has neither an id nor an error".into())),
    }
}

#[cfg(test)]
#[path = "eventbridge_tests.rs"]
mod tests;
