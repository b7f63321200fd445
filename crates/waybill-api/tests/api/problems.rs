//! Every refusal looks alike, also those of the framework.

use crate::support::*;
use axum::body::Body;
use hyper::Request;
use serde_json::json;
use std::sync::{Arc, atomic::Ordering::SeqCst};
use waybill_api::problem::Code;

#[tokio::test]
async fn a_path_that_does_not_exist_and_a_method_that_is_not_allowed_are_problems() {
    let api = api();
    for path in ["/nothing", "/jobs/", "/events/x", "/inbound/postmark"] {
        let answer = api.get(path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.problem("not_found")["instance"], path);
    }
    for (method, path, allowed) in
        [("DELETE", "/jobs", "GET,HEAD"), ("GET", "/events", "POST"), ("PUT", "/", "GET,HEAD")]
    {
        let answer = api.call(Request::builder().method(method).uri(path).body(Body::empty()).unwrap()).await;
        assert_eq!((answer.status, answer.header("allow")), (405, allowed), "{path}");
        answer.problem("method_not_allowed");
    }
}

#[tokio::test]
async fn a_panic_is_a_500_that_tells_nothing_of_it() {
    let api = api();
    api.fake.panics.store(true, SeqCst);
    let answer = api.post(EVENT).await;
    assert_eq!(answer.status, 500);
    answer.problem("internal");
    assert!(!answer.text.contains("secret") && !answer.text.contains(".rs"), "{}", answer.text);
}

#[tokio::test]
async fn sqs_03_a_request_id_comes_back_when_it_is_harmless_and_is_replaced_when_not() {
    let api = api();
    let with = |id: &[u8]| Request::get("/healthz").header("x-request-id", id).body(Body::empty()).unwrap();
    assert_eq!(api.call(with(b"trace-1.2")).await.header("x-request-id"), "trace-1.2");
    for odd in [&b"a b"[..], b"a\xc3\xa9", b"\"x\"", &[b'x'; 200]] {
        let id = api.call(with(odd)).await.header("x-request-id").to_owned();
        assert!(id.parse::<uuid::Uuid>().is_ok(), "{id}");
    }
}

#[tokio::test]
async fn every_code_is_explained_at_its_type() {
    let api = api();
    for code in Code::ALL {
        let answer = api.get(&format!("/problems/{}", code.as_str())).await;
        let page = answer.json();
        assert_eq!(
            (answer.status, &page["code"], &page["status"]),
            (200, &json!(code.as_str()), &json!(code.status()))
        );
    }
    api.get("/problems/other").await.problem("not_found");
}

#[tokio::test]
async fn the_welcome_says_where_to_start() {
    let welcome = api().get("/").await.json();
    assert_eq!((&welcome["service"], &welcome["openapi"]), (&json!("waybill"), &json!("/openapi.json")));
}

#[tokio::test]
async fn an_unknown_key_is_looked_up_and_a_missing_one_costs_no_look_up() {
    let api = api();
    let get = |key: &str| Request::get("/jobs").header("authorization", key).body(Body::empty()).unwrap();
    api.call(get("Bearer wb_live_unknown")).await.problem("unauthorized");
    assert_eq!(api.fake.authentications.load(SeqCst), 1);
    api.call(Request::get("/jobs").body(Body::empty()).unwrap()).await.problem("unauthorized");
    api.call(get(&format!("Bearer {}", "x".repeat(5000)))).await.problem("unauthorized");
    assert_eq!(api.fake.authentications.load(SeqCst), 1);
}

#[tokio::test]
async fn the_ops_router_has_metrics_and_the_probes_and_nothing_else() {
    let api = api();
    let ops = waybill_api::ops_router(api.state.clone(), Arc::new(|| "waybill_up 1\n".to_owned()));
    let get = |path: &str| Request::get(path).body(Body::empty()).unwrap();
    let metrics = call(&ops, get("/metrics")).await;
    assert_eq!(metrics.text, "waybill_up 1\n");
    assert_eq!(metrics.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    assert_eq!(call(&ops, get("/readyz")).await.json()["status"], "ready");
    call(&ops, get("/jobs")).await.problem("not_found");
    api.call(get("/metrics")).await.problem("not_found");
}

#[tokio::test]
async fn readiness_asks_once_for_many_probes_and_fails_as_soon_as_the_process_drains() {
    let api = api();
    for _ in 0..5 {
        assert_eq!(api.get("/readyz").await.status, 200);
    }
    assert_eq!(api.fake.readiness_questions.load(SeqCst), 1);
    api.soft.cancel();
    let answer = api.get("/readyz").await;
    assert_eq!((answer.status, answer.json()["status"].clone()), (503, json!("draining")));
    assert_eq!(api.get("/healthz").await.status, 200);
}
