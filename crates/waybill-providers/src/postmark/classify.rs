//! What an answer of Postmark means. `ErrorCode` is not the HTTP status: nearly everything that is wrong with a request comes as 422 with
//! the code in the body. <https://postmarkapp.com/developer/api/overview#error-codes>

use crate::detail::detail;
use serde::Deserialize;
use std::time::Duration;
use waybill_core::outcome::Outcome;

/// The parts of an answer that decide.
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: &'a [u8],
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct Body {
    #[serde(default)]
    error_code: Option<i64>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default, rename = "MessageID")]
    message_id: Option<String>,
}

pub(super) fn outcome(answer: &Answer<'_>) -> Outcome {
    // A gateway's HTML page, or what broke off, says no more than its status.
    let body: Body = serde_json::from_slice(answer.body).unwrap_or_default();
    let message = body.message.as_deref().unwrap_or_default();
    let code = body.error_code.map(|code| format!(" {code}")).unwrap_or_default();
    let detail = detail(&format!("HTTP {}{code} {message}", answer.status));
    match (answer.status, body.error_code) {
        (200, Some(0)) => accepted(body.message_id.as_deref(), detail),
        // In an answer of success too: a code that is not 0 says that nothing was taken.
        (200 | 422, Some(code)) => refused(code, detail),
        (503, Some(100)) => Outcome::Unavailable { detail },
        (400 | 406 | 413 | 414 | 415 | 422, _) => Outcome::RejectedMessage { detail },
        (429, _) => Outcome::Throttled { retry_after: answer.retry_after, detail },
        // 401: the token (code 10). A redirect, 402 to 405 and 407 mean that the address or the account is not what it should be.
        (300..=399 | 401..=405 | 407, _) => Outcome::Unusable { detail },
        // 408: who knows how much of the request had been read. 5xx: documented as errors on their side, not as "not accepted".
        (0..=299 | 408 | 500.., _) => Outcome::Unknown { detail },
        // Refused, for a reason that this table does not know.
        (409..=412 | 416..=421 | 423..=428 | 430..=499, _) => Outcome::Unavailable { detail },
    }
}

fn accepted(id: Option<&str>, detail: String) -> Outcome {
    match id.map(str::trim) {
        Some(id) if !id.is_empty() => Outcome::Accepted { provider_message_id: id.to_owned() },
        Some(_) | None => Outcome::Unknown { detail: format!("{detail} without MessageID") },
    }
}

