use serde_json::{Value, json};
use waybill_sink::Provider;

use crate::common::{PDF, TestSink, sendgrid_mail};

#[tokio::test]
async fn a_mail_is_accepted_with_an_empty_body_and_an_id_header() {
    let sink = TestSink::start().await;
    let answer = sink.send_sendgrid(&sendgrid_mail("dlv_1")).await;
    assert_eq!(answer.status(), 202);
    let id = answer.headers()["x-message-id"].to_str().unwrap().to_owned();
    assert_eq!(answer.bytes().await.unwrap().len(), 0);
    let mail = sink.sink.mails().remove(0);
    assert_eq!((mail.provider, mail.message_id), (Provider::SendGrid, id));
    assert_eq!((mail.to.as_str(), mail.from.as_str()), ("ada@example.com", "Acme <no-reply@acme.example>"));
    assert_eq!((mail.text.as_deref(), &mail.attachments[0].content[..]), (Some("See the attachment"), PDF));
    assert_eq!(sink.sink.acceptances_by_delivery()["dlv_1"], 1);
    assert_eq!(sink.sink.requests("sendgrid"), 1);
}

#[tokio::test]
async fn a_missing_key_is_a_json_401() {
    let sink = TestSink::start().await;
    let answer = sink.http.post(sink.url("/v3/mail/send")).json(&sendgrid_mail("dlv_1")).send().await.unwrap();
    assert_eq!(answer.status(), 401);
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["errors"][0]["field"], Value::Null);
    assert!(body["errors"][0]["message"].is_string());
    assert_eq!(sink.sink.accepted(), 0);
}

#[tokio::test]
async fn mistakes_are_answered_with_message_field_and_help() {
    let sink = TestSink::start().await;
    let mut body = sendgrid_mail("dlv_1");
    body["personalizations"][0]["to"][0]["email"] = json!("nobody");
    body["subject"] = json!("");
    let answer = sink.send_sendgrid(&body).await;
    assert_eq!(answer.status(), 400);
    let errors: Value = answer.json().await.unwrap();
    let mut fields: Vec<&str> =
        errors["errors"].as_array().unwrap().iter().map(|error| error["field"].as_str().unwrap()).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["personalizations.0.to.0.email", "subject"]);
    let help = errors["errors"][0]["help"].as_str().unwrap();
    assert!(help.contains("#message.personalizations.to.email"), "{help}");
}

#[tokio::test]
async fn a_content_type_other_than_json_is_refused() {
    let sink = TestSink::start().await;
    let request = sink.http.post(sink.url("/v3/mail/send")).bearer_auth("SG.test").body("{}");
    assert_eq!(request.send().await.unwrap().status(), 415);
}

#[tokio::test]
async fn too_large_is_an_html_page_of_the_web_server() {
    let sink = TestSink::start().await;
    let mut body = sendgrid_mail("dlv_big");
    body["attachments"][0]["content"] = json!("A".repeat(31 * 1024 * 1024));
    let answer = sink.send_sendgrid(&body).await;
    assert_eq!(answer.status(), 413);
    assert_eq!(answer.headers()["content-type"], "text/html");
    assert!(answer.text().await.unwrap().starts_with("<html>"));
    assert_eq!(sink.sink.accepted(), 0);
}

#[tokio::test]
async fn sandbox_mode_checks_and_delivers_nothing() {
    let sink = TestSink::start().await;
    let mut body = sendgrid_mail("dlv_1");
    body["mail_settings"] = json!({ "sandbox_mode": { "enable": true } });
    let answer = sink.send_sendgrid(&body).await;
    assert_eq!(answer.status(), 200);
    assert!(!answer.headers().contains_key("x-message-id"));
    assert_eq!(sink.sink.accepted(), 0);
    body["from"] = Value::Null;
    assert_eq!(sink.send_sendgrid(&body).await.status(), 400);
}

#[tokio::test]
async fn a_key_has_the_scope_to_send() {
    let sink = TestSink::start().await;
    let get = || sink.http.get(sink.url("/v3/scopes"));
    assert_eq!(get().send().await.unwrap().status(), 401);
    let scopes: Value = get().bearer_auth("SG.test").send().await.unwrap().json().await.unwrap();
    assert_eq!(scopes, json!({ "scopes": ["mail.send"] }));
}
