//! `POST /events`.

use crate::support::*;
use axum::body::Body;
use serde_json::json;
use std::{sync::atomic::Ordering::SeqCst, time::Duration};
use waybill_api::ApiConfig;

#[tokio::test]
async fn an_event_is_accepted_with_the_address_of_its_job() {
    let api = api();
    let answer = api.post(EVENT).await;
    assert_eq!(answer.status, 202);
    let job = api.fake.rows_of(TENANT)[0];
    assert_eq!(answer.json(), json!({"job_id": job.to_string(), "status": "PENDING"}));
    assert_eq!(answer.header("location"), format!("/jobs/{job}"));
    assert!(!answer.headers.contains_key("idempotent-replayed"));
}

#[tokio::test]
async fn the_trace_context_of_the_request_goes_with_its_events_and_a_wrong_one_is_no_reason_to_refuse() {
    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let api = api();
    let with = |trace: &str, id: &str| {
        let body = EVENT.replace("\"id\":\"", &format!("\"id\":\"{id}"));
        post("/events").header("traceparent", trace).body(Body::from(body)).unwrap()
    };
    assert_eq!(api.call(with(GOOD, "a")).await.status, 202);
    assert_eq!(api.fake.last_event().trace.unwrap().as_str(), GOOD);
    assert_eq!(api.call(with("00-zz", "b")).await.status, 202);
    assert_eq!(api.fake.last_event().trace, None);
}

#[tokio::test]
async fn a_repeat_is_answered_with_the_first_job_and_says_so() {
    let api = api();
    let first = api.post(EVENT).await;
    let again = api.post(format!(" {EVENT} ")).await;
    assert_eq!((again.status, again.json()), (202, first.json()));
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert_eq!(again.header("location"), first.header("location"));
    assert_eq!(api.fake.rows_of(TENANT).len(), 1);
}

#[tokio::test]
async fn a_key_is_one_key_quoted_or_bare_and_other_content_under_it_is_422() {
    let api = api();
    let with_key =
        |key: &str, body: String| post("/events").header("idempotency-key", key).body(Body::from(body)).unwrap();
    let first = api.call(with_key("\"order-1\"", EVENT.into())).await;
    let again = api.call(with_key("order-1", EVENT.into())).await;
    assert_eq!(again.json(), first.json());
    let other = api.call(with_key("order-1", EVENT.replace("1.10", "1.20"))).await;
    assert_eq!(other.status, 422);
    other.problem("idempotency_key_reused");
    assert_eq!(api.call(with_key("\"open", EVENT.into())).await.problem("invalid_idempotency_key")["status"], 400);
    assert_eq!(api.fake.rows_of(TENANT).len(), 1);
}

#[tokio::test]
async fn pg_02_fifty_parallel_firsts_with_one_key_are_one_job_and_never_a_5xx() {
    let api = api();
    *api.fake.commit_takes.lock().unwrap() = Duration::from_millis(200);
    let posts = (0..50).map(|_| {
        let router = api.router.clone();
        let request = post("/events").header("idempotency-key", "k").body(Body::from(EVENT)).unwrap();
        tokio::spawn(async move { call(&router, request).await })
    });
    let posts: Vec<_> = posts.collect();
    let mut answers = Vec::new();
    for post in posts {
        answers.push(post.await.unwrap());
    }
    let rows = api.fake.rows_of(TENANT);
    assert_eq!(rows.len(), 1);
    for answer in &answers {
        match answer.status {
            202 => assert_eq!(answer.json()["job_id"], rows[0].to_string()),
            409 => {
                assert_eq!(answer.problem("idempotency_in_progress")["retry_after_seconds"], 1);
                assert_eq!(answer.header("retry-after"), "1");
            }
            other => panic!("{other}: {answer:?}"),
        }
    }
    assert!(answers.iter().any(|a| a.status == 409) && answers.iter().filter(|a| a.status == 202).count() >= 1);

    // Another tenant's same key is another key.
    let request = post("/events").header("idempotency-key", "k");
    let mut request = request.body(Body::from(EVENT.replace("1.10", "7"))).unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {OTHER_KEY}").parse().unwrap());
    assert_eq!(api.call(request).await.status, 202);
    assert_eq!(api.fake.rows_of(OTHER_TENANT).len(), 1);
}

