//! What travels on the queues: ids and a schema version, nothing that a person could read.

use crate::ids::{DeliveryId, JobId};
use serde::{Deserialize, Serialize};

/// Version of the bodies written by this build.
pub const SCHEMA_VERSION: u32 = 1;

/// A body on the main queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobMessage {
    pub v: u32,
    pub job: JobId,
}

/// A body on the delivery queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryMessage {
    pub v: u32,
    pub delivery: DeliveryId,
}

/// What a received body turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed<T> {
    Message(T),
    /// Written by a newer build: it goes back to the queue for one that understands it (a rolling deploy runs two versions).
    Newer(u32),
    /// Garbage; belongs into the dead-letter queue with this reason.
    Malformed(String),
}

impl JobMessage {
    pub fn new(job: JobId) -> Self {
        Self { v: SCHEMA_VERSION, job }
    }
}

impl DeliveryMessage {
    pub fn new(delivery: DeliveryId) -> Self {
        Self { v: SCHEMA_VERSION, delivery }
    }
}

/// The text that goes onto a queue.
pub fn encode<T: Serialize>(message: &T) -> String {
    // Ids and a number: serialising them can't fail.
    serde_json::to_string(message).unwrap_or_default()
}

/// Reads a body; the version is looked at first, so that a newer body may have any other shape.
pub fn parse<T: for<'de> Deserialize<'de>>(body: &str) -> Parsed<T> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    match serde_json::from_str::<Version>(body) {
        Ok(Version { v }) if v > SCHEMA_VERSION => Parsed::Newer(v),
        Ok(_) => serde_json::from_str(body).map_or_else(|e| Parsed::Malformed(e.to_string()), Parsed::Message),
        Err(e) => Parsed::Malformed(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn sqs_08_garbage_is_malformed_and_a_newer_version_is_told_from_it() {
        for body in [
            "",
            "{\"delivery_id\":",
            "null",
            "[]",
            "{\"v\":1}",
            "{\"v\":1,\"delivery\":\"job_00000000000000000000000000\"}",
        ] {
            assert!(matches!(parse::<DeliveryMessage>(body), Parsed::Malformed(_)), "{body}");
        }
        assert_eq!(parse::<DeliveryMessage>("{\"v\":999,\"what\":[]}"), Parsed::Newer(999));
    }

    #[test]
    fn bodies_are_read_back() {
        let message = DeliveryMessage::new(DeliveryId(Uuid::from_u128(5)));
        assert_eq!(parse(&encode(&message)), Parsed::Message(message));
    }
}
