//! Request headers of ours: content type, Idempotency-Key, X-Request-Id.

#![expect(clippy::disallowed_methods, reason = "a request's id is for the log; nothing depends on its value")]

use crate::problem::{Code, Problem};
use hyper::{HeaderMap, header::CONTENT_TYPE};
use uuid::Uuid;
use waybill_core::trace::{TRACEPARENT, Traceparent};

/// The name of the request id header, in and out.
pub const REQUEST_ID: &str = "x-request-id";
const MAX_REQUEST_ID: usize = 128;
const MAX_IDEMPOTENCY_KEY: usize = 255;

/// The caller's request id when it is harmless, else a new one. It goes into logs, answers and queue attributes, so only characters that
/// all of them take are passed on: ASCII letters, digits and `._-:+/=`.
pub fn request_id(headers: &HeaderMap) -> String {
    let harmless = |text: &&str| {
        (1..=MAX_REQUEST_ID).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-:+/=".contains(&b))
    };
    match headers.get(REQUEST_ID).and_then(|value| value.to_str().ok()).filter(harmless) {
        Some(id) => id.to_owned(),
        None => Uuid::now_v7().to_string(),
    }
}

/// The caller's trace context. One that is wrong, or of which there are several, is none.
pub fn traceparent(headers: &HeaderMap) -> Option<Traceparent> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    value.to_str().ok().and_then(Traceparent::parse)
}

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventMedia {
    One,
    Batch,
}

/// Reads Content-Type of `POST /events`.
///
/// # Errors
/// 415 when it is missing, another type, or names a charset other than UTF-8.
pub fn event_media(headers: &HeaderMap) -> Result<EventMedia, Problem> {
    const DETAIL: &str = "send `Content-Type: application/json` or `application/cloudevents+json` for one event, \
                          `application/cloudevents-batch+json` for an array of them; the charset is UTF-8";
    let refused = || Problem::new(Code::UnsupportedMediaType, DETAIL);
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return Err(refused()) };
    let text = value.to_str().map_err(|_| refused())?.to_ascii_lowercase();
    let mut parts = text.split(';').map(str::trim);
    let media = match parts.next() {
        Some("application/json" | "application/cloudevents+json") => EventMedia::One,
        Some("application/cloudevents-batch+json") => EventMedia::Batch,
        Some(_) | None => return Err(refused()),
    };
    for parameter in parts {
        if let Some(charset) = parameter.strip_prefix("charset=")
            && charset.trim_matches('"') != "utf-8"
        {
            return Err(refused());
        }
    }
    Ok(media)
}

/// The idempotency key without its quotes: `"abc"` (a String of RFC 8941 section 3.3.3, as the draft asks) and `abc` (as real clients
/// send it) are the same key.
///
/// # Errors
/// 400 when it is repeated, empty, longer than 255, or has other characters than printable ASCII.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let refused = || {
        let detail = format!("1 to {MAX_IDEMPOTENCY_KEY} printable ASCII characters, bare or quoted, in one header");
        Problem::new(Code::InvalidIdempotencyKey, detail)
    };
    if values.next().is_some() {
        return Err(refused());
    }
    let text = value.to_str().map_err(|_| refused())?.trim();
    let key = match text.strip_prefix('"') {
        Some(rest) => unquote(rest).ok_or_else(refused)?,
        None => text.to_owned(),
    };
    let fits = (1..=MAX_IDEMPOTENCY_KEY).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    if fits { Ok(Some(key)) } else { Err(refused()) }
}

/// The rest of a quoted string after its first quote; nothing may follow the closing one.
fn unquote(rest: &str) -> Option<String> {
    let mut out = String::with_capacity(rest.len());
    let mut chars = rest.chars();
    loop {
        match chars.next()? {
            '"' => return chars.next().is_none().then_some(out),
            '\\' => out.push(chars.next().filter(|c| matches!(c, '"' | '\\'))?),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    fn with(name: &str, values: &[&[u8]]) -> HeaderMap {
        let name: HeaderName = name.parse().unwrap();
        values.iter().map(|v| (name.clone(), HeaderValue::from_bytes(v).unwrap())).collect()
    }
    fn key(text: &str) -> Option<String> {
        idempotency_key(&with("idempotency-key", &[text.as_bytes()])).ok().flatten()
    }

    #[test]
    fn a_key_is_the_same_bare_and_quoted() {
        assert_eq!(key("8e03-978e").as_deref(), Some("8e03-978e"));
        assert_eq!(key("\"8e03-978e\"").as_deref(), Some("8e03-978e"));
        assert_eq!(key(r#""a\"b\\c""#).as_deref(), Some(r#"a"b\c"#));
        assert_eq!(key(&"k".repeat(255)).map(|k| k.len()), Some(255));
        assert_eq!(idempotency_key(&HeaderMap::new()).unwrap(), None);
    }

    #[test]
    fn other_keys_are_refused() {
        let long = "k".repeat(256);
        for bad in ["", "\"\"", "\"open", "\"a\";p=1", r#""a\n""#, "a\tb", "é", &long] {
            assert_eq!(key(bad), None, "{bad:?}");
        }
        assert!(idempotency_key(&with("idempotency-key", &[b"a", b"a"])).is_err());
    }

    #[test]
    fn sqs_03_a_request_id_with_odd_characters_is_replaced() {
        let id = |bytes: &[u8]| request_id(&with(REQUEST_ID, &[bytes]));
        assert_eq!(id(b"trace-1:a.b/c=+_"), "trace-1:a.b/c=+_");
        let long = [b'x'; 129];
        for bad in [&b"a\xffb"[..], b"a\tb", b"a b", b"", b"<x>", &long] {
            let replaced = id(bad);
            assert_eq!(replaced.parse::<Uuid>().unwrap().get_version_num(), 7, "{bad:?}");
        }
        assert_ne!(request_id(&HeaderMap::new()), request_id(&HeaderMap::new()));
    }

    #[test]
    fn a_trace_context_is_taken_where_there_is_exactly_one_good_one() {
        const GOOD: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let trace = |values: &[&[u8]]| traceparent(&with("traceparent", values)).map(|t| t.trace_id().to_owned());
        assert_eq!(trace(&[GOOD]).as_deref(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
        for bad in [&[][..], &[GOOD, GOOD], &[b"00-1-2-01"], &[b"\xff"]] {
            assert_eq!(trace(bad), None);
        }
    }

    #[test]
    fn content_types() {
        let media = |text: &str| event_media(&with("content-type", &[text.as_bytes()])).ok();
        assert_eq!(media("application/json"), Some(EventMedia::One));
        assert_eq!(media("Application/CloudEvents+JSON; charset=\"UTF-8\""), Some(EventMedia::One));
        assert_eq!(media("application/cloudevents-batch+json"), Some(EventMedia::Batch));
        for bad in ["text/plain", "application/json; charset=latin1", "application/xml", ""] {
            assert_eq!(media(bad), None, "{bad}");
        }
        assert!(event_media(&HeaderMap::new()).is_err());
    }
}
