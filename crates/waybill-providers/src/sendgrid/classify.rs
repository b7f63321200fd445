//! What an answer of SendGrid means. Sources: the v3 error pages and the OpenAPI description; where a status is in neither, the reading
//! that can't lose or duplicate a mail.
//! <https://www.twilio.com/docs/sendgrid/api-reference/how-to-use-the-sendgrid-v3-api/errors>

use crate::{detail::detail, http::MAX_RETRY_AFTER};
use serde::Deserialize;
use std::time::Duration;
use waybill_core::outcome::Outcome;

/// The parts of an answer that decide.
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    /// `X-Message-Id`.
    pub(super) message_id: Option<String>,
    /// `X-RateLimit-Reset`, Unix seconds.
    pub(super) reset: Option<i64>,
    /// `Retry-After`, which SendGrid does not document and a gateway may send.
    pub(super) retry_after: Option<Duration>,
    pub(super) body: &'a [u8],
}

/// `now` in Unix seconds.
pub(super) fn outcome(answer: &Answer<'_>, now: i64) -> Outcome {
    let said = Said::read(answer);
    let detail = said.detail.clone();
    match answer.status {
        202 => accepted(answer.message_id.as_deref(), detail),
        // Documented for sandbox mode: validated, never delivered.
        200 => Outcome::Unusable { detail: format!("{detail}: sandbox mode, nothing is delivered") },
        400 if said.about_recipient => Outcome::RejectedRecipient { detail },
        400 | 406 | 413 | 414 | 415 | 422 => Outcome::RejectedMessage { detail },
        // 401 also says "Maximum credits exceeded". 403: unverified sender, missing scope, temporary block. A redirect, 404, 405 and 407
        // mean that the address is not SendGrid's: no mail will get through until somebody repairs the configuration.
        300..=399 | 401..=405 | 407 => Outcome::Unusable { detail },
        429 => Outcome::Throttled { retry_after: until(answer.reset, now).or(answer.retry_after), detail },
        // 408: who knows how much of the request had been read. 5xx: documented as errors on their side, not as "not accepted".
        0..=199 | 201 | 203..=299 | 408 | 500.. => Outcome::Unknown { detail },
        // Refused, for a reason that this table does not know.
        409..=412 | 416..=421 | 423..=428 | 430..=499 => Outcome::Unavailable { detail },
    }
}

fn accepted(message_id: Option<&str>, detail: String) -> Outcome {
    match message_id.map(str::trim) {
        Some(id) if !id.is_empty() => Outcome::Accepted { provider_message_id: id.to_owned() },
        Some(_) | None => Outcome::Unknown { detail: format!("{detail} without X-Message-Id") },
    }
}

fn until(reset: Option<i64>, now: i64) -> Option<Duration> {
    let seconds = reset?.saturating_sub(now).max(0);
    u64::try_from(seconds).ok().map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
}

/// What the body says, when it says it in JSON. A gateway's HTML page says no more than its status.
struct Said {
    detail: String,
    about_recipient: bool,
}

#[derive(Deserialize)]
struct ErrorBody {
    #[serde(default)]
    errors: Vec<ErrorEntry>,
}

#[derive(Deserialize)]
struct ErrorEntry {
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    field: Option<String>,
}

impl Said {
    fn read(answer: &Answer<'_>) -> Self {
        let errors = serde_json::from_slice::<ErrorBody>(answer.body).map(|body| body.errors).unwrap_or_default();
        let words: Vec<String> = errors
            .iter()
            .map(|e| match (e.field.as_deref(), e.message.as_deref().unwrap_or_default()) {
                (Some(field), message) => format!("{field}: {message}"),
                (None, message) => message.to_owned(),
            })
            .collect();
        let about_recipient = !errors.is_empty() && errors.iter().all(|e| is_recipient(e.field.as_deref()));
        let mut text = format!("HTTP {}", answer.status);
        if !words.is_empty() {
            text = format!("{text} {}", words.join("; "));
        }
        Self { detail: detail(&text), about_recipient }
    }
}

