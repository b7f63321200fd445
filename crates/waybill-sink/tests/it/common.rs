//! A sink on a free port, and requests that the providers would take.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use waybill_sink::{Sink, SinkConfig};

pub(crate) const PDF: &[u8] = b"%PDF-1.7 not much of a document";

pub(crate) struct TestSink {
    pub(crate) sink: Sink,
    pub(crate) base: String,
    pub(crate) http: reqwest::Client,
    pub(crate) shutdown: CancellationToken,
    pub(crate) server: JoinHandle<std::io::Result<()>>,
}

impl TestSink {
    pub(crate) async fn start() -> Self {
        Self::with(SinkConfig::default()).await
    }

    pub(crate) async fn with(config: SinkConfig) -> Self {
        let sink = Sink::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let base = format!("http://{}", listener.local_addr().expect("bound"));
        let shutdown = CancellationToken::new();
        let server = tokio::spawn(sink.clone().serve(listener, shutdown.clone()));
        let http =
            reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(20)).build().expect("a plain client");
        TestSink { sink, base, http, shutdown, server }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    pub(crate) fn ses_request(&self, body: &Value) -> reqwest::RequestBuilder {
        self.http
            .post(self.url("/v2/email/outbound-emails"))
            .header("authorization", "AWS4-HMAC-SHA256 Credential=test/20261130/us-east-1/ses/aws4_request")
            .json(body)
    }

    pub(crate) async fn send_ses(&self, body: &Value) -> reqwest::Response {
        self.ses_request(body).send().await.expect("an answer")
    }

    pub(crate) fn sendgrid_request(&self, body: &Value) -> reqwest::RequestBuilder {
        self.http.post(self.url("/v3/mail/send")).bearer_auth("SG.test").json(body)
    }

    pub(crate) async fn send_sendgrid(&self, body: &Value) -> reqwest::Response {
        self.sendgrid_request(body).send().await.expect("an answer")
    }

    pub(crate) fn resend_request(&self, body: &Value, key: Option<&str>) -> reqwest::RequestBuilder {
        let request =
            self.http.post(self.url("/emails")).bearer_auth("re_test").header("user-agent", "test").json(body);
        key.into_iter().fold(request, |request, key| request.header("idempotency-key", key))
    }

    pub(crate) fn postmark_request(&self, body: &Value) -> reqwest::RequestBuilder {
        let request = self.http.post(self.url("/email")).header("accept", "application/json");
        request.header("x-postmark-server-token", "pm-test").json(body)
    }

    pub(crate) async fn get_json(&self, path: &str) -> Value {
        let answer =
            self.http.get(self.url(path)).header("accept", "application/json").send().await.expect("an answer");
        assert_eq!(answer.status(), 200, "{path}");
        answer.json().await.expect("JSON")
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> reqwest::Response {
        self.http.put(self.url(path)).json(body).send().await.expect("an answer")
    }

    /// Replaces the fault script over HTTP.
    pub(crate) async fn script(&self, faults: Value) {
        let answer = self.put("/faults", &faults).await;
        assert_eq!(answer.status(), 200, "{}", answer.text().await.expect("text"));
    }
}

/// What an SES client sends for one delivery with one attachment.
pub(crate) fn ses_mail(delivery_id: &str) -> Value {
    json!({
        "FromEmailAddress": "Acme <no-reply@acme.example>",
        "Destination": { "ToAddresses": ["ada@example.com"] },
        "Content": { "Simple": {
            "Subject": { "Data": "Invoice 17 für Ada", "Charset": "UTF-8" },
            "Body": { "Text": { "Data": "See the attachment" }, "Html": { "Data": "<p>See the <b>attachment</b></p>" } },
            "Headers": [{ "Name": "Auto-Submitted", "Value": "auto-generated" }],
            "Attachments": [{ "FileName": "invoice-17.pdf", "ContentType": "application/pdf", "RawContent": BASE64.encode(PDF) }],
        } },
        "ConfigurationSetName": "waybill",
        "EmailTags": [
            { "Name": "delivery_id", "Value": delivery_id },
            { "Name": "job_id", "Value": "job_1" },
            { "Name": "identity", "Value": format!("identity-of-{delivery_id}") },
        ],
    })
}

/// What a SendGrid client sends for one delivery with one attachment.
pub(crate) fn sendgrid_mail(delivery_id: &str) -> Value {
    json!({
        "personalizations": [{
            "to": [{ "email": "ada@example.com" }],
            "custom_args": { "delivery_id": delivery_id, "job_id": "job_1" },
        }],
        "from": { "email": "no-reply@acme.example", "name": "Acme" },
        "subject": "Invoice 17 für Ada",
        "content": [
            { "type": "text/plain", "value": "See the attachment" },
            { "type": "text/html", "value": "<p>See the <b>attachment</b></p>" },
        ],
        "attachments": [{ "content": BASE64.encode(PDF), "filename": "invoice-17.pdf", "type": "application/pdf" }],
    })
}

/// What a Resend client sends for one delivery with one attachment.
pub(crate) fn resend_mail(delivery_id: &str) -> Value {
    json!({
        "from": "\"Acme, Inc.\" <no-reply@acme.example>",
        "to": ["ada@example.com"],
        "subject": "Invoice 17 für Ada",
        "text": "See the attachment",
        "html": "<p>See the <b>attachment</b></p>",
        "attachments": [{ "content": BASE64.encode(PDF), "filename": "invoice-17.pdf", "content_type": "application/pdf" }],
        "tags": [{ "name": "delivery_id", "value": delivery_id }, { "name": "job_id", "value": "job_1" }],
    })
}

/// What a Postmark client sends for one delivery with one attachment.
pub(crate) fn postmark_mail(delivery_id: &str) -> Value {
    json!({
        "From": "\"Acme, Inc.\" <no-reply@acme.example>",
        "To": "ada@example.com",
        "Subject": "Invoice 17 für Ada",
        "TextBody": "See the attachment",
        "HtmlBody": "<p>See the <b>attachment</b></p>",
        "Attachments": [{ "Name": "invoice-17.pdf", "Content": BASE64.encode(PDF), "ContentType": "application/pdf" }],
        "Metadata": { "delivery_id": delivery_id, "job_id": "job_1" },
    })
}

/// Asks until `done` says so; fails after ten seconds.
pub(crate) async fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what} did not happen within ten seconds");
}
