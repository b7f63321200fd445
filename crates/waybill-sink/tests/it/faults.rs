use std::time::{Duration, Instant};

use serde_json::{Value, json};
use waybill_sink::{Fault, FaultKind, Provider};

use crate::common::{TestSink, eventually, sendgrid_mail, ses_mail};

async fn ses_error(sink: &TestSink, fault: &str) -> (u16, String, String) {
    sink.script(json!([{ "provider": "ses", "fault": fault, "count": 1 }])).await;
    let answer = sink.send_ses(&ses_mail("dlv_1")).await;
    let status = answer.status().as_u16();
    let code = answer.headers()["x-amzn-errortype"].to_str().expect("ASCII").to_owned();
    let body: Value = answer.json().await.expect("JSON");
    (status, code, body["message"].as_str().expect("a message").to_owned())
}

#[tokio::test]
async fn ses_01_refusals_of_ses_have_their_code_and_text() {
    let sink = TestSink::start().await;
    let cases = [
        ("http_500", 500, "InternalFailure", ""),
        ("throttle", 429, "TooManyRequestsException", "Maximum sending rate exceeded"),
        ("daily_quota", 429, "TooManyRequestsException", "Daily message quota exceeded"),
        ("unauthorized", 403, "UnrecognizedClientException", "security token"),
        ("reject", 400, "MessageRejected", ""),
        ("sending_paused", 400, "SendingPausedException", ""),
        ("account_suspended", 400, "AccountSuspendedException", ""),
        ("unverified_identity", 400, "MessageRejected", "Email address is not verified"),
        ("nul_body", 400, "BadRequestException", "\0"),
    ];
    for (fault, status, code, text) in cases {
        let (got_status, got_code, message) = ses_error(&sink, fault).await;
        assert_eq!((got_status, got_code.as_str()), (status, code), "{fault}");
        assert!(message.contains(text), "{fault}: {message}");
    }
    assert_eq!(sink.sink.accepted(), 0);
    assert_eq!(sink.sink.requests("ses"), cases.len() as u64);
}

#[tokio::test]
async fn refusals_of_sendgrid_have_their_status_and_shape() {
    let sink = TestSink::start().await;
    let cases = [
        ("http_500", 500),
        ("throttle", 429),
        ("daily_quota", 401),
        ("unauthorized", 401),
        ("reject", 400),
        ("sending_paused", 403),
        ("account_suspended", 403),
        ("unverified_identity", 403),
        ("nul_body", 400),
    ];
    for (fault, status) in cases {
        sink.script(json!([{ "provider": "sendgrid", "fault": fault, "count": 1 }])).await;
        let answer = sink.send_sendgrid(&sendgrid_mail("dlv_1")).await;
        assert_eq!(answer.status(), status, "{fault}");
        assert_eq!(answer.headers().contains_key("x-ratelimit-reset"), fault == "throttle", "{fault}");
        let body: Value = answer.json().await.unwrap();
        let message = body["errors"][0]["message"].as_str().unwrap();
        assert_eq!(message.contains('\0'), fault == "nul_body", "{fault}");
    }
    assert_eq!(sink.sink.accepted(), 0);
}

#[tokio::test]
async fn no_message_id_is_a_success_status_without_a_mail() {
    let sink = TestSink::start().await;
    sink.script(json!([
        { "provider": "ses", "fault": "no_message_id", "count": 1 },
        { "provider": "sendgrid", "fault": "no_message_id", "count": 1 },
    ]))
    .await;
    let ses = sink.send_ses(&ses_mail("dlv_1")).await;
    assert_eq!(ses.status(), 200);
    assert_eq!(ses.json::<Value>().await.unwrap(), json!({}));
    let sendgrid = sink.send_sendgrid(&sendgrid_mail("dlv_1")).await;
    assert_eq!(sendgrid.status(), 202);
    assert!(!sendgrid.headers().contains_key("x-message-id"));
    assert_eq!((sink.sink.accepted(), sink.sink.mails().len()), (0, 0));
}

#[tokio::test]
async fn bodies_that_are_not_json() {
    let sink = TestSink::start().await;
    for provider in ["ses", "sendgrid"] {
        sink.script(json!([
            { "provider": provider, "fault": "html_body", "count": 1 },
            { "provider": provider, "fault": "raw_nul_body", "count": 1 },
        ]))
        .await;
        let send = || async {
            if provider == "ses" {
                sink.send_ses(&ses_mail("dlv_1")).await
            } else {
                sink.send_sendgrid(&sendgrid_mail("dlv_1")).await
            }
        };
        let html = send().await;
        assert_eq!((html.status().as_u16(), html.headers()["content-type"].to_str().unwrap()), (502, "text/html"));
        assert!(html.text().await.unwrap().contains("502 Bad Gateway"));
        let nul = send().await;
        assert_eq!(nul.status(), 400);
        assert!(nul.bytes().await.unwrap().contains(&0));
    }
    assert_eq!(sink.sink.accepted(), 0);
}

