use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};
use waybill_sink::Provider;

use crate::common::{PDF, TestSink, ses_mail};

async fn refused(answer: reqwest::Response) -> (u16, String, String) {
    let status = answer.status().as_u16();
    let code = answer.headers()["x-amzn-errortype"].to_str().expect("ASCII").to_owned();
    let body: Value = answer.json().await.expect("JSON");
    (status, code, body["message"].as_str().expect("a message").to_owned())
}

#[tokio::test]
async fn a_simple_mail_is_accepted_with_a_message_id() {
    let sink = TestSink::start().await;
    let answer = sink.send_ses(&ses_mail("dlv_1")).await;
    assert_eq!(answer.status(), 200);
    let body: Value = answer.json().await.unwrap();
    let mails = sink.sink.mails();
    let mail = &mails[0];
    assert_eq!(body, json!({ "MessageId": mail.message_id }));
    assert_eq!(mail.provider, Provider::Ses);
    assert_eq!((mail.to.as_str(), mail.subject.as_str()), ("ada@example.com", "Invoice 17 für Ada"));
    assert_eq!((mail.delivery_id(), mail.job_id()), (Some("dlv_1"), Some("job_1")));
    assert_eq!(mail.html.as_deref(), Some("<p>See the <b>attachment</b></p>"));
    assert_eq!(&mail.attachments[0].content[..], PDF);
    assert_eq!((sink.sink.accepted(), sink.sink.requests("ses")), (1, 1));
}

#[tokio::test]
async fn a_raw_mail_is_read_back() {
    let sink = TestSink::start().await;
    let raw = format!(
        "From: no-reply@acme.example\r\nTo: ada@example.com\r\nSubject: Raw\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nHi\r\n\
         --x\r\nContent-Type: application/pdf; name=a.pdf\r\nContent-Transfer-Encoding: base64\r\n\
         Content-Disposition: attachment; filename=a.pdf\r\n\r\n{}\r\n--x--\r\n",
        BASE64.encode(PDF)
    );
    let body = json!({
        "Destination": { "ToAddresses": ["bob@example.com"] },
        "Content": { "Raw": { "Data": BASE64.encode(raw) } },
        "EmailTags": [{ "Name": "delivery_id", "Value": "dlv_raw" }],
    });
    let answer = sink.send_ses(&body).await;
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    let mail = sink.sink.mails().remove(0);
    assert_eq!((mail.to.as_str(), mail.subject.as_str(), mail.text.as_deref()), ("bob@example.com", "Raw", Some("Hi")));
    assert_eq!((mail.attachments[0].filename.as_str(), &mail.attachments[0].content[..]), ("a.pdf", PDF));
    assert_eq!(sink.sink.acceptances_by_delivery()["dlv_raw"], 1);
}

#[tokio::test]
async fn a_request_without_authorization_is_refused_and_counted_as_a_request() {
    let sink = TestSink::start().await;
    let answer = sink.http.post(sink.url("/v2/email/outbound-emails")).json(&ses_mail("dlv_1")).send().await.unwrap();
    let (status, code, message) = refused(answer).await;
    assert_eq!((status, code.as_str()), (403, "MissingAuthenticationTokenException"));
    assert!(!message.is_empty());
    assert_eq!((sink.sink.accepted(), sink.sink.requests("ses")), (0, 1));
}

#[tokio::test]
async fn bad_requests_are_refused_in_the_shape_of_aws() {
    let sink = TestSink::start().await;
    let many: Vec<String> = (0..51).map(|n| format!("r{n}@example.com")).collect();
    let headers: Vec<Value> = (0..16).map(|n| json!({ "Name": format!("X-{n}"), "Value": "v" })).collect();
    let simple = "/Content/Simple";
    let cases = [
        ("/Content".to_owned(), json!(null)),
        ("/Content".to_owned(), json!({})),
        ("/FromEmailAddress".to_owned(), json!(null)),
        ("/FromEmailAddress".to_owned(), json!("Silva, Ana <ana@acme.example>")),
        ("/Destination/ToAddresses".to_owned(), json!([])),
        ("/Destination/ToAddresses".to_owned(), json!(many)),
        ("/Destination/ToAddresses/0".to_owned(), json!("søren@example.test")),
        (format!("{simple}/Subject"), json!(null)),
        (format!("{simple}/Body"), json!({})),
        (format!("{simple}/Headers"), json!(headers)),
        (format!("{simple}/Headers/0/Name"), json!("X-A\r\nBcc")),
        (format!("{simple}/Attachments/0/RawContent"), json!("not base64!")),
        (format!("{simple}/Attachments/0/FileName"), json!("run.exe")),
        ("/EmailTags/0/Value".to_owned(), json!("ada@example.com")),
    ];
    for (pointer, value) in cases {
        let mut body = ses_mail("dlv_1");
        *body.pointer_mut(&pointer).expect(&pointer) = value;
        let (status, code, message) = refused(sink.send_ses(&body).await).await;
        assert_eq!((status, code.as_str()), (400, "BadRequestException"), "{pointer}: {message}");
    }
    let mut template = ses_mail("dlv_1");
    template["Content"] = json!({ "Template": { "TemplateName": "welcome" } });
    let (status, code, _) = refused(sink.send_ses(&template).await).await;
    assert_eq!((status, code.as_str()), (404, "NotFoundException"));
    assert_eq!(sink.sink.accepted(), 0);
}

#[tokio::test]
async fn a_body_that_is_not_json_is_a_serialization_error() {
    let sink = TestSink::start().await;
    let answer = sink
        .http
        .post(sink.url("/v2/email/outbound-emails"))
        .header("authorization", "AWS4-HMAC-SHA256 test")
        .body("{\"Content\":")
        .send()
        .await
        .unwrap();
    let (status, code, _) = refused(answer).await;
    assert_eq!((status, code.as_str()), (400, "SerializationException"));
}

#[tokio::test]
async fn ses_05_a_mail_over_forty_megabytes_after_encoding_is_refused() {
    let sink = TestSink::start().await;
    let mut body = ses_mail("dlv_big");
    let content = vec![b'x'; 29 * 1024 * 1024 + 512 * 1024];
    body["Content"]["Simple"]["Attachments"][0]["RawContent"] = json!(BASE64.encode(content));
    let (status, code, message) = refused(sink.send_ses(&body).await).await;
    assert_eq!((status, code.as_str()), (400, "BadRequestException"));
    assert!(message.contains("41943040"), "{message}");
    assert_eq!(sink.sink.accepted(), 0);
}

#[tokio::test]
async fn the_account_looks_healthy() {
    let sink = TestSink::start().await;
    let get = || sink.http.get(sink.url("/v2/email/account"));
    assert_eq!(get().send().await.unwrap().status(), 403);
    let account: Value = get().header("authorization", "AWS4").send().await.unwrap().json().await.unwrap();
    assert_eq!((&account["EnforcementStatus"], &account["SendingEnabled"]), (&json!("HEALTHY"), &json!(true)));
}