/// `personalizations.0.to.0.email`: this very address is what they can't take.
fn is_recipient(field: Option<&str>) -> bool {
    field.is_some_and(|field| {
        let names: Vec<&str> = field.split('.').filter(|part| part.parse::<usize>().is_err()).collect();
        names == ["personalizations", "to", "email"]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Outcome {
        outcome(&Answer { status, message_id: None, reset: None, retry_after: None, body: body.as_bytes() }, 0)
    }

    #[test]
    fn every_documented_status_has_its_outcome() {
        for (status, expected) in [
            (200, "unusable"),
            (201, "unknown"),
            (202, "unknown"),
            (204, "unknown"),
            (301, "unusable"),
            (307, "unusable"),
            (400, "rejected_message"),
            (401, "unusable"),
            (403, "unusable"),
            (404, "unusable"),
            (405, "unusable"),
            (406, "rejected_message"),
            (408, "unknown"),
            (409, "unavailable"),
            (413, "rejected_message"),
            (415, "rejected_message"),
            (418, "unavailable"),
            (429, "throttled"),
            (500, "unknown"),
            (502, "unknown"),
            (503, "unknown"),
            (504, "unknown"),
        ] {
            assert_eq!(answer(status, "").as_str(), expected, "{status}");
        }
    }

    #[test]
    fn sg_02_accepted_needs_202_and_an_id() {
        let with_id = |status, id: &str| {
            outcome(&Answer { status, message_id: Some(id.to_owned()), reset: None, retry_after: None, body: b"" }, 0)
        };
        assert_eq!(with_id(202, "abc123"), Outcome::Accepted { provider_message_id: "abc123".into() });
        assert_eq!(with_id(202, " ").as_str(), "unknown");
        assert_eq!(with_id(200, "abc123").as_str(), "unusable");
        assert_eq!(with_id(500, "abc123").as_str(), "unknown");
    }

    #[test]
    fn the_reset_is_a_time_and_becomes_a_bounded_delay() {
        let delay = |reset, now| {
            let outcome = outcome(&Answer { status: 429, message_id: None, reset, retry_after: None, body: b"" }, now);
            let Outcome::Throttled { retry_after, .. } = outcome else { panic!("{outcome:?}") };
            retry_after.map(|d| d.as_secs())
        };
        assert_eq!(delay(Some(1_000_030), 1_000_000), Some(30));
        assert_eq!(delay(Some(999_000), 1_000_000), Some(0), "in the past");
        assert_eq!(delay(Some(i64::MAX), -5), Some(3600));
        assert_eq!(delay(None, 0), None);
    }

    #[test]
    fn only_a_complaint_about_the_recipient_alone_rejects_the_recipient() {
        let field = |field: &str| {
            format!(r#"{{"errors":[{{"message":"Does not contain a valid address.","field":"{field}"}}]}}"#)
        };
        assert_eq!(answer(400, &field("personalizations.0.to.0.email")).as_str(), "rejected_recipient");
        assert_eq!(answer(400, &field("from.email")).as_str(), "rejected_message");
        assert_eq!(answer(400, &field("personalizations.0.to")).as_str(), "rejected_message");
        assert_eq!(answer(403, &field("personalizations.0.to.0.email")).as_str(), "unusable");
        let both = r#"{"errors":[{"field":"personalizations.0.to.0.email"},{"field":"subject"}]}"#;
        assert_eq!(answer(400, both).as_str(), "rejected_message");
    }

    #[test]
    fn pg_04_bodies_that_are_no_json_or_hold_nul_are_classified_and_storable() {
        let nul = answer(400, "{\"errors\":[{\"message\":\"a\\u0000b ada@example.com\",\"field\":null}]}");
        assert_eq!(nul, Outcome::RejectedMessage { detail: "HTTP 400 a\u{fffd}b (address)".into() });
        assert_eq!(answer(413, "<html>nginx</html>"), Outcome::RejectedMessage { detail: "HTTP 413".into() });
        assert_eq!(answer(502, "\0\0\0"), Outcome::Unknown { detail: "HTTP 502".into() });
        assert_eq!(answer(401, r#"{"errors":"what"}"#), Outcome::Unusable { detail: "HTTP 401".into() });
    }
}