#[tokio::test]
async fn an_accepted_mail_without_an_answer_is_counted_once() {
    let sink = TestSink::start().await;
    sink.script(json!([{ "provider": "ses", "fault": "timeout_after_accept", "count": 1 }])).await;
    let error = sink.ses_request(&ses_mail("dlv_1")).timeout(Duration::from_millis(300)).send().await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(sink.sink.acceptances_by_delivery()["dlv_1"], 1);
    assert_eq!(sink.sink.mails().len(), 1);
}

#[tokio::test]
async fn silence_without_acceptance_ends_in_a_closed_connection() {
    let sink = TestSink::start().await;
    sink.script(json!([{ "provider": "sendgrid", "fault": "timeout_before_accept", "count": 1, "delay_ms": 200 }]))
        .await;
    let started = Instant::now();
    let error = sink.sendgrid_request(&sendgrid_mail("dlv_1")).send().await.unwrap_err();
    assert!(!error.is_timeout() && started.elapsed() >= Duration::from_millis(200), "{error:?}");
    assert_eq!((sink.sink.accepted(), sink.sink.requests("sendgrid")), (0, 1));
}

/// The innermost I/O error: whether the client really saw a reset, not merely an end of the stream.
fn io_kind(error: &reqwest::Error) -> Option<std::io::ErrorKind> {
    let mut source: Option<&dyn std::error::Error> = Some(error);
    let mut kind = None;
    while let Some(error) = source {
        kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind).or(kind);
        source = error.source();
    }
    kind
}

#[tokio::test]
async fn a_reset_is_a_connection_error_at_the_client() {
    let sink = TestSink::start().await;
    for (fault, accepted) in [("reset", 0), ("reset_after_accept", 1)] {
        sink.script(json!([{ "provider": "ses", "fault": fault, "count": 1 }])).await;
        let error = sink.ses_request(&ses_mail("dlv_1")).send().await.unwrap_err();
        assert!(error.is_request() && !error.is_timeout(), "{error:?}");
        assert_eq!(io_kind(&error), Some(std::io::ErrorKind::ConnectionReset), "{error:?}");
        assert_eq!(sink.sink.accepted(), accepted, "{fault}");
    }
    assert_eq!(sink.send_ses(&ses_mail("dlv_1")).await.status(), 200);
}

#[tokio::test]
async fn under_another_server_a_reset_still_breaks_the_answer() {
    let sink = waybill_sink::Sink::new(waybill_sink::SinkConfig::default());
    sink.set_faults(vec![Fault::new(Provider::Ses, FaultKind::Reset)]);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v2/email/outbound-emails", listener.local_addr().unwrap());
    let server = tokio::spawn(axum::serve(listener, sink.router()).into_future());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let sent = client.post(url).header("authorization", "AWS4").json(&ses_mail("dlv_1")).send().await;
    let broken = match sent {
        Ok(answer) => answer.bytes().await.is_err(),
        Err(_) => true,
    };
    assert!(broken);
    assert_eq!(sink.accepted(), 0);
    server.abort();
}

#[tokio::test]
async fn slow_accepts_after_its_delay_even_when_the_client_has_left() {
    let sink = TestSink::start().await;
    sink.script(json!([{ "provider": "ses", "fault": "slow", "count": 2, "delay_ms": 250 }])).await;
    let started = Instant::now();
    assert_eq!(sink.send_ses(&ses_mail("dlv_1")).await.status(), 200);
    assert!(started.elapsed() >= Duration::from_millis(250));
    let left = sink.ses_request(&ses_mail("dlv_2")).timeout(Duration::from_millis(50)).send().await;
    assert!(left.unwrap_err().is_timeout());
    assert_eq!(sink.sink.accepted(), 1);
    eventually("the late acceptance", || sink.sink.accepted() == 2).await;
}

#[tokio::test]
async fn an_error_after_acceptance_leaves_the_mail() {
    let sink = TestSink::start().await;
    sink.script(json!([{ "provider": "sendgrid", "fault": "http_500_after_accept", "count": 1 }])).await;
    assert_eq!(sink.send_sendgrid(&sendgrid_mail("dlv_1")).await.status(), 500);
    assert_eq!(sink.sink.acceptances_by_delivery()["dlv_1"], 1);
}

