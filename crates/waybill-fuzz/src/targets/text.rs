//! Foreign texts on their way into rows and onto queues, ids, and trace contexts.

use super::{as_text, assert_storable};
use waybill_core::{
    ids::{DeliveryId, JobId, TenantId},
    ports::queue_quotas::is_xml_text,
    text::{sendable, storable},
    trace::Traceparent,
};

pub(crate) const WORDS: &[&str] = &[
    "\0",
    "\u{ffff}",
    "\u{b}",
    "\u{1f4e6}",
    "dlv_",
    "job_",
    "ten_",
    "01jd0000000000000000000000",
    "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
];

pub(crate) fn check(input: &[u8]) {
    let foreign = String::from_utf8_lossy(input);
    for max in [0, 7, 500] {
        let stored = storable(&foreign, max);
        assert_storable(&stored, max);
        assert_eq!(storable(&stored, max), stored);
    }
    let sent = sendable(&foreign);
    assert!(is_xml_text(&sent));
    assert_eq!(sendable(&sent), sent);
    assert!(sent.len() <= foreign.len() * 6, "each character becomes six at most");
    let Some(text) = as_text(input) else { return };
    ids(text);
    if let Some(trace) = Traceparent::parse(text) {
        assert_eq!(trace.as_str(), text);
    }
}

/// An id has one spelling.
fn ids(text: &str) {
    if let Ok(id) = text.parse::<JobId>() {
        assert_eq!(id.to_string(), text);
    }
    if let Ok(id) = text.parse::<DeliveryId>() {
        assert_eq!(id.to_string(), text);
    }
    if let Ok(id) = text.parse::<TenantId>() {
        assert_eq!(id.to_string(), text);
    }
}
