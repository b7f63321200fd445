//! What Resend answers. Errors: <https://resend.com/docs/api-reference/errors>

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::exchange::Refusal;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ResendError {
    status: StatusCode,
    name: &'static str,
    message: String,
}

impl ResendError {
    fn new(status: StatusCode, name: &'static str, message: impl Into<String>) -> Self {
        ResendError { status, name, message: message.into() }
    }

    /// 422: a mistake in the request.
    pub(super) fn invalid(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, name, message)
    }

    pub(super) fn missing_key() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "missing_api_key", "Missing API Key")
    }

    pub(super) fn wrong_key() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "validation_error", "API key is invalid")
    }

    pub(super) fn no_user_agent() -> Self {
        Self::new(StatusCode::FORBIDDEN, "validation_error", "A User-Agent header is required")
    }

    pub(super) fn bad_key() -> Self {
        let message = "The key must be between 1-256 chars.";
        Self::new(StatusCode::BAD_REQUEST, "invalid_idempotency_key", message)
    }

    pub(super) fn concurrent() -> Self {
        let message = "Another request with the same idempotency key is in progress.";
        Self::new(StatusCode::CONFLICT, "concurrent_idempotent_requests", message)
    }

    pub(super) fn other_body() -> Self {
        let message = "Same idempotency key used with a different request payload.";
        Self::new(StatusCode::CONFLICT, "invalid_idempotent_request", message)
    }

    #[cfg(test)]
    pub(super) fn name(&self) -> &'static str {
        self.name
    }
}

impl From<ResendError> for Response {
    fn from(error: ResendError) -> Self {
        let body = json!({ "statusCode": error.status.as_u16(), "name": error.name, "message": error.message });
        (error.status, axum::Json(body)).into_response()
    }
}

pub(super) fn accepted(message_id: Option<&str>) -> Response {
    let body = match message_id {
        Some(id) => json!({ "id": id }),
        None => json!({}),
    };
    axum::Json(body).into_response()
}

pub(super) fn domains() -> Response {
    axum::Json(json!({ "object": "list", "has_more": false, "data": [] })).into_response()
}

pub(super) fn refused(refusal: Refusal) -> Response {
    let error = match refusal {
        Refusal::ServerError => {
            ResendError::new(StatusCode::INTERNAL_SERVER_ERROR, "application_error", "An unexpected error occurred.")
        }
        Refusal::Throttled => return throttled(),
        Refusal::Unauthorized => ResendError::wrong_key(),
        Refusal::Rejected => ResendError::invalid("validation_error", "The content was refused."),
        Refusal::DailyQuota => ResendError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "daily_quota_exceeded",
            "You have reached your daily email sending quota.",
        ),
        Refusal::SendingPaused => ResendError::new(
            StatusCode::FORBIDDEN,
            "invalid_permission",
            "This API key is restricted and can't send emails.",
        ),
        Refusal::AccountSuspended => {
            ResendError::new(StatusCode::FORBIDDEN, "suspended_api_key", "This API key is suspended.")
        }
        Refusal::UnverifiedIdentity => ResendError::new(
            StatusCode::FORBIDDEN,
            "validation_error",
            "The domain of the sender is not verified. Please, add and verify your domain.",
        ),
        Refusal::NulText => ResendError::invalid("validation_error", "The text\0of this error contains U+0000"),
    };
    error.into()
}

/// <https://resend.com/docs/api-reference/rate-limit>
fn throttled() -> Response {
    let headers =
        [("ratelimit-limit", "2"), ("ratelimit-remaining", "0"), ("ratelimit-reset", "1"), ("retry-after", "1")];
    let message = "Too many requests. You can only make 2 requests per second.";
    let error = ResendError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", message);
    (headers, Response::from(error)).into_response()
}
