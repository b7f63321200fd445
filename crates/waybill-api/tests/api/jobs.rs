//! `/jobs`.

use crate::support::*;
use axum::body::Body;
use chrono::DateTime;
use hyper::Request;
use serde_json::json;
use std::collections::BTreeMap;
use uuid::Uuid;
use waybill_api::{
    schema::Timestamp,
    views::{AttemptView, CallView, DeliveryView, DocumentView, EventRef, JobDetail, JobSummary, Page, TimelineEntry},
};
use waybill_core::{
    ids::{AttemptId, DeliveryId, DocumentId, JobId},
    state::{DeliveryState, DocumentState, JobState, Reason},
};

const JOB: JobId = JobId(Uuid::from_u128(7));

fn at(ms: i64) -> Timestamp {
    Timestamp(DateTime::from_timestamp_micros(1_796_000_000_000_000 + ms * 1000 + 456).unwrap())
}

fn entry(version: u32, state: DeliveryState) -> TimelineEntry {
    TimelineEntry { version, at: at(version.into()), state, reason: None, detail: None }
}

fn delivery() -> DeliveryView {
    let call = CallView {
        provider: "ses".into(),
        outcome: "unavailable".into(),
        detail: Some("connection refused".into()),
        provider_message_id: None,
        duration_ms: Some(12),
    };
    DeliveryView {
        delivery_id: DeliveryId(Uuid::from_u128(8)),
        channel: "email".into(),
        recipient: "ana@example.test".into(),
        recipient_name: "Ana".into(),
        state: DeliveryState::Failed,
        reason: Some(Reason::ProvidersExhausted),
        detail: Some("ses: connection refused".into()),
        explanation: String::new(),
        attempt_count: 3,
        next_attempt_at: None,
        reconcile_until: None,
        held: false,
        dead_lettered: true,
        provider: None,
        provider_message_id: None,
        document: Some(DocumentView {
            document_id: DocumentId(Uuid::from_u128(9)),
            document_type: "purchase_order".into(),
            state: DocumentState::Ready,
            reason: None,
            detail: None,
            attempt_count: 1,
            size_bytes: Some(20_000),
        }),
        other_delivery_id: None,
        sent_at: None,
        updated_at: at(3),
        attempts: vec![AttemptView {
            attempt_id: AttemptId(Uuid::from_u128(10)),
            number: 1,
            started_at: at(1),
            ended_at: Some(at(2)),
            outcome: Some("retry".into()),
            calls: vec![call],
        }],
        timeline: vec![
            entry(1, DeliveryState::Pending),
            entry(2, DeliveryState::Sending),
            entry(3, DeliveryState::Failed),
        ],
    }
}

fn with_job() -> Api {
    let api = api();
    let job = JobSummary {
        job_id: JOB,
        status: JobState::Failed,
        reason: None,
        detail: None,
        waits_for: None,
        explanation: String::new(),
        event: EventRef {
            id: "1".into(),
            source: "/shop".into(),
            event_type: "order".into(),
            subject: Some("PO-1".into()),
            revision: "2".into(),
            ordering_key: None,
            time: None,
        },
        delivery_counts: BTreeMap::from([("FAILED".into(), 1)]),
        created_at: at(0),
        routed_at: Some(at(1)),
        expires_at: None,
        cancel_requested_at: None,
    };
    let deliveries = Page { data: vec![delivery()], next: Some("dlv_x".into()) };
    *api.fake.found.lock().unwrap() = Some(JobDetail { job, deliveries });
    api
}

#[tokio::test]
async fn a_job_tells_its_story_for_programs_and_for_people() {
    let job = with_job().get(&format!("/jobs/{JOB}")).await.json();
    assert_eq!(
        (&job["job_id"], &job["status"], &job["event"]["type"]),
        (&json!(JOB.to_string()), &json!("FAILED"), &json!("order"))
    );
    assert_eq!(job["explanation"], "None of 1 deliveries has reached its recipient; each says why.");
    assert_eq!(job["created_at"], at(0).to_string());
    assert!(job["created_at"].as_str().unwrap().ends_with(".000Z"), "{job}");
    let delivery = &job["deliveries"]["data"][0];
    assert_eq!((&delivery["state"], &delivery["reason"]), (&json!("FAILED"), &json!("providers_exhausted")));
    assert_eq!(
        delivery["explanation"],
        "Not sent after 3 attempts: every provider was tried and none could take it (ses: connection refused). \
         POST /jobs/{id}/retry tries it again."
    );
    assert_eq!(delivery["attempts"][0]["calls"][0]["provider"], "ses");
    assert_eq!(delivery["document"]["state"], "READY");
    assert_eq!(delivery["timeline"].as_array().unwrap().len(), 3);
    assert_eq!(job["deliveries"]["next"], "dlv_x");
}