#[tokio::test]
async fn pg_05_an_exhausted_pool_is_503_with_retry_after_and_health_still_answers() {
    let api = api_with(ApiConfig {
        ready_timeout: Duration::from_millis(100),
        ready_cache: Duration::ZERO,
        ..ApiConfig::default()
    });
    api.fake.away.store(true, SeqCst);
    for answer in [api.post(EVENT).await, api.get("/jobs").await] {
        assert_eq!(answer.status, 503);
        assert_eq!(answer.problem("unavailable")["retry_after_seconds"], 2);
        assert_eq!(answer.header("retry-after"), "2");
    }
    assert!(api.fake.rows_of(TENANT).is_empty());
    assert_eq!(api.get("/healthz").await.status, 200);
    let readiness = api.get("/readyz").await;
    assert_eq!((readiness.status, readiness.json()["checks"][0]["ok"].clone()), (503, json!(false)));

    api.fake.readiness_hangs.store(true, SeqCst);
    let started = std::time::Instant::now();
    let hung = api.get("/readyz").await;
    assert_eq!((hung.status, hung.json()["status"].clone()), (503, json!("timed_out")));
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());

    api.fake.away.store(false, SeqCst);
    assert_eq!(api.post(EVENT).await.status, 202);
}

#[tokio::test]
async fn in_01_repeated_keys_are_400_with_their_path_wherever_they_are() {
    let api = api();
    let with = |extra: &str| EVENT.replacen('{', &format!("{{{extra},"), 1);
    for (body, pointer) in [
        (with(r#""recipients":[{"email":"b@example.test"}]"#), "/recipients"),
        (with(r#""recipi\u0065nts":[]"#), "/recipients"),
        (EVENT.replace(r#""name":"Ana""#, r#""email":"b@example.test""#), "/recipients/0/email"),
        (EVENT.replace(r#""total":1.10"#, r#""total":1,"total":2"#), "/data/total"),
    ] {
        let answer = api.post(body).await;
        assert_eq!(answer.status, 400);
        assert_eq!(answer.problem("invalid_json")["errors"][0]["pointer"], pointer);
    }
    assert!(api.fake.rows_of(TENANT).is_empty());
}

#[tokio::test]
async fn pg_04_nul_lone_surrogates_and_bad_utf_8_are_400_and_the_escaped_text_is_untouched() {
    let api = api();
    let named = |name: &[u8]| {
        let (before, after) = EVENT.split_once("Ana").unwrap();
        [before.as_bytes(), name, after.as_bytes()].concat()
    };
    for (name, pointer) in
        [(&br"Ana\u0000"[..], "/recipients/0/name"), (br"\ud800", "/recipients/0/name"), (b"\xff", "")]
    {
        let answer = api.post(named(name)).await;
        assert_eq!(answer.status, 400);
        assert_eq!(answer.problem("invalid_json")["errors"][0]["pointer"], pointer);
    }
    assert_eq!(api.post(named(br"\\u0000")).await.status, 202);
    assert_eq!(api.fake.last_event().recipients[0].name, r"\u0000");
}

#[tokio::test]
async fn sqs_03_characters_outside_xml_are_accepted_and_leave_us_escaped() {
    let api = api();
    let body = EVENT.replace("\"Ana\"", "\"Ana\u{ffff}\"").replace("1.10", "\"\u{fffe}\\u0001\"");
    assert_eq!(api.post(body).await.status, 202);
    let event = api.fake.last_event();
    assert_eq!(event.recipients[0].name, "Ana\u{ffff}");
    assert_eq!(event.data.to_text(), r#"{"total":"\ufffe\u0001"}"#);
    // A control character in a field of ours is refused by name.
    let problem = api.post(EVENT.replace("\"Ana\"", "\"Ana\\u0001\"")).await.problem("invalid_event");
    assert_eq!((&problem["status"], &problem["errors"][0]["pointer"]), (&json!(422), &json!("/recipients/0/name")));
}

#[tokio::test]
async fn every_wrong_field_is_named_with_what_to_do() {
    let answer = api().post(r#"{"id":"1","source":"/s","typ":"t","data":{},"recipients":["x"]}"#).await;
    assert_eq!(answer.status, 422);
    let problem = answer.problem("invalid_event");
    let pointers: Vec<_> =
        problem["errors"].as_array().unwrap().iter().map(|e| e["pointer"].as_str().unwrap()).collect();
    assert_eq!(pointers, ["/typ", "/type", "/recipients/0"]);
    assert_eq!(problem["instance"], "/events");
}

#[tokio::test]
async fn other_content_types_are_415() {
    let api = api();
    for content_type in ["text/plain", "application/json; charset=latin1"] {
        let mut request = post("/events").body(Body::from(EVENT)).unwrap();
        request.headers_mut().insert("content-type", content_type.parse().unwrap());
        api.call(request).await.problem("unsupported_media_type");
    }
    let mut request = post("/events").body(Body::from(EVENT)).unwrap();
    request.headers_mut().insert("content-type", "application/cloudevents+json; charset=UTF-8".parse().unwrap());
    assert_eq!(api.call(request).await.status, 202);
}

async fn batch(api: &Api, body: String) -> Answer {
    let mut request = post("/events").body(Body::from(body)).unwrap();
    request.headers_mut().insert("content-type", "application/cloudevents-batch+json".parse().unwrap());
    api.call(request).await
}

#[tokio::test]
async fn a_batch_answers_each_event_in_its_order() {
    let api = api();
    let (nul, wrong) = (EVENT.replace("Ana", "\\u0000"), EVENT.replace("\"type\"", "\"typ\""));
    let (second, reused) = (EVENT.replace("\"id\":\"1\"", "\"id\":\"2\""), EVENT.replace("1.10", "3"));
    let answer = batch(&api, format!("[{EVENT},{nul},{second},{wrong},{EVENT},{reused}]")).await;
    assert_eq!(answer.status, 207);
    let json = answer.json();
    let results = json["results"].as_array().unwrap();
    let statuses: Vec<_> =
        results.iter().map(|r| (r["index"].as_u64().unwrap(), r["status"].as_u64().unwrap())).collect();
    assert_eq!(statuses, [(0, 202), (1, 400), (2, 202), (3, 422), (4, 202), (5, 422)]);
    assert_eq!(results[1]["problem"]["errors"][0]["pointer"], "/1/recipients/0/name");
    assert_eq!(results[3]["problem"]["errors"][0]["pointer"], "/3/typ");
    assert_eq!((&results[4]["job_id"], &results[4]["replayed"]), (&results[0]["job_id"], &json!(true)));
    assert_eq!(results[5]["problem"]["code"], "idempotency_key_reused");
    let rows: Vec<_> = api.fake.rows_of(TENANT).iter().map(ToString::to_string).collect();
    assert_eq!([results[0]["job_id"].as_str().unwrap(), results[2]["job_id"].as_str().unwrap()], rows[..]);
}

#[tokio::test]
async fn a_batch_as_a_whole_is_refused_only_when_none_of_it_could_be_read_or_done() {
    let api = api_with(ApiConfig { max_batch_events: 2, ..ApiConfig::default() });
    assert_eq!(batch(&api, EVENT.into()).await.problem("invalid_json")["status"], 400);
    assert_eq!(batch(&api, format!("[{EVENT}")).await.problem("invalid_json")["status"], 400);
    let many = batch(&api, format!("[{EVENT},{EVENT},{EVENT}]")).await.problem("too_many_events");
    assert!(many["detail"].as_str().unwrap().contains("max_batch_events is 2"), "{many}");
    assert_eq!(batch(&api, "[]".into()).await.json(), json!({"results": []}));
    let keyed = post("/events").header("idempotency-key", "k").body(Body::from("[]")).unwrap();
    let mut keyed = keyed;
    keyed.headers_mut().insert("content-type", "application/cloudevents-batch+json".parse().unwrap());
    api.call(keyed).await.problem("invalid_idempotency_key");

    api.fake.away.store(true, SeqCst);
    let away = batch(&api, format!("[{EVENT},{EVENT}]")).await;
    assert_eq!((away.status, away.header("retry-after")), (503, "2"));
}
