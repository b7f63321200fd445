use serde_json::{Value, json};

use crate::common::{TestSink, sendgrid_mail, ses_mail};

#[tokio::test]
async fn counts_show_acceptances_requests_and_duplicates() {
    let sink = TestSink::start().await;
    sink.script(json!([{ "provider": "ses", "fault": "http_500", "count": 1 }])).await;
    for delivery in ["dlv_1", "dlv_1", "dlv_2", "dlv_2", "dlv_2"] {
        sink.send_ses(&ses_mail(delivery)).await;
    }
    sink.send_sendgrid(&sendgrid_mail("dlv_2")).await;
    let mut untagged = sendgrid_mail("-");
    untagged["personalizations"][0]["custom_args"] = json!({});
    sink.send_sendgrid(&untagged).await;
    let mut counts = sink.get_json("/counts").await;
    counts.as_object_mut().unwrap().remove("events");
    let expected = json!({
        "accepted": 6,
        "by_provider": { "ses": 4, "sendgrid": 2, "resend": 0, "postmark": 0, "smtp": 0 },
        "requests": { "ses": 5, "sendgrid": 2, "resend": 0, "postmark": 0, "smtp": 0 },
        "without_delivery_id": 1,
        "duplicates": { "deliveries": 1, "delivery_repeats": 3, "identities": 1, "identity_repeats": 2 },
    });
    assert_eq!(counts, expected);
    assert_eq!(sink.get_json("/counts/deliveries").await, json!({ "dlv_1": 1, "dlv_2": 4 }));
    let identities = json!({ "identity-of-dlv_1": 1, "identity-of-dlv_2": 3 });
    assert_eq!(sink.get_json("/counts/identities").await, identities);
}

#[tokio::test]
async fn counts_can_be_reset_without_touching_the_mailbox() {
    let sink = TestSink::start().await;
    sink.send_ses(&ses_mail("dlv_1")).await;
    assert_eq!(sink.http.delete(sink.url("/counts")).send().await.unwrap().status(), 204);
    assert_eq!((sink.sink.accepted(), sink.sink.requests("ses")), (0, 0));
    assert_eq!(sink.get_json("/counts/deliveries").await, json!({}));
    assert_eq!(sink.get_json("/mailbox").await.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn parallel_requests_are_all_counted() {
    let sink = TestSink::start().await;
    let sends = (0..200).map(|n| {
        let request = sink.ses_request(&ses_mail(&format!("dlv_{}", n % 50)));
        async move { request.send().await.expect("an answer").status().as_u16() }
    });
    let statuses = futures::future::join_all(sends).await;
    assert!(statuses.iter().all(|status| *status == 200));
    let deliveries = sink.sink.acceptances_by_delivery();
    assert_eq!((deliveries.len(), deliveries.values().sum::<u64>()), (50, 200));
}

#[tokio::test]
async fn health_is_answered() {
    let sink = TestSink::start().await;
    assert_eq!(sink.get_json("/healthz").await, json!({ "status": "ok" }));
}

#[tokio::test]
async fn an_events_target_outside_loopback_is_refused_unless_allowed() {
    let sink = TestSink::start().await;
    let body = json!({ "sendgrid_url": "http://user:secret@events.example/in" });
    let answer = sink.put("/events-target", &body).await;
    assert_eq!(answer.status(), 422);
    let problem: Value = answer.json().await.unwrap();
    assert_eq!(problem["errors"][0]["pointer"], "/sendgrid_url");
    assert!(problem["detail"].as_str().unwrap().contains("loopback"));
    assert_eq!(sink.get_json("/events-target").await, Value::Null);
    sink.sink.allow_remote_events();
    let taken: Value = sink.put("/events-target", &body).await.json().await.unwrap();
    assert_eq!(taken["sendgrid_url"], "http://user:***@events.example/in");
}

#[tokio::test]
async fn a_misspelt_field_of_the_target_is_refused() {
    let sink = TestSink::start().await;
    assert_eq!(sink.put("/events-target", &json!({ "sesurl": "http://127.0.0.1:1/" })).await.status(), 422);
    let answer = sink.http.put(sink.url("/events-target")).body("{").send().await.unwrap();
    assert_eq!(answer.status(), 400);
}