#[tokio::test]
async fn what_waits_for_an_earlier_job_of_its_ordering_key_says_so() {
    let api = with_job();
    let first = JobId(Uuid::from_u128(8));
    {
        let mut found = api.fake.found.lock().unwrap();
        let detail = found.as_mut().unwrap();
        (detail.job.status, detail.job.waits_for) = (JobState::Routed, Some(first));
        let waiting = DeliveryView { state: DeliveryState::Pending, ..delivery() };
        detail.deliveries.data.push(waiting);
    }
    let job = api.get(&format!("/jobs/{JOB}")).await.json();
    let text = format!("Waits for {first}, an earlier job of the same ordering key.");
    assert_eq!((&job["waits_for"], &job["explanation"]), (&json!(first), &json!(text)));
    let of = |n: usize| job["deliveries"]["data"][n]["explanation"].as_str().unwrap().to_owned();
    assert!(of(0).starts_with("Not sent after 3 attempts") && of(1) == text, "{} {}", of(0), of(1));
}

#[tokio::test]
async fn another_tenant_s_job_and_one_that_does_not_exist_are_the_same_404() {
    let api = with_job();
    for (method, path) in [("GET", ""), ("POST", "/retry"), ("POST", "/cancel")] {
        let request = |key: &str, job: JobId| {
            let request = Request::builder().method(method).uri(format!("/jobs/{job}{path}"));
            request.header("authorization", format!("Bearer {key}")).body(Body::empty()).unwrap()
        };
        assert_eq!(api.call(request(KEY, JOB)).await.status, 200, "{path}");
        let foreign = api.call(request(OTHER_KEY, JOB)).await;
        let missing = api.call(request(KEY, JobId(Uuid::from_u128(99)))).await;
        assert_eq!((foreign.status, missing.status), (404, 404), "{path}");
        assert_eq!(foreign.problem("not_found")["detail"], missing.problem("not_found")["detail"]);
    }
    let other =
        Request::get("/jobs").header("authorization", format!("Bearer {OTHER_KEY}")).body(Body::empty()).unwrap();
    assert_eq!(api.call(other).await.json(), json!({"data": [], "next": null}));
}

#[tokio::test]
async fn retry_and_cancel_need_their_scope_and_say_what_they_did() {
    let api = with_job();
    for (verb, answer) in [
        ("retry", json!({"job_id": JOB, "requeued": [DeliveryId(Uuid::nil())], "already_sent": 0})),
        ("cancel", json!({"job_id": JOB, "cancelled": 2, "already_final": 1, "in_progress": 0})),
    ] {
        let uri = format!("/jobs/{JOB}/{verb}");
        assert_eq!(api.call(post(&uri).body(Body::empty()).unwrap()).await.json(), answer);
        let mut reader = post(&uri).body(Body::empty()).unwrap();
        reader.headers_mut().insert("authorization", format!("Bearer {READ_KEY}").parse().unwrap());
        let refused = api.call(reader).await;
        assert_eq!(refused.status, 403);
        assert!(refused.problem("missing_scope")["detail"].as_str().unwrap().contains("`jobs:write`"));
    }
}

#[tokio::test]
async fn a_list_is_filtered_by_what_was_asked_and_by_nothing_that_was_misspelt() {
    let api = with_job();
    let answer = api
        .get(&format!(
            "/jobs?limit=10&status=FAILED&type=order&subject=PO%201&recipient=Ana@Example.test&after={JOB}\
             &since=2026-11-01T00:00:00Z&until=2026-12-01T01:00:00%2B01:00"
        ))
        .await;
    assert_eq!(answer.json()["data"][0]["job_id"], JOB.to_string());
    assert!(answer.json()["data"][0]["explanation"].as_str().unwrap().len() > 10);
    let asked = api.fake.listed.lock().unwrap().clone().unwrap();
    assert_eq!((asked.limit, asked.status, asked.after), (10, Some(JobState::Failed), Some(JOB)));
    assert_eq!((asked.event_type.as_deref(), asked.subject.as_deref()), (Some("order"), Some("PO 1")));
    assert_eq!(asked.recipient.unwrap().key(), "ana@example.test");
    assert_eq!(asked.until.unwrap().to_rfc3339(), "2026-12-01T00:00:00+00:00");

    for (query, name) in [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("stauts=FAILED", "stauts"),
        ("status=failed", "status"),
        ("after=dlv_00000000000000000000000000", "after"),
        ("recipient=nobody", "recipient"),
        ("since=2026", "since"),
        ("since=2026-12-02T00:00:00Z&until=2026-12-01T00:00:00Z", "until"),
        ("subject=%00", "subject"),
        ("limit=1&limit=2", "limit"),
    ] {
        let answer = api.get(&format!("/jobs?{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
        assert_eq!(answer.problem("invalid_parameter")["errors"][0]["parameter"], name, "{query}");
    }
}

#[tokio::test]
async fn an_id_of_another_kind_is_named() {
    let api = with_job();
    for id in ["dlv_00000000000000000000000000", "x", "job_", "%FF", "job_8zzzzzzzzzzzzzzzzzzzzzzzzz"] {
        let answer = api.get(&format!("/jobs/{id}")).await;
        assert_eq!(
            (answer.status, &answer.problem("invalid_parameter")["errors"][0]["parameter"]),
            (400, &json!("id")),
            "{id}"
        );
    }
}
