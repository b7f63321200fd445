//! What an answer of Resend means. Sources: <https://resend.com/docs/api-reference/errors> and the OpenAPI description. Names come and go
//! between releases, so one that is not known counts by its status.

use crate::detail::detail;
use serde::Deserialize;
use std::time::Duration;
use waybill_core::outcome::Outcome;

/// The parts of an answer that decide.
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    /// `retry-after`, or `ratelimit-reset`.
    pub(super) retry_after: Option<Duration>,
    pub(super) body: &'a [u8],
}

#[derive(Deserialize, Default)]
struct Body {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    message: Option<String>,
}

pub(super) fn outcome(answer: &Answer<'_>) -> Outcome {
    // A gateway's HTML page, or what broke off, says no more than its status.
    let body: Body = serde_json::from_slice(answer.body).unwrap_or_default();
    let (name, message) = (body.name.as_deref().unwrap_or_default(), body.message.as_deref().unwrap_or_default());
    let said: Vec<&str> = [name, message].into_iter().filter(|text| !text.is_empty()).collect();
    let detail = detail(&format!("HTTP {} {}", answer.status, said.join(": ")));
    match answer.status {
        200 => accepted(body.id.as_deref(), detail),
        // On every endpoint but the sending ones a bad key is a 400; it may reach these.
        400 if message.contains("API key is invalid") => Outcome::Unusable { detail },
        409 => conflict(name, detail),
        400 | 406 | 413 | 414 | 415 | 422 => Outcome::RejectedMessage { detail },
        429 => limit(name, answer.retry_after, detail),
        // `security_error`: something in the request looks dangerous to them; their support has to be asked.
        451 => Outcome::RejectedMessage { detail },
        // 401: the key. 403: a domain that is not verified, a key that may not send or is suspended, a plan that is used up. A redirect,
        // 402, 404, 405 and 407 mean that the address or the account is not what it should be.
        300..=399 | 401..=405 | 407 => Outcome::Unusable { detail },
        // 408: who knows how much of the request had been read. 5xx: none is documented as "not accepted".
        0..=199 | 201..=299 | 408 | 500.. => Outcome::Unknown { detail },
        // Refused, for a reason that this table does not know.
        410..=412 | 416..=421 | 423..=428 | 430..=450 | 452..=499 => Outcome::Unavailable { detail },
    }
}

fn accepted(id: Option<&str>, detail: String) -> Outcome {
    match id.map(str::trim) {
        Some(id) if !id.is_empty() => Outcome::Accepted { provider_message_id: id.to_owned() },
        Some(_) | None => Outcome::Unknown { detail: format!("{detail} without an id") },
    }
}

/// A conflict is about the idempotency key, and so about an earlier call with it, which this answer says nothing of.
fn conflict(name: &str, detail: String) -> Outcome {
    match name {
        "resource_locked" => Outcome::Unavailable { detail },
        // The first call is still being worked on: it may be accepted in the next moment.
        "concurrent_idempotent_requests" => Outcome::Unknown { detail },
        // An earlier call with this key and another body is on their record. We never change a body, but a new release of ours may have
        // rendered its document anew: what they have may be the mail.
        "invalid_idempotent_request" => Outcome::Unknown { detail },
        _ => Outcome::Unknown { detail },
    }
}

