//! What an error answer of SES means, by its code and text. Sources: the errors of `SendEmail`, AWS's common errors, and
//! <https://docs.aws.amazon.com/ses/latest/dg/manage-sending-quotas-errors.html>.

use crate::detail::detail;
use std::time::Duration;
use waybill_core::outcome::Outcome;

/// The parts of an error answer that decide.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer<'a> {
    pub(super) status: u16,
    /// `x-amzn-errortype` or the body's `__type`, without namespace.
    pub(super) code: Option<&'a str>,
    pub(super) message: &'a str,
    pub(super) retry_after: Option<Duration>,
}

/// What the code says, before the text refines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// A rate or a quota; the text says which.
    Limit,
    /// This message; the text may say that it is the identity after all.
    Message,
    /// The account, its credentials or its configuration.
    Account,
    /// Refused, for a reason that this table does not know.
    Other,
}

pub(super) fn outcome(answer: Answer<'_>) -> Outcome {
    let detail = words(answer);
    match answer.status {
        // An error inside a success, or an internal error of theirs: the mail may have been taken before it broke.
        0..=299 | 500.. => Outcome::Unknown { detail },
        // The SDK follows no redirect; something else than SES answers at this address.
        300..=399 => Outcome::Unusable { detail },
        408 => Outcome::Unknown { detail },
        400..=499 => {
            match answer.code.map_or_else(|| class_of_status(answer.status), |code| class_of_code(code, answer.status))
            {
                Class::Limit if is_daily(answer.message) => Outcome::Unusable { detail },
                Class::Limit => Outcome::Throttled { retry_after: answer.retry_after, detail },
                Class::Message if is_about_the_account(answer.message) => Outcome::Unusable { detail },
                Class::Message => Outcome::RejectedMessage { detail },
                Class::Account => Outcome::Unusable { detail },
                Class::Other => Outcome::Unavailable { detail },
            }
        }
    }
}

fn class_of_code(code: &str, status: u16) -> Class {
    match code {
        "TooManyRequestsException" | "ThrottlingException" | "Throttling" | "LimitExceededException" => Class::Limit,
        "MessageRejected"
        | "BadRequestException"
        | "SerializationException"
        | "ValidationException"
        | "RequestEntityTooLargeException" => Class::Message,
        "AccountSuspendedException"
        | "SendingPausedException"
        | "MailFromDomainNotVerifiedException"
        | "NotFoundException"
        | "AccessDeniedException"
        | "AccessDenied"
        | "UnrecognizedClientException"
        | "InvalidClientTokenId"
        | "InvalidSignatureException"
        | "SignatureDoesNotMatch"
        | "IncompleteSignature"
        | "IncompleteSignatureException"
        | "MissingAuthenticationToken"
        | "MissingAuthenticationTokenException"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "RequestExpired"
        | "RequestTimeTooSkewed"
        | "NotAuthorized"
        | "OptInRequired" => Class::Account,
        // A code that is new: its status is all that is known about it, except that a bare 400 may mean anything.
        _ if status == 400 => Class::Other,
        _ => class_of_status(status),
    }
}

/// Without a code, it is a gateway that answers and not SES.
fn class_of_status(status: u16) -> Class {
    match status {
        401 | 403 | 404 | 405 | 407 => Class::Account,
        413 => Class::Message,
        429 => Class::Limit,
        _ => Class::Other,
    }
}

/// "Daily message quota exceeded." against "Maximum sending rate exceeded.": one code, two meanings.
fn is_daily(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("daily") || message.contains("24-hour") || message.contains("24 hour")
}

/// `MessageRejected` also covers the sandbox ("Email address is not verified. The following identities failed the check …"): nothing
/// is wrong with the recipient, who must never be suppressed for it.
fn is_about_the_account(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    ["not verified", "not authorized", "suspended", "paused", "sandbox"].iter().any(|word| message.contains(word))
}