#[tokio::test]
async fn counts_go_down_and_the_next_entry_takes_over() {
    let sink = TestSink::start().await;
    sink.script(json!([
        { "provider": "ses", "fault": "http_500", "count": 2, "match": "ada@" },
        { "provider": "sendgrid", "fault": "throttle" },
    ]))
    .await;
    assert_eq!(sink.send_ses(&ses_mail("dlv_1")).await.status(), 500);
    let left = sink.get_json("/faults").await;
    let expected = json!([
        { "provider": "ses", "fault": "http_500", "count": 1, "match": "ada@" },
        { "provider": "sendgrid", "fault": "throttle" },
    ]);
    assert_eq!(left, expected);
    let mut other = ses_mail("dlv_2");
    other["Destination"]["ToAddresses"] = json!(["bob@example.com"]);
    assert_eq!(sink.send_ses(&other).await.status(), 200);
    assert_eq!(sink.send_ses(&ses_mail("dlv_1")).await.status(), 500);
    assert_eq!(sink.send_ses(&ses_mail("dlv_1")).await.status(), 200);
    assert_eq!(sink.get_json("/faults").await, json!([{ "provider": "sendgrid", "fault": "throttle" }]));
    for _ in 0..3 {
        assert_eq!(sink.send_sendgrid(&sendgrid_mail("dlv_3")).await.status(), 429);
    }
}

#[tokio::test]
async fn a_wrong_script_is_a_422_that_names_the_field_and_changes_nothing() {
    let sink = TestSink::start().await;
    sink.script(json!([{ "provider": "ses", "fault": "reject" }])).await;
    let cases = [
        (json!([{ "provider": "ses", "fault": "explode" }]), "/0/fault"),
        (json!([{ "provider": "postbus", "fault": "reject" }]), "/0/provider"),
        (json!([{ "provider": "ses", "fault": "reject", "count": "2" }]), "/0/count"),
        (json!({}), ""),
    ];
    for (body, pointer) in cases {
        let answer = sink.put("/faults", &body).await;
        assert_eq!(answer.status(), 422);
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
        let problem: Value = answer.json().await.unwrap();
        assert_eq!(problem["errors"][0]["pointer"], pointer);
        assert!(problem["detail"].as_str().unwrap().contains(pointer));
    }
    assert_eq!(sink.put("/faults", &json!([])).await.status(), 200);
    assert_eq!(sink.send_ses(&ses_mail("dlv_1")).await.status(), 200);
}

#[tokio::test]
async fn shutdown_does_not_wait_for_held_requests() {
    let sink = TestSink::start().await;
    sink.script(json!([{ "provider": "ses", "fault": "timeout_after_accept" }])).await;
    let held = tokio::spawn(sink.ses_request(&ses_mail("dlv_1")).send());
    eventually("the acceptance", || sink.sink.accepted() == 1).await;
    sink.shutdown.cancel();
    let stopped = tokio::time::timeout(Duration::from_secs(2), sink.server).await;
    assert!(stopped.expect("stops quickly").unwrap().is_ok());
    assert!(held.await.unwrap().is_err());
}

#[tokio::test]
async fn answers_that_drip_or_do_not_end_come_after_acceptance() {
    let sink = TestSink::start().await;
    sink.script(json!([
        { "provider": "sendgrid", "fault": "drip", "count": 1 },
        { "provider": "sendgrid", "fault": "huge_body", "count": 1 },
    ]))
    .await;
    let error = sink.sendgrid_request(&sendgrid_mail("dlv_1")).timeout(Duration::from_millis(400)).send().await;
    assert!(error.unwrap_err().is_timeout());
    let huge = sink.send_sendgrid(&sendgrid_mail("dlv_2")).await;
    assert_eq!((huge.status().as_u16(), huge.headers().contains_key("x-message-id")), (202, false));
    assert_eq!(huge.bytes().await.unwrap().len(), 16 << 20);
    assert_eq!(sink.sink.acceptances_by_delivery().len(), 2);
}

#[tokio::test]
async fn gateways_refuse_before_the_provider_does() {
    let sink = TestSink::start().await;
    for (fault, status, retry_after) in
        [("too_large", 413, None), ("throttle_bare", 429, None), ("throttle_retry_after", 429, Some("7"))]
    {
        sink.script(json!([{ "provider": "ses", "fault": fault, "count": 1 }])).await;
        let answer = sink.send_ses(&ses_mail("dlv_1")).await;
        assert_eq!(answer.status(), status, "{fault}");
        assert_eq!(answer.headers().get("retry-after").map(|value| value.to_str().unwrap()), retry_after, "{fault}");
    }
    assert_eq!(sink.sink.accepted(), 0);
}