/// The rate limit and the quotas have one status.
fn limit(name: &str, retry_after: Option<Duration>, detail: String) -> Outcome {
    match name {
        "daily_quota_exceeded" | "monthly_quota_exceeded" => Outcome::Unusable { detail },
        _ => Outcome::Throttled { retry_after, detail },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Outcome {
        outcome(&Answer { status, retry_after: None, body: body.as_bytes() })
    }

    fn error(status: u16, name: &str, message: &str) -> Outcome {
        answer(status, &format!(r#"{{"statusCode":{status},"name":"{name}","message":"{message}"}}"#))
    }

    #[test]
    fn every_documented_error_has_its_outcome() {
        for (status, name, expected) in [
            (400, "validation_error", "rejected_message"),
            (400, "invalid_idempotency_key", "rejected_message"),
            (401, "missing_api_key", "unusable"),
            (401, "restricted_api_key", "unusable"),
            (401, "validation_error", "unusable"),
            (403, "validation_error", "unusable"),
            (403, "suspended_api_key", "unusable"),
            (403, "invalid_permission", "unusable"),
            (403, "invalid_api_key", "unusable"),
            (403, "email_above_quota", "unusable"),
            (404, "not_found", "unusable"),
            (405, "method_not_allowed", "unusable"),
            (409, "concurrent_idempotent_requests", "unknown"),
            (409, "invalid_idempotent_request", "unknown"),
            (409, "resource_locked", "unavailable"),
            (422, "missing_required_field", "rejected_message"),
            (422, "missing_required_parameter", "rejected_message"),
            (422, "invalid_attachment", "rejected_message"),
            (422, "invalid_parameter", "rejected_message"),
            (422, "invalid_from_address", "rejected_message"),
            (422, "invalid_access", "rejected_message"),
            (422, "invalid_region", "rejected_message"),
            (422, "validation_error", "rejected_message"),
            (429, "rate_limit_exceeded", "throttled"),
            (429, "daily_quota_exceeded", "unusable"),
            (429, "monthly_quota_exceeded", "unusable"),
            (451, "security_error", "rejected_message"),
            (500, "application_error", "unknown"),
            (500, "internal_server_error", "unknown"),
            (500, "service_unavailable", "unknown"),
            (503, "service_unavailable", "unknown"),
        ] {
            assert_eq!(error(status, name, "").as_str(), expected, "{status} {name}");
        }
    }

    #[test]
    fn a_name_that_is_not_known_counts_by_its_status() {
        for (status, expected) in [
            (201, "unknown"),
            (204, "unknown"),
            (301, "unusable"),
            (307, "unusable"),
            (400, "rejected_message"),
            (401, "unusable"),
            (403, "unusable"),
            (408, "unknown"),
            (409, "unknown"),
            (413, "rejected_message"),
            (418, "unavailable"),
            (422, "rejected_message"),
            (429, "throttled"),
            (502, "unknown"),
            (504, "unknown"),
        ] {
            assert_eq!(error(status, "brand_new", "").as_str(), expected, "{status}");
            assert_eq!(answer(status, "").as_str(), expected, "{status}, no body");
        }
    }

    #[test]
    fn a_bad_key_is_the_account_s_fault_under_either_status() {
        assert_eq!(error(400, "validation_error", "API key is invalid").as_str(), "unusable");
        assert_eq!(error(401, "validation_error", "API key is invalid").as_str(), "unusable");
    }

    #[test]
    fn accepted_needs_200_and_an_id() {
        assert_eq!(answer(200, r#"{"id":"49a3"}"#), Outcome::Accepted { provider_message_id: "49a3".into() });
        for body in ["", "{}", r#"{"id":""}"#, r#"{"id":" "}"#, r#"{"id":null}"#, r#"{"id":7}"#, r#"{"id":"49a3""#] {
            assert_eq!(answer(200, body).as_str(), "unknown", "{body}");
        }
        assert_eq!(answer(202, r#"{"id":"49a3"}"#).as_str(), "unknown", "not documented");
        assert_eq!(answer(500, r#"{"id":"49a3"}"#).as_str(), "unknown");
    }

    #[test]
    fn the_rate_limit_says_how_long_to_wait() {
        let limited = outcome(&Answer { status: 429, retry_after: Some(Duration::from_secs(2)), body: b"{}" });
        assert_eq!(
            limited,
            Outcome::Throttled { retry_after: Some(Duration::from_secs(2)), detail: "HTTP 429".into() }
        );
    }

    #[test]
    fn pg_04_bodies_that_are_no_json_or_hold_nul_are_classified_and_storable() {
        let nul = answer(422, "{\"name\":\"x\",\"message\":\"a\\u0000b ada@example.com\"}");
        assert_eq!(nul, Outcome::RejectedMessage { detail: "HTTP 422 x: a\u{fffd}b (address)".into() });
        assert_eq!(answer(413, "<html></html>"), Outcome::RejectedMessage { detail: "HTTP 413".into() });
        assert_eq!(answer(502, "\0\0"), Outcome::Unknown { detail: "HTTP 502".into() });
    }
}