fn words(answer: Answer<'_>) -> String {
    let mut text = format!("HTTP {}", answer.status);
    if let Some(code) = answer.code {
        text = format!("{text} {code}");
    }
    if !answer.message.is_empty() {
        text = format!("{text}: {}", answer.message);
    }
    detail(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, code: &str, message: &str) -> Outcome {
        let code = (!code.is_empty()).then_some(code);
        outcome(Answer { status, code, message, retry_after: None })
    }

    #[test]
    fn ses_01_every_error_has_its_outcome() {
        for (status, code, message, expected) in [
            (429, "TooManyRequestsException", "Maximum sending rate exceeded.", "throttled"),
            (429, "TooManyRequestsException", "Daily message quota exceeded.", "unusable"),
            (400, "ThrottlingException", "Maximum sending rate exceeded.", "throttled"),
            (400, "ThrottlingException", "Daily message quota exceeded.", "unusable"),
            (400, "Throttling", "Rate exceeded", "throttled"),
            (400, "LimitExceededException", "Maximum sending rate exceeded.", "throttled"),
            (400, "LimitExceededException", "Daily message quota exceeded.", "unusable"),
            (400, "MessageRejected", "The message content was refused.", "rejected_message"),
            (400, "MessageRejected", "Email address is not verified. The following identities failed", "unusable"),
            (400, "MessageRejected", "Sending suspended for this account.", "unusable"),
            (400, "BadRequestException", "Missing final '@domain'", "rejected_message"),
            (400, "SerializationException", "", "rejected_message"),
            (400, "MailFromDomainNotVerifiedException", "", "unusable"),
            (404, "NotFoundException", "Configuration set x does not exist", "unusable"),
            (400, "SendingPausedException", "", "unusable"),
            (400, "AccountSuspendedException", "", "unusable"),
            (403, "UnrecognizedClientException", "", "unusable"),
            (403, "SignatureDoesNotMatch", "", "unusable"),
            (403, "InvalidSignatureException", "", "unusable"),
            (403, "AccessDeniedException", "", "unusable"),
            (403, "ExpiredTokenException", "", "unusable"),
            (403, "MissingAuthenticationTokenException", "", "unusable"),
            (413, "RequestEntityTooLargeException", "", "rejected_message"),
            (400, "BrandNewException", "", "unavailable"),
            (403, "BrandNewException", "", "unusable"),
            (409, "ConflictException", "", "unavailable"),
            (500, "InternalFailure", "", "unknown"),
            (503, "ServiceUnavailable", "", "unknown"),
            (503, "ThrottlingException", "", "unknown"),
            (504, "", "", "unknown"),
            (200, "", "", "unknown"),
            (200, "MessageRejected", "", "unknown"),
            (301, "", "", "unusable"),
            (400, "", "", "unavailable"),
            (401, "", "", "unusable"),
            (403, "", "", "unusable"),
            (404, "", "", "unusable"),
            (408, "", "", "unknown"),
            (413, "", "", "rejected_message"),
            (429, "", "", "throttled"),
        ] {
            assert_eq!(of(status, code, message).as_str(), expected, "{status} {code} {message}");
        }
    }

    #[test]
    fn ses_01_nothing_that_ses_says_rejects_a_recipient() {
        // SES tells about recipients in events only; an error that named one would suppress somebody for the sandbox's sake.
        for code in ["MessageRejected", "BadRequestException", "AccountSuspendedException", "New"] {
            for message in ["Email address is not verified.", "Address blacklisted.", ""] {
                assert_ne!(of(400, code, message).as_str(), "rejected_recipient");
            }
        }
    }

    #[test]
    fn the_detail_holds_the_code_and_no_address() {
        let outcome = of(400, "MessageRejected", "Email address is not verified: ada@example.com");
        assert_eq!(outcome.detail(), "HTTP 400 MessageRejected: Email address is not verified: (address)");
    }

    #[test]
    fn a_wish_to_wait_is_passed_on() {
        let answer = Answer { status: 429, code: None, message: "", retry_after: Some(Duration::from_millis(1500)) };
        let expected = Some(Duration::from_millis(1500));
        assert!(matches!(outcome(answer), Outcome::Throttled { retry_after, .. } if retry_after == expected));
    }
}
