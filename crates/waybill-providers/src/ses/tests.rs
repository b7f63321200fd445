use super::*;
use crate::{
    test_mail::mail,
    test_server::{STRANGE_ANSWERS, TestServer},
};
use aws_credential_types::{
    Credentials,
    provider::{ProvideCredentials, SharedCredentialsProvider, error::CredentialsError, future},
};
use waybill_crypto::Secret;

fn config(url: &str) -> SesConfig {
    SesConfig {
        account: "test".into(),
        region: "eu-central-1".into(),
        endpoint_url: Some(url.to_owned()),
        configuration_set: None,
        credentials: SesCredentials::Static {
            access_key_id: "AKIATEST".into(),
            secret_access_key: Secret::from("hush-hush"),
            session_token: Some(Secret::from("hush-hush")),
        },
        timeout: Duration::from_secs(5),
        events_wired: false,
    }
}

async fn send_to(answer: &str) -> (Outcome, usize) {
    let server = TestServer::start(answer).await;
    let outcome = SesProvider::new(config(&server.url)).await.send(&mail()).await;
    (outcome, server.requests())
}

fn with_body(head: &str, body: &str) -> String {
    format!("HTTP/1.1 {head}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn strange_answers_are_one_request_and_an_honest_outcome() {
    for (answer, expected) in STRANGE_ANSWERS {
        let (outcome, requests) = send_to(answer).await;
        assert_eq!(outcome.as_str(), *expected, "{answer:?}: {outcome:?}");
        assert_eq!(requests, 1, "{answer:?}: the SDK's retries are off");
    }
}

#[tokio::test]
async fn a_success_without_a_readable_id_is_unknown() {
    for body in ["", "{}", r#"{"MessageId":""}"#, r#"{"MessageId":null}"#, "<html>", "{\"MessageId\":", "\0\0", "[]"] {
        let (outcome, requests) = send_to(&with_body("200 OK", body)).await;
        assert_eq!((outcome.as_str(), requests), ("unknown", 1), "{body:?}: {outcome:?}");
    }
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"MessageId\":\"a\"}";
    assert_eq!(send_to(cut).await.0.as_str(), "unknown", "the body broke off");
    let (outcome, _) = send_to(&with_body("200 OK", r#"{"MessageId":"0107-a"}"#)).await;
    assert_eq!(outcome, Outcome::Accepted { provider_message_id: "0107-a".into() });
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let server = TestServer::keeping(&with_body("200 OK", r#"{"MessageId":"a"}"#)).await;
    let provider = SesProvider::new(config(&server.url)).await;
    for _ in 0..2 {
        assert_eq!(provider.send(&mail()).await.as_str(), "accepted");
    }
    assert_eq!((server.requests(), server.connections()), (2, 1));
}

#[tokio::test]
async fn the_code_is_found_in_the_header_and_in_the_body() {
    let header = "400 Bad Request\r\nx-amzn-errortype: SendingPausedException:http://internal.amazon.com/";
    let (outcome, _) = send_to(&with_body(header, r#"{"message":"paused"}"#)).await;
    assert_eq!(outcome, Outcome::Unusable { detail: "HTTP 400 SendingPausedException: paused".into() });
    let body = r#"{"__type":"com.amazonaws.sesv2#MessageRejected","message":"no"}"#;
    let (outcome, _) = send_to(&with_body("400 Bad Request", body)).await;
    assert_eq!(outcome, Outcome::RejectedMessage { detail: "HTTP 400 MessageRejected: no".into() });
}

#[tokio::test]
async fn ses_01_a_throttled_call_says_how_long_to_wait_and_is_not_repeated() {
    let head = "429 Too Many\r\nx-amzn-errortype: TooManyRequestsException\r\nx-amz-retry-after: 2500";
    let (outcome, requests) = send_to(&with_body(head, r#"{"message":"Maximum sending rate exceeded."}"#)).await;
    let Outcome::Throttled { retry_after, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((retry_after, requests), (Some(Duration::from_millis(2500)), 1));
}

#[derive(Debug)]
struct Broken(fn() -> CredentialsError);

impl ProvideCredentials for Broken {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(Err::<Credentials, _>((self.0)()))
    }
}

#[tokio::test]
async fn without_credentials_nothing_is_sent_and_the_account_is_unusable() {
    let server = TestServer::start("").await;
    for (error, expected) in [
        ((|| CredentialsError::not_loaded("none")) as fn() -> _, "unusable"),
        (|| CredentialsError::invalid_configuration("bad profile"), "unusable"),
        (|| CredentialsError::provider_error("STS says 503"), "unavailable"),
        (|| CredentialsError::provider_timed_out(Duration::from_secs(1)), "unavailable"),
    ] {
        let credentials = SesCredentials::Provider(SharedCredentialsProvider::new(Broken(error)));
        let provider = SesProvider::new(SesConfig { credentials, ..config(&server.url) }).await;
        let outcome = provider.send(&mail()).await;
        assert_eq!(outcome.as_str(), expected, "{outcome:?}");
    }
    assert_eq!(server.requests(), 0);
}

#[test]
fn the_secret_is_never_printed() {
    assert!(!format!("{:?}", config("http://x.example")).contains("hush-hush"));
}
