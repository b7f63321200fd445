//! Bodies of our own queues, which anybody with access to the queue can write.

use super::as_text;
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;
use waybill_core::message::{DeliveryMessage, JobMessage, Parsed, SCHEMA_VERSION, encode, parse};

pub(crate) const WORDS: &[&str] = &[
    "{\"v\":1,\"job\":\"",
    "{\"v\":1,\"delivery\":\"",
    "job_",
    "dlv_",
    "\"v\":2",
    "\"v\":0",
    "01jd0000000000000000000000",
    "7zzzzzzzzzzzzzzzzzzzzzzzzz",
];

pub(crate) fn check(input: &[u8]) {
    let Some(body) = as_text(input) else { return };
    one::<JobMessage>(body);
    one::<DeliveryMessage>(body);
}

fn one<T: Serialize + DeserializeOwned + PartialEq + Debug>(body: &str) {
    match parse::<T>(body) {
        Parsed::Message(message) => assert_eq!(parse::<T>(&encode(&message)), Parsed::Message(message)),
        Parsed::Newer(version) => assert!(version > SCHEMA_VERSION),
        Parsed::Malformed(reason) => assert!(!reason.is_empty()),
    }
}
