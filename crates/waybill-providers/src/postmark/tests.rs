use super::*;
use crate::{
    test_mail::{mail, mail_with_attachment},
    test_server::{STRANGE_ANSWERS, TestServer},
};
use waybill_crypto::Secret;

fn provider(url: &str) -> PostmarkProvider {
    let timeout = Duration::from_secs(5);
    let config = PostmarkConfig { base_url: url.to_owned(), timeout, ..PostmarkConfig::new(Secret::from("pm-secret")) };
    PostmarkProvider::new(config).unwrap()
}

async fn send_to(answer: &str) -> (Outcome, usize) {
    let server = TestServer::start(answer).await;
    let outcome = provider(&server.url).send(&mail()).await;
    (outcome, server.requests())
}

#[tokio::test]
async fn strange_answers_are_one_request_and_an_honest_outcome() {
    for (answer, expected) in STRANGE_ANSWERS {
        let (outcome, requests) = send_to(answer).await;
        assert_eq!(outcome.as_str(), *expected, "{answer:?}: {outcome:?}");
        assert_eq!(requests, 1, "{answer:?}: no retry, no redirect followed");
    }
}

#[tokio::test]
async fn maintenance_is_certainly_not_accepted_and_any_other_503_is_not_certain() {
    let body = r#"{"ErrorCode":100,"Message":"Maintenance"}"#;
    let (outcome, _) =
        send_to(&format!("HTTP/1.1 503 Unavailable\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await;
    assert_eq!(outcome, Outcome::Unavailable { detail: "HTTP 503 100 Maintenance".into() });
    let (outcome, _) = send_to("HTTP/1.1 503 Unavailable\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(outcome.as_str(), "unknown");
}

#[tokio::test]
async fn a_success_whose_body_breaks_off_is_no_acceptance() {
    let (outcome, _) =
        send_to("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"ErrorCode\":0,\"MessageID\":\"m-1\"").await;
    assert_eq!(outcome.as_str(), "unknown");
}

#[tokio::test]
async fn the_token_is_never_printed() {
    let config = PostmarkConfig::new(Secret::from("pm-secret"));
    assert!(!format!("{config:?}").contains("pm-secret"));
    for token in ["", "  ", "pm-secret\n\nx"] {
        let error = PostmarkProvider::new(PostmarkConfig::new(Secret::from(token))).err().unwrap();
        assert!(!format!("{error} {error:?}").contains("pm-secret"), "{error:?}");
    }
}

#[tokio::test]
async fn ses_05_what_is_too_large_is_no_request() {
    let server = TestServer::start("").await;
    let outcome = provider(&server.url).send(&mail_with_attachment(8_000_000)).await;
    assert_eq!((outcome.as_str(), server.requests()), ("rejected_message", 0));
}
