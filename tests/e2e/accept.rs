//! What POST /events answers, through the real process.

use crate::support::World;
use serde_json::{Value, json};

async fn refused(world: &World, content_type: &str, body: impl Into<reqwest::Body>) -> (u16, Value) {
    let answer = world
        .http
        .post(format!("http://{}/events", world.api))
        .bearer_auth(&world.key)
        .header("Content-Type", content_type)
        .body(body)
        .send()
        .await
        .expect("an answer");
    let status = answer.status().as_u16();
    assert_eq!(answer.headers()["content-type"], "application/problem+json", "{status}");
    (status, answer.json().await.expect("JSON"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_ingest_case_is_answered_with_a_problem_and_stores_nothing() {
    let world = World::new().await;
    let _process = world.start("api").await;
    let json = "application/json";
    let cases: Vec<(&str, Vec<u8>, u16)> = vec![
        (
            "IN-01 repeated key",
            br#"{"id":"1","source":"/s","type":"t","data":{},"recipients":[],"recipi\u0065nts":[]}"#.to_vec(),
            400,
        ),
        (
            "IN-02 deep nesting",
            format!(r#"{{"id":"1","source":"/s","type":"t","data":{}{}}}"#, "[".repeat(200), "]".repeat(200))
                .into_bytes(),
            400,
        ),
        (
            "IN-02 a million recipients",
            format!(
                r#"{{"id":"1","source":"/s","type":"t","data":{{}},"recipients":[{}{{}}]}}"#,
                "{},".repeat(200_000)
            )
            .into_bytes(),
            422,
        ),
        ("PG-04 NUL", br#"{"id":"1","source":"/s","type":"t","data":{"name":"Ana\u0000"}}"#.to_vec(), 400),
        ("PG-04 lone surrogate", br#"{"id":"1","source":"/s","type":"t","data":{"name":"\ud800"}}"#.to_vec(), 400),
        ("PG-04 UTF-8", b"{\"id\":\"1\",\"source\":\"/s\",\"type\":\"t\",\"data\":{\"name\":\"\xff\"}}".to_vec(), 400),
        (
            "SQS-02 too large",
            format!(r#"{{"id":"1","source":"/s","type":"t","data":"{}"}}"#, "x".repeat(1_200_000)).into_bytes(),
            413,
        ),
        ("misspelt field", br#"{"id":"1","source":"/s","type":"t","data":{},"recipient":[]}"#.to_vec(), 422),
        ("not JSON", b"<xml/>".to_vec(), 400),
    ];
    for (name, body, wanted) in cases {
        println!("{name}");
        let (status, problem) = refused(&world, json, body).await;
        assert_eq!(status, wanted, "{name}: {problem:#}");
        assert!(problem["code"].is_string() && problem["detail"].is_string(), "{name}: {problem:#}");
    }
    assert_eq!(refused(&world, "text/xml", "<x/>").await.0, 415);
    assert_eq!(
        world.count("SELECT count(*) FROM jobs").await + world.count("SELECT count(*) FROM idempotency").await,
        0
    );
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqs_03_characters_that_a_queue_can_t_carry_are_no_reason_to_lose_a_mail() {
    let world = World::new().await;
    let _process = world.start("all").await;
    let mut event = world.note("e1", "s1", 1);
    event["recipients"][0]["name"] = json!("Ana\u{ffff}");
    let job = world.accept(&event).await;
    world.all_sent_once(&[job]).await;
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_has_an_answer_per_item() {
    let world = World::new().await;
    let _process = world.start("all").await;
    let batch = json!([world.note("b1", "s1", 1), {"id": "b2"}, world.note("b3", "s3", 1)]);
    let answer = world
        .http
        .post(format!("http://{}/events", world.api))
        .bearer_auth(&world.key)
        .header("Content-Type", "application/cloudevents-batch+json")
        .body(batch.to_string())
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status().as_u16(), 207);
    let body: Value = answer.json().await.unwrap();
    let statuses: Vec<u64> =
        body["results"].as_array().unwrap().iter().map(|r| r["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [202, 422, 202], "{body:#}");
    let jobs = [0, 2].map(|i| body["results"][i]["job_id"].as_str().unwrap().to_owned());
    world.all_sent_once(&jobs).await;
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_key_or_with_another_tenant_s_there_is_nothing_to_see() {
    let world = World::new().await;
    let _process = world.start("api").await;
    let job = world.accept(&world.note("e1", "s1", 1)).await;
    let url = format!("http://{}/jobs/{job}", world.api);
    assert_eq!(world.http.get(&url).send().await.unwrap().status().as_u16(), 401);
    let other = waybill_crypto::ApiKey::random(false).unwrap();
    let tenant = waybill_core::ids::TenantId(uuid::Uuid::now_v7());
    world.store.ensure_tenant(tenant, "other", None).await.unwrap();
    let key = waybill_store::NewApiKey {
        id: waybill_core::ids::KeyId(uuid::Uuid::now_v7()),
        tenant,
        key_hash: other.hash(),
        prefix: "x".into(),
        scopes: vec!["jobs:read".into(), "jobs:write".into()],
        expires_at: None,
    };
    world.store.insert_api_key(&key).await.unwrap();
    for request in
        [world.http.get(&url), world.http.post(format!("{url}/retry")), world.http.post(format!("{url}/cancel"))]
    {
        assert_eq!(request.bearer_auth(other.expose()).send().await.unwrap().status().as_u16(), 404);
    }
    assert_eq!(world.http.get(&url).bearer_auth(&world.key).send().await.unwrap().status().as_u16(), 200);
    world.close().await;
}
