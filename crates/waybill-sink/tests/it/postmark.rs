use serde_json::{Value, json};
use waybill_sink::Provider;

use crate::common::{PDF, TestSink, postmark_mail};

#[tokio::test]
async fn a_mail_is_accepted_with_code_0_and_an_id() {
    let sink = TestSink::start().await;
    let answer = sink.postmark_request(&postmark_mail("dlv_1")).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let body: Value = answer.json().await.unwrap();
    assert_eq!((body["ErrorCode"].as_u64(), body["Message"].as_str()), (Some(0), Some("OK")));
    let at = body["SubmittedAt"].as_str().unwrap();
    assert!(at.ends_with('Z') && at.len() == "2026-11-30T12:00:00.0000000Z".len(), "{at}");
    let mail = sink.sink.mails().remove(0);
    assert_eq!((mail.provider, Some(mail.message_id.as_str())), (Provider::Postmark, body["MessageID"].as_str()));
    assert_eq!((mail.to.as_str(), &mail.attachments[0].content[..]), ("ada@example.com", PDF));
    assert_eq!(sink.sink.acceptances_by_delivery()["dlv_1"], 1);
}

#[tokio::test]
async fn a_call_needs_a_token_and_accepts_json() {
    let sink = TestSink::start().await;
    let post = || sink.http.post(sink.url("/email")).json(&postmark_mail("dlv_1"));
    for (request, status, code) in [
        (post().header("accept", "application/json"), 401, 10),
        (post().header("x-postmark-server-token", "x"), 406, 409),
    ] {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), status);
        assert_eq!(answer.json::<Value>().await.unwrap()["ErrorCode"], code);
    }
    assert_eq!(sink.sink.accepted(), 0);
}

#[tokio::test]
async fn refusals_have_their_status_and_code() {
    let sink = TestSink::start().await;
    for (fault, status, code) in [
        ("http_500", 500u16, 500),
        ("throttle", 429, 429),
        ("daily_quota", 422, 405),
        ("unauthorized", 401, 10),
        ("reject", 422, 300),
        ("sending_paused", 422, 412),
        ("account_suspended", 422, 413),
        ("unverified_identity", 422, 400),
        ("nul_body", 422, 300),
    ] {
        sink.script(json!([{ "provider": "postmark", "fault": fault, "count": 1 }])).await;
        let answer = sink.postmark_request(&postmark_mail("dlv_1")).send().await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), answer.headers().contains_key("retry-after")),
            (status, false),
            "{fault}"
        );
        let body: Value = answer.json().await.unwrap();
        assert_eq!(body["ErrorCode"], code, "{fault}");
        assert_eq!(body["Message"].as_str().unwrap().contains('\0'), fault == "nul_body", "{fault}");
    }
    assert_eq!(sink.sink.accepted(), 0);
}

#[tokio::test]
async fn pv_02_an_inactive_recipient_is_422_with_code_406() {
    let sink = TestSink::start().await;
    let mut body = postmark_mail("dlv_1");
    body["To"] = json!("inactive@example.com");
    let answer = sink.postmark_request(&body).send().await.unwrap();
    assert_eq!(answer.status(), 422);
    assert_eq!(answer.json::<Value>().await.unwrap()["ErrorCode"], 406);
    assert_eq!(sink.sink.accepted(), 0);
}
