use std::time::Duration;

use serde_json::{Value, json};
use waybill_sink::Provider;

use crate::common::{PDF, TestSink, eventually, resend_mail};

#[tokio::test]
async fn a_mail_is_accepted_with_an_id_in_the_body() {
    let sink = TestSink::start().await;
    let answer = sink.resend_request(&resend_mail("dlv_1"), None).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let id = answer.json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned();
    let mail = sink.sink.mails().remove(0);
    assert_eq!((mail.provider, mail.message_id), (Provider::Resend, id));
    assert_eq!((mail.to.as_str(), &mail.attachments[0].content[..]), ("ada@example.com", PDF));
    assert_eq!(sink.sink.acceptances_by_delivery()["dlv_1"], 1);
}

#[tokio::test]
async fn a_call_needs_a_key_and_a_user_agent() {
    let sink = TestSink::start().await;
    let post = || sink.http.post(sink.url("/emails")).json(&resend_mail("dlv_1"));
    for (request, status, name) in [
        (post().header("user-agent", "x"), 401, "missing_api_key"),
        (post().header("user-agent", "x").bearer_auth("SG.x"), 401, "validation_error"),
        (post().bearer_auth("re_x"), 403, "validation_error"),
    ] {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), status);
        assert_eq!(answer.json::<Value>().await.unwrap()["name"], name);
    }
    assert_eq!(sink.sink.accepted(), 0);
}

#[tokio::test]
async fn a_repeated_key_is_one_mail_and_the_same_answer() {
    let sink = TestSink::start().await;
    let send = |body: Value, key: &'static str| {
        let request = sink.resend_request(&body, Some(key));
        async move {
            let answer = request.send().await.unwrap();
            (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
        }
    };
    let first = send(resend_mail("dlv_1"), "k1").await;
    assert_eq!(send(resend_mail("dlv_1"), "k1").await, first);
    assert_eq!(sink.sink.accepted(), 1);
    let (status, body) = send(resend_mail("dlv_2"), "k1").await;
    assert_eq!((status, body["name"].as_str()), (409, Some("invalid_idempotent_request")));
    assert_ne!(send(resend_mail("dlv_1"), "k2").await, first, "another key is another mail");
    assert_eq!((sink.sink.accepted(), sink.sink.requests("resend")), (2, 4));
    for key in ["", &"k".repeat(257)] {
        let answer = sink.resend_request(&resend_mail("dlv_1"), Some(key)).send().await.unwrap();
        assert_eq!(answer.status(), 400);
        assert_eq!(answer.json::<Value>().await.unwrap()["name"], "invalid_idempotency_key");
    }
}

#[tokio::test]
async fn a_lost_answer_is_given_again_and_a_refusal_is_not_remembered() {
    let sink = TestSink::start().await;
    sink.script(json!([
        { "provider": "resend", "fault": "http_500", "count": 1 },
        { "provider": "resend", "fault": "timeout_after_accept", "count": 1 },
    ]))
    .await;
    let request = || sink.resend_request(&resend_mail("dlv_1"), Some("k"));
    assert_eq!(request().send().await.unwrap().status(), 500);
    assert!(request().timeout(Duration::from_millis(300)).send().await.unwrap_err().is_timeout());
    assert_eq!(sink.sink.accepted(), 1);
    let again = request().send().await.unwrap();
    assert_eq!(again.status(), 200);
    assert_eq!(again.json::<Value>().await.unwrap()["id"], sink.sink.mails()[0].message_id);
    assert_eq!(sink.sink.accepted(), 1);
}

#[tokio::test]
async fn two_calls_at_once_with_one_key_are_a_conflict_until_the_first_has_gone() {
    let sink = TestSink::start().await;
    sink.script(json!([{ "provider": "resend", "fault": "timeout_before_accept", "count": 1 }])).await;
    let request = || sink.resend_request(&resend_mail("dlv_1"), Some("k"));
    let silent = tokio::spawn(request().timeout(Duration::from_millis(800)).send());
    eventually("the first call", || sink.sink.remaining_faults().is_empty()).await;
    let answer = request().send().await.unwrap();
    assert_eq!(answer.status(), 409);
    assert_eq!(answer.json::<Value>().await.unwrap()["name"], "concurrent_idempotent_requests");
    assert!(silent.await.unwrap().unwrap_err().is_timeout());
    for _ in 0..100 {
        if request().send().await.unwrap().status() == 200 {
            assert_eq!(sink.sink.accepted(), 1);
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the key stays taken");
}

#[tokio::test]
async fn refusals_have_their_status_and_name() {
    let sink = TestSink::start().await;
    for (fault, status, name) in [
        ("http_500", 500u16, "application_error"),
        ("throttle", 429, "rate_limit_exceeded"),
        ("daily_quota", 429, "daily_quota_exceeded"),
        ("unauthorized", 401, "validation_error"),
        ("reject", 422, "validation_error"),
        ("sending_paused", 403, "invalid_permission"),
        ("account_suspended", 403, "suspended_api_key"),
        ("unverified_identity", 403, "validation_error"),
        ("nul_body", 422, "validation_error"),
    ] {
        sink.script(json!([{ "provider": "resend", "fault": fault, "count": 1 }])).await;
        let answer = sink.resend_request(&resend_mail("dlv_1"), None).send().await.unwrap();
        assert_eq!(answer.status(), status, "{fault}");
        assert_eq!(answer.headers().contains_key("retry-after"), fault == "throttle", "{fault}");
        let body: Value = answer.json().await.unwrap();
        assert_eq!(
            (body["name"].as_str(), body["statusCode"].as_u64()),
            (Some(name), Some(u64::from(status))),
            "{fault}"
        );
        assert_eq!(body["message"].as_str().unwrap().contains('\0'), fault == "nul_body", "{fault}");
    }
    assert_eq!(sink.sink.accepted(), 0);
}
