use super::*;
use crate::{
    http::MAX_ANSWER_BYTES,
    test_mail::{mail, mail_with_attachment},
    test_server::{STRANGE_ANSWERS, TestServer},
};
use waybill_crypto::Secret;

fn provider(url: &str) -> ResendProvider {
    let timeout = Duration::from_secs(5);
    let config = ResendConfig { base_url: url.to_owned(), timeout, ..ResendConfig::new(Secret::from("re_secret")) };
    ResendProvider::new(config).unwrap()
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
async fn a_success_whose_body_breaks_off_or_does_not_end_is_no_acceptance() {
    let (outcome, _) = send_to("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"id\":\"49a3\"").await;
    assert_eq!(outcome.as_str(), "unknown");
    let padded = format!("{{\"pad\":\"{}\",\"id\":\"49a3\"}}", "x".repeat(2 * MAX_ANSWER_BYTES));
    let (outcome, _) = send_to(&format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{padded}", padded.len())).await;
    assert_eq!(outcome.as_str(), "unknown");
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let server = TestServer::keeping("HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{\"id\":\"49a3\"}").await;
    let provider = provider(&server.url);
    for _ in 0..2 {
        assert_eq!(provider.send(&mail()).await.as_str(), "accepted");
    }
    assert_eq!((server.requests(), server.connections()), (2, 1));
}

#[tokio::test]
async fn the_rate_limit_s_wait_is_read_from_either_header() {
    for (header, seconds) in [("retry-after: 3", 3), ("ratelimit-reset: 1", 1), ("retry-after: 999999999", 3600)] {
        let (outcome, _) = send_to(&format!("HTTP/1.1 429 Slow\r\n{header}\r\ncontent-length: 0\r\n\r\n")).await;
        let Outcome::Throttled { retry_after, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(retry_after, Some(Duration::from_secs(seconds)), "{header}");
    }
}

#[tokio::test]
async fn the_key_is_never_printed() {
    let config = ResendConfig::new(Secret::from("re_secret"));
    assert!(!format!("{config:?}").contains("re_secret"));
    for key in ["", "  ", "re_secret\n\nx"] {
        let error = ResendProvider::new(ResendConfig::new(Secret::from(key))).err().unwrap();
        assert!(!format!("{error} {error:?}").contains("re_secret"), "{error:?}");
    }
}

#[tokio::test]
async fn ses_05_what_is_too_large_is_no_request() {
    let server = TestServer::start("").await;
    let outcome = provider(&server.url).send(&mail_with_attachment(30_000_000)).await;
    assert_eq!((outcome.as_str(), server.requests()), ("rejected_message", 0));
}
