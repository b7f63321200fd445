//! What a failed request says, whichever service it went to: never a body, at most a line.

use aws_sdk_sqs::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
};
use std::{error::Error, fmt};
use waybill_core::text::storable;

/// Characters of a foreign text that are worth a line in a log.
const MAX_TEXT: usize = 300;

/// A request without a good answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The service's own code without its prefix, where the service answered.
    pub(crate) code: Option<String>,
    pub(crate) status: Option<u16>,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn of<E>(error: &SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        let status = error.raw_response().map(|response| response.status().as_u16());
        let (code, text) = match error {
            SdkError::ServiceError(service) => {
                let error = service.err();
                (error.code().map(plain_code), error.message().unwrap_or("no message").to_owned())
            }
            SdkError::TimeoutError(_) => (None, "no answer within the time-out".to_owned()),
            SdkError::ConstructionFailure(_) | SdkError::DispatchFailure(_) | SdkError::ResponseError(_) | _ => {
                (None, innermost(error))
            }
        };
        Self { code, status, text: storable(&text, MAX_TEXT) }
    }

    pub(crate) fn is(&self, codes: &[&str]) -> bool {
        self.code.as_deref().is_some_and(|code| codes.contains(&code))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.code, self.status) {
            (Some(code), _) => write!(f, "{code}: {}", self.text),
            (None, Some(status)) => write!(f, "HTTP {status}: {}", self.text),
            (None, None) => f.write_str(&self.text),
        }
    }
}

/// SQS answers with the names of its old protocol: `AWS.SimpleQueueService.BatchRequestTooLong`. One in the text of a batch entry has
/// no prefix.
pub(crate) fn plain_code(code: &str) -> String {
    code.strip_prefix("AWS.SimpleQueueService.").unwrap_or(code).to_owned()
}

fn innermost<E: Error + 'static>(error: &SdkError<E, HttpResponse>) -> String {
    let outer: &(dyn Error + 'static) = error;
    std::iter::successors(Some(outer), |&e| e.source()).last().unwrap_or(outer).to_string()
}

/// Somebody has to fix rights, keys or the address; the entries are good and will be taken afterwards.
pub(crate) fn is_for_the_operator(code: &str) -> bool {
    const CODES: [&str; 13] = [
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAddress",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "MissingAuthenticationToken",
        "NonExistentQueue",
        "QueueDoesNotExist",
        "ResourceNotFoundException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    ];
    CODES.contains(&code) || code.starts_with("Kms") || code.starts_with("KMS.")
}

/// Too much at once, or trouble at the service: the same request may do later.
pub(crate) fn is_passing(code: &str) -> bool {
    const CODES: [&str; 11] = [
        "InternalError",
        "InternalException",
        "InternalFailure",
        "OverLimit",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "TooManyRequestsException",
        "LimitExceededException",
    ];
    CODES.contains(&code) || code.starts_with("Throttl")
}
