//! What SendGrid answers. Errors: <https://www.twilio.com/docs/sendgrid/api-reference/how-to-use-the-sendgrid-v3-api/errors>

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::json;

use crate::exchange::{Refusal, gateway_page};

const HELP: &str = "http://sendgrid.com/docs/API_Reference/Web_API_v3/Mail/errors.html";

/// One entry of `errors`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct FieldError {
    message: String,
    field: Option<String>,
    help: Option<String>,
}

impl FieldError {
    pub(super) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        let field = field.into();
        // Help links name the field without the positions: `personalizations.0.to` is under `personalizations.to`.
        let anchor: Vec<&str> = field.split('.').filter(|part| part.parse::<usize>().is_err()).collect();
        let help = format!("{HELP}#message.{}", anchor.join("."));
        FieldError { message: message.into(), field: Some(field), help: Some(help) }
    }

    pub(super) fn general(message: impl Into<String>) -> Self {
        FieldError { message: message.into(), field: None, help: None }
    }

    #[cfg(test)]
    pub(super) fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }
}

fn errors(status: StatusCode, errors: &[FieldError]) -> Response {
    (status, axum::Json(json!({ "errors": errors }))).into_response()
}

fn general(status: StatusCode, message: &str) -> Response {
    errors(status, &[FieldError::general(message)])
}

pub(super) fn invalid(list: &[FieldError]) -> Response {
    errors(StatusCode::BAD_REQUEST, list)
}

pub(super) fn missing_key() -> Response {
    general(StatusCode::UNAUTHORIZED, "Permission denied, wrong credentials")
}

pub(super) fn wrong_content_type() -> Response {
    general(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Content-Type should be application/json.")
}

/// Answered by the web server in front, so it is no JSON.
pub(super) fn too_large() -> Response {
    gateway_page(StatusCode::PAYLOAD_TOO_LARGE, "413 Request Entity Too Large")
}

pub(super) fn accepted(message_id: Option<&str>) -> Response {
    match message_id {
        Some(id) => (StatusCode::ACCEPTED, [("x-message-id", id.to_owned())]).into_response(),
        None => StatusCode::ACCEPTED.into_response(),
    }
}

pub(super) fn scopes() -> Response {
    axum::Json(json!({ "scopes": ["mail.send"] })).into_response()
}

pub(super) fn refused(refusal: Refusal) -> Response {
    match refusal {
        Refusal::ServerError => general(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error"),
        Refusal::Throttled => throttled(),
        Refusal::Unauthorized => {
            general(StatusCode::UNAUTHORIZED, "The provided authorization grant is invalid, expired, or revoked")
        }
        Refusal::Rejected => invalid(&[FieldError::new("content.0.value", "The content was refused.")]),
        Refusal::DailyQuota => general(StatusCode::UNAUTHORIZED, "Maximum credits exceeded"),
        Refusal::SendingPaused => general(StatusCode::FORBIDDEN, "Sending is temporarily blocked for this account"),
        Refusal::AccountSuspended => general(StatusCode::FORBIDDEN, "The account is suspended"),
        Refusal::UnverifiedIdentity => errors(
            StatusCode::FORBIDDEN,
            &[FieldError::new("from", "The from address does not match a verified Sender Identity.")],
        ),
        Refusal::NulText => invalid(&[FieldError::general("The text\0of this error contains U+0000")]),
    }
}

/// No Retry-After; the reset is in Unix seconds.
/// <https://www.twilio.com/docs/sendgrid/api-reference/how-to-use-the-sendgrid-v3-api/rate-limits>
fn throttled() -> Response {
    let headers = [
        ("x-ratelimit-limit", "600".to_owned()),
        ("x-ratelimit-remaining", "0".to_owned()),
        ("x-ratelimit-reset", (chrono::Utc::now().timestamp() + 1).to_string()),
    ];
    (headers, general(StatusCode::TOO_MANY_REQUESTS, "too many requests")).into_response()
}