/// By `ErrorCode`.
fn refused(code: i64, detail: String) -> Outcome {
    match code {
        // Inactive: a hard bounce, a complaint or a person has put it on their list. Going round it by another provider would write to
        // somebody who complained.
        406 => Outcome::RejectedRecipient { detail },
        // 10: the token. 400, 401: the sender's signature is missing or not confirmed. 405, 412, 413: out of credits, waiting for
        // approval, may not send. 1235: no such stream, or a disabled one.
        10 | 400 | 401 | 405 | 412 | 413 | 1235 => Outcome::Unusable { detail },
        429 => Outcome::Throttled { retry_after: None, detail },
        100 => Outcome::Unavailable { detail },
        // 300: something in the request, and 402, 403, 409, 410, 411, 11xx: the same, more precisely. A code that is not known is one more
        // of these: the request was read and refused.
        _ => Outcome::RejectedMessage { detail },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Outcome {
        outcome(&Answer { status, retry_after: None, body: body.as_bytes() })
    }

    fn error(status: u16, code: i64) -> Outcome {
        answer(status, &format!(r#"{{"ErrorCode":{code},"Message":"said"}}"#))
    }

    #[test]
    fn every_documented_code_has_its_outcome() {
        for (status, code, expected) in [
            (401, 10, "unusable"),
            (503, 100, "unavailable"),
            (422, 300, "rejected_message"),
            (422, 400, "unusable"),
            (422, 401, "unusable"),
            (422, 402, "rejected_message"),
            (422, 403, "rejected_message"),
            (422, 405, "unusable"),
            (422, 406, "rejected_recipient"),
            (422, 409, "rejected_message"),
            (422, 410, "rejected_message"),
            (422, 411, "rejected_message"),
            (422, 412, "unusable"),
            (422, 413, "unusable"),
            (429, 429, "throttled"),
            (422, 429, "throttled"),
            (422, 500, "rejected_message"),
            (422, 514, "rejected_message"),
            (422, 701, "rejected_message"),
            (422, 1101, "rejected_message"),
            (422, 1235, "unusable"),
            (422, 9999, "rejected_message"),
            (500, 0, "unknown"),
            (500, 500, "unknown"),
        ] {
            assert_eq!(error(status, code).as_str(), expected, "{status} {code}");
        }
    }

    #[test]
    fn without_a_code_the_status_decides() {
        for (status, expected) in [
            (200, "unknown"),
            (204, "unknown"),
            (302, "unusable"),
            (400, "rejected_message"),
            (401, "unusable"),
            (403, "unusable"),
            (404, "unusable"),
            (408, "unknown"),
            (413, "rejected_message"),
            (418, "unavailable"),
            (422, "rejected_message"),
            (429, "throttled"),
            (500, "unknown"),
            (502, "unknown"),
            (503, "unknown"),
            (504, "unknown"),
        ] {
            assert_eq!(answer(status, "").as_str(), expected, "{status}");
            assert_eq!(answer(status, "<html></html>").as_str(), expected, "{status}");
        }
    }

    #[test]
    fn pv_02_an_inactive_recipient_is_rejected_in_whichever_shape_it_comes() {
        for status in [422, 200] {
            let body =
                r#"{"ErrorCode":406,"Message":"You tried to send to recipient(s) that are inactive: ada@example.com"}"#;
            let detail = format!("HTTP {status} 406 You tried to send to recipient(s) that are inactive: (address)");
            assert_eq!(answer(status, body), Outcome::RejectedRecipient { detail });
        }
        // Shape (c), code 0 with a name in the text, needs two recipients in one call; we never have them, and read no wording.
        let named = r#"{"ErrorCode":0,"Message":"OK, but not a@example.test","MessageID":"m-1"}"#;
        assert_eq!(answer(200, named), Outcome::Accepted { provider_message_id: "m-1".into() });
        // (d)
        assert_eq!(error(422, 300).as_str(), "rejected_message");
        assert_eq!(error(401, 10).as_str(), "unusable");
        assert_eq!(error(429, 429).as_str(), "throttled");
    }

    #[test]
    fn accepted_needs_code_0_and_an_id() {
        let good = r#"{"To":"a@example.com","SubmittedAt":"2026-11-30T12:00:00.0000000Z","MessageID":"b7bc2f4a","ErrorCode":0,"Message":"OK"}"#;
        assert_eq!(answer(200, good), Outcome::Accepted { provider_message_id: "b7bc2f4a".into() });
        for body in [
            r#"{"ErrorCode":0,"Message":"OK"}"#,
            r#"{"ErrorCode":0,"MessageID":" "}"#,
            r#"{"MessageID":"b7bc2f4a"}"#,
            r#"{"ErrorCode":"0","MessageID":"b7bc2f4a"}"#,
            &good[..good.len() - 1],
            "[]",
        ] {
            assert_eq!(answer(200, body).as_str(), "unknown", "{body}");
        }
    }

    #[test]
    fn pg_04_bodies_that_are_no_json_or_hold_nul_are_classified_and_storable() {
        let nul = answer(422, "{\"ErrorCode\":300,\"Message\":\"a\\u0000b ada@example.com\"}");
        assert_eq!(nul, Outcome::RejectedMessage { detail: "HTTP 422 300 a\u{fffd}b (address)".into() });
        assert_eq!(answer(502, "\0\0"), Outcome::Unknown { detail: "HTTP 502".into() });
    }
}
