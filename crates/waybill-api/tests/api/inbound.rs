//! `POST /inbound/{provider}/{account}`.

use crate::support::*;
use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper::Request;
use serde_json::json;
use std::sync::atomic::Ordering::SeqCst;

fn inbound(path: &str, password: &str, body: &'static [u8]) -> Request<Body> {
    let basic = format!("Basic {}", STANDARD.encode(format!("postmark:{password}")));
    Request::post(path).header("authorization", basic).body(Body::from(body)).unwrap()
}

#[tokio::test]
async fn a_provider_with_the_secret_is_heard() {
    let api = api();
    // PG-04 c: what is inside is the adapter's business; the bytes arrive as they are.
    let body = br#"{"Description":"\ud800 \u0000"}"#;
    let answer = api.call(inbound("/inbound/postmark/main", "s3cret", body)).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"events": 1})));
    let heard = api.fake.feedback.lock().unwrap().clone();
    assert_eq!(heard, [("postmark".to_owned(), "main".to_owned(), bytes::Bytes::from_static(body))]);
}

#[tokio::test]
async fn a_wrong_secret_and_an_account_that_does_not_exist_look_the_same() {
    let api = api();
    let wrong = api.call(inbound("/inbound/postmark/main", "other", b"{}")).await;
    let none = api.call(inbound("/inbound/postmark/none", "s3cret", b"{}")).await;
    let unknown = api.call(inbound("/inbound/nobody/main", "", b"{}")).await;
    for answer in [&wrong, &none, &unknown] {
        assert_eq!(answer.problem("unauthorized")["detail"], wrong.json()["detail"]);
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, "Basic realm=\"waybill inbound\""));
    }
    assert!(api.fake.feedback.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_unreadable_body_is_400_and_an_outage_is_503_so_that_the_provider_comes_again() {
    let api = api();
    let answer = api.call(inbound("/inbound/postmark/main", "s3cret", b"hello")).await;
    assert_eq!((answer.status, &answer.problem("invalid_body")["detail"]), (400, &json!("expected an object")));
    api.fake.away.store(true, SeqCst);
    let answer = api.call(inbound("/inbound/postmark/main", "s3cret", b"{}")).await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, "2"));
}

#[tokio::test]
async fn a_signed_provider_is_heard_by_its_signature_alone() {
    let api = api();
    let signed =
        |length: &str| Request::post("/inbound/resend/main").header("x-length", length).body(Body::from("{}")).unwrap();
    assert_eq!(api.call(signed("2")).await.status, 200);
    let forged = api.call(signed("3")).await;
    let secret_instead = api.call(inbound("/inbound/resend/main", "s3cret", b"{}")).await;
    let none = api.call(inbound("/inbound/resend/none", "s3cret", b"{}")).await;
    for answer in [&forged, &secret_instead, &none] {
        assert_eq!((answer.status, &answer.problem("unauthorized")["detail"]), (401, &none.json()["detail"]));
    }
    assert_eq!(api.fake.feedback.lock().unwrap().len(), 1);
}
