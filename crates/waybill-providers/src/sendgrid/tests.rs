use super::*;
use crate::{
    http::MAX_ANSWER_BYTES,
    test_mail::{mail, mail_with_attachment},
    test_server::{STRANGE_ANSWERS, TestServer},
};
use waybill_crypto::Secret;

fn provider(url: &str, timeout: Duration) -> SendGridProvider {
    let config = SendGridConfig { base_url: url.to_owned(), timeout, ..SendGridConfig::new(Secret::from("SG.secret")) };
    SendGridProvider::new(config).unwrap()
}

async fn send_to(answer: &str) -> (Outcome, usize) {
    let server = TestServer::start(answer).await;
    let outcome = provider(&server.url, Duration::from_secs(5)).send(&mail()).await;
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
async fn the_id_in_the_head_is_enough_even_if_the_body_breaks_off() {
    let (outcome, _) = send_to("HTTP/1.1 202 Accepted\r\nx-message-id: abc123\r\ncontent-length: 100\r\n\r\ncut").await;
    assert_eq!(outcome, Outcome::Accepted { provider_message_id: "abc123".into() });
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let server = TestServer::keeping("HTTP/1.1 202 Accepted\r\nx-message-id: a\r\ncontent-length: 0\r\n\r\n").await;
    let provider = provider(&server.url, Duration::from_secs(5));
    for _ in 0..2 {
        assert_eq!(provider.send(&mail()).await.as_str(), "accepted");
    }
    assert_eq!((server.requests(), server.connections()), (2, 1));
}

#[tokio::test]
async fn sandbox_mode_is_no_delivery() {
    let (outcome, _) = send_to("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(outcome.as_str(), "unusable");
    assert!(outcome.detail().contains("sandbox"), "{outcome:?}");
}

#[tokio::test]
async fn an_endless_body_is_not_read_to_its_end() {
    let endless = format!("HTTP/1.1 400 Bad\r\ncontent-length: 999999999\r\n\r\n{}", "x".repeat(4 * MAX_ANSWER_BYTES));
    let (outcome, _) = send_to(&endless).await;
    assert_eq!(outcome, Outcome::RejectedMessage { detail: "HTTP 400".into() });
}

#[tokio::test]
async fn the_key_is_never_printed() {
    let config = SendGridConfig::new(Secret::from("SG.secret"));
    assert!(!format!("{config:?}").contains("SG.secret"));
    for key in ["", "  ", "SG.secret\n\nx"] {
        let error = SendGridProvider::new(SendGridConfig::new(Secret::from(key))).err().unwrap();
        assert!(!format!("{error} {error:?}").contains("SG.secret"), "{error:?}");
    }
    let refused = provider("http://127.0.0.1:1", Duration::from_secs(2)).send(&mail()).await;
    assert!(!refused.detail().contains("SG.secret"));
    assert_eq!(refused.as_str(), "unavailable");
}

#[tokio::test]
async fn a_base_url_that_is_none_is_refused_at_start() {
    for url in ["api.sendgrid.com", "ftp://x.example", ""] {
        let config = SendGridConfig { base_url: url.into(), ..SendGridConfig::new(Secret::from("SG.x")) };
        assert!(matches!(SendGridProvider::new(config), Err(SetupError::BaseUrl)), "{url}");
    }
}

#[tokio::test]
async fn ses_05_what_is_too_large_is_no_request() {
    let server = TestServer::start("").await;
    let outcome = provider(&server.url, Duration::from_secs(5)).send(&mail_with_attachment(23_000_000)).await;
    assert_eq!((outcome.as_str(), server.requests()), ("rejected_message", 0));
}
