//! What SES answers: AWS REST-JSON errors carry their code in `x-amzn-errortype` and a `message` in the body.

use axum::{
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::exchange::Refusal;

const ERROR_TYPE: HeaderName = HeaderName::from_static("x-amzn-errortype");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-amzn-requestid");

/// One SES error answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SesError {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl SesError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        SesError { status, code, message: message.into() }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequestException", message)
    }

    pub(super) fn serialization(error: &serde_json::Error) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "SerializationException", format!("The body can't be read: {error}"))
    }

    pub(super) fn missing_authorization() -> Self {
        Self::new(StatusCode::FORBIDDEN, "MissingAuthenticationTokenException", "Missing Authentication Token")
    }

    pub(super) fn body_too_large() -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLargeException", "The request is too large")
    }

    pub(super) fn unknown_template(name: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFoundException", format!("Template {name} does not exist"))
    }

    #[cfg(test)]
    pub(super) fn message(&self) -> &str {
        &self.message
    }
}

impl From<SesError> for Response {
    fn from(error: SesError) -> Response {
        let headers = [(ERROR_TYPE, error.code.to_owned()), (REQUEST_ID, request_id())];
        (error.status, headers, axum::Json(json!({ "message": error.message }))).into_response()
    }
}

pub(super) fn accepted(message_id: Option<&str>) -> Response {
    let body = match message_id {
        Some(id) => json!({ "MessageId": id }),
        None => json!({}),
    };
    ([(REQUEST_ID, request_id())], axum::Json(body)).into_response()
}

/// Classes and texts: <https://docs.aws.amazon.com/ses/latest/dg/manage-sending-quotas-errors.html> for the two
/// throttling texts, the SESv2 service model for the codes.
pub(super) fn refused(refusal: Refusal) -> Response {
    let bad = StatusCode::BAD_REQUEST;
    let throttled = StatusCode::TOO_MANY_REQUESTS;
    let error = match refusal {
        Refusal::ServerError => SesError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalFailure",
            "The request failed for an internal reason",
        ),
        Refusal::Throttled => SesError::new(throttled, "TooManyRequestsException", "Maximum sending rate exceeded."),
        Refusal::DailyQuota => SesError::new(throttled, "TooManyRequestsException", "Daily message quota exceeded."),
        Refusal::Unauthorized => SesError::new(
            StatusCode::FORBIDDEN,
            "UnrecognizedClientException",
            "The security token included in the request is invalid.",
        ),
        Refusal::Rejected => SesError::new(bad, "MessageRejected", "The message content was refused."),
        Refusal::SendingPaused => SesError::new(bad, "SendingPausedException", "Sending is paused for this account."),
        Refusal::AccountSuspended => {
            SesError::new(bad, "AccountSuspendedException", "The account's ability to send email has been restricted.")
        }
        Refusal::UnverifiedIdentity => SesError::new(
            bad,
            "MessageRejected",
            "Email address is not verified. The following identities failed the check in region US-EAST-1: the sender",
        ),
        Refusal::NulText => SesError::bad_request("The text\0of this error contains U+0000"),
    };
    error.into()
}

/// `GetAccount`, as for a healthy account outside the sandbox.
pub(super) fn account() -> Response {
    let body = json!({
        "EnforcementStatus": "HEALTHY",
        "ProductionAccessEnabled": true,
        "SendingEnabled": true,
        "SendQuota": { "Max24HourSend": -1.0, "MaxSendRate": 10000.0, "SentLast24Hours": 0.0 },
    });
    ([(header::CACHE_CONTROL, "no-store")], axum::Json(body)).into_response()
}

fn request_id() -> String {
    uuid::Uuid::now_v7().to_string()
}
