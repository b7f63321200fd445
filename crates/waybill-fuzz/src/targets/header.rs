//! Headers of requests: the idempotency key, the trace context, the request's id.

use hyper::{
    HeaderMap,
    header::{HeaderName, HeaderValue},
};
use waybill_api::headers::{idempotency_key, request_id, traceparent};

pub(crate) const WORDS: &[&str] =
    &["\"", "\\\"", "\\\\", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-", "-01", "ff-", "req_"];

fn with(name: &'static str, value: HeaderValue) -> HeaderMap {
    HeaderMap::from_iter([(HeaderName::from_static(name), value)])
}

pub(crate) fn check(input: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(input) else { return };
    if let Ok(Some(key)) = idempotency_key(&with("idempotency-key", value.clone())) {
        assert!((1..=255).contains(&key.len()));
        assert!(key.bytes().all(|b| b.is_ascii_graphic() || b == b' '), "{key:?}");
        // The quoted and the bare spelling of a key are one key.
        let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
        let quoted = HeaderValue::from_str(&quoted).expect("printable");
        assert_eq!(idempotency_key(&with("idempotency-key", quoted)).ok().flatten(), Some(key));
    }
    if let Some(trace) = traceparent(&with("traceparent", value.clone())) {
        assert_eq!((trace.as_str().len(), trace.trace_id().len()), (55, 32));
        assert!(trace.as_str().is_ascii());
    }
    let id = request_id(&with("x-request-id", value));
    assert!((1..=200).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic()), "{id:?}");
}
