//! IN-02: bodies that are too large, too slow, too deep or wrapped; decided before, and while, they are read.

use crate::support::*;
use axum::body::Body;
use flate2::{Compression, write::GzEncoder};
use hyper::Request;
use std::{io::Write, sync::atomic::Ordering::SeqCst, time::Duration};
use waybill_api::ApiConfig;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// About 130 KB that become 128 MiB of zeros.
fn bomb() -> Vec<u8> {
    gzip(&vec![0u8; 1024 * 1024]).repeat(128)
}

fn encoded(encodings: &[&str], body: impl Into<Body>) -> Request<Body> {
    let request = post("/events");
    encodings.iter().fold(request, |request, e| request.header("content-encoding", *e)).body(body.into()).unwrap()
}

#[tokio::test]
async fn in_02_without_a_key_the_body_is_not_read() {
    let api = api();
    for key in [None, Some("Bearer wb_test_unknown"), Some("Basic YTpi"), Some("Bearer ")] {
        let (body, polls) = trickle(Duration::from_millis(1), b"x");
        let mut request = Request::post("/events").header("content-encoding", "gzip").body(body).unwrap();
        if let Some(key) = key {
            request.headers_mut().insert("authorization", key.parse().unwrap());
        }
        let answer = api.call(request).await;
        assert_eq!((answer.status, polls.load(SeqCst)), (401, 0), "{key:?}");
        answer.problem("unauthorized");
        assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"waybill\"");
    }
    // The same for a key that lacks the scope, and for providers' calls.
    let (body, polls) = trickle(Duration::from_millis(1), b"x");
    let mut request = post("/events").body(body).unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {READ_KEY}").parse().unwrap());
    let answer = api.call(request).await;
    assert!(answer.problem("missing_scope")["detail"].as_str().unwrap().contains("events:write"));
    assert_eq!((answer.status, polls.load(SeqCst)), (403, 0));
    let (body, polls) = trickle(Duration::from_millis(1), b"x");
    let answer = api.call(Request::post("/inbound/postmark/main").body(body).unwrap()).await;
    assert_eq!((answer.status, polls.load(SeqCst)), (401, 0));
}

#[tokio::test]
async fn in_02_twenty_bombs_at_once_are_413_at_the_limit_and_the_memory_stays_small() {
    let api = api();
    let bomb = bomb();
    assert!(bomb.len() < 140_000, "{}", bomb.len());
    let all: Vec<_> = (0..20)
        .map(|n| {
            let (router, mut request) = (api.router.clone(), encoded(&["gzip"], bomb.clone()));
            if n % 2 == 1 {
                *request.uri_mut() = "/inbound/postmark/main".parse().unwrap();
                request.headers_mut().insert("authorization", "Basic YTpzM2NyZXQ=".parse().unwrap());
            }
            tokio::spawn(async move { call(&router, request).await })
        })
        .collect();
    for answer in all {
        let problem = answer.await.unwrap().problem("body_too_large");
        assert_eq!(problem["status"], 413);
        assert!(problem["detail"].as_str().unwrap().contains("max_body_bytes is 1048576"), "{problem}");
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    let kib: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 256 * 1024, "{peak}");
}

#[tokio::test]
async fn in_02_one_gzip_is_read_and_other_codings_are_415() {
    let api = api();
    assert_eq!(api.call(encoded(&["gzip"], gzip(EVENT.as_bytes()))).await.status, 202);
    assert_eq!(api.call(encoded(&["identity"], EVENT)).await.status, 202);
    for codings in [&["gzip, gzip"][..], &["gzip", "gzip"], &["zstd"], &["br"], &["deflate"], &["gzip, identity"]] {
        let answer = api.call(encoded(codings, gzip(&gzip(EVENT.as_bytes())))).await;
        assert_eq!(answer.status, 415);
        answer.problem("unsupported_content_encoding");
        assert_eq!(answer.header("accept-encoding"), "gzip, identity");
    }
    let whole = gzip(EVENT.as_bytes());
    for broken in [&whole[..whole.len() - 4], &whole[..20], EVENT.as_bytes()] {
        assert_eq!(api.call(encoded(&["gzip"], broken.to_vec())).await.problem("invalid_body")["status"], 400);
    }
}

#[tokio::test]
async fn in_02_the_limit_holds_for_bytes_as_they_come_and_for_a_stated_length() {
    let api = api_with(ApiConfig { max_body_bytes: EVENT.len(), ..ApiConfig::default() });
    assert_eq!(api.post(EVENT).await.status, 202);
    api.post(format!("{EVENT} ")).await.problem("body_too_large");
    let (body, polls) = trickle(Duration::from_millis(1), b"                                        ");
    api.post(body).await.problem("body_too_large");
    assert!(polls.load(SeqCst) > 1);
    // Empty gzip members: bytes without end that become nothing.
    let nothing: &'static [u8] = gzip(b"").repeat(3).leak();
    let (body, _) = trickle(Duration::from_millis(1), nothing);
    api.call(encoded(&["gzip"], body)).await.problem("body_too_large");
}

#[tokio::test]
async fn in_02_a_slow_body_is_408_by_a_total_deadline() {
    let api = api_with(ApiConfig { body_timeout: Duration::from_millis(200), ..ApiConfig::default() });
    let (body, polls) = trickle(Duration::from_millis(20), b" ");
    let started = std::time::Instant::now();
    let problem = api.post(body).await.problem("body_timeout");
    assert!(problem["detail"].as_str().unwrap().contains("0.2 s (body_timeout)"), "{problem}");
    assert_eq!(problem["status"], 408);
    assert!(polls.load(SeqCst) > 2 && started.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn in_02_deep_nesting_is_400_and_too_many_recipients_are_422_with_the_limit() {
    let api = api();
    let deep = "[".repeat(200) + &"]".repeat(200);
    let problem = api.post(EVENT.replace("1.10", &deep)).await.problem("invalid_json");
    assert!(problem["status"] == 400 && problem["detail"].as_str().unwrap().contains("64 levels"), "{problem}");
    let very_deep = "[".repeat(400_000) + &"]".repeat(400_000);
    api.post(very_deep).await.problem("invalid_json");

    let with_recipients = |n: usize| {
        let (head, _) = EVENT.split_once("[").unwrap();
        format!("{head}[{}]}}", vec!["{}"; n].join(","))
    };
    let problem = api.post(with_recipients(10_001)).await.problem("invalid_event");
    assert_eq!(problem["status"], 422);
    assert!(problem["detail"].as_str().unwrap().contains("max_recipients is 10000"), "{problem}");
    // A million of them don't fit the body, compressed or not.
    let million = with_recipients(1_000_000);
    api.call(encoded(&["gzip"], gzip(million.as_bytes()))).await.problem("body_too_large");
    api.post(million).await.problem("body_too_large");
}
