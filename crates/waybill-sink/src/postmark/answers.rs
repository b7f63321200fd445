//! What Postmark answers. Codes: <https://postmarkapp.com/developer/api/overview#error-codes>; which status they come with is that of the
//! vendor's own client libraries.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;

use crate::exchange::Refusal;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct PostmarkError {
    status: StatusCode,
    code: u32,
    message: String,
}

impl PostmarkError {
    fn new(status: StatusCode, code: u32, message: impl Into<String>) -> Self {
        PostmarkError { status, code, message: message.into() }
    }

    /// 422, as nearly everything.
    pub(super) fn refused(code: u32, message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, message)
    }

    /// 300: something in the request.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::refused(300, message)
    }

    pub(super) fn token() -> Self {
        let message = "The Server Token you provided in the X-Postmark-Server-Token request header was invalid.";
        Self::new(StatusCode::UNAUTHORIZED, 10, message)
    }

    pub(super) fn accept() -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, 409, "The Accept header must be application/json.")
    }

    #[cfg(test)]
    pub(super) fn code(&self) -> u32 {
        self.code
    }
}

impl From<PostmarkError> for Response {
    fn from(error: PostmarkError) -> Self {
        let body = json!({ "ErrorCode": error.code, "Message": error.message });
        (error.status, axum::Json(body)).into_response()
    }
}

pub(super) fn accepted(message_id: Option<&str>) -> Response {
    let mut body = json!({
        "To": "ada@example.com",
        "SubmittedAt": chrono::Utc::now().format("%Y-%m-%dT%H:%M:%S%.6f0Z").to_string(),
        "ErrorCode": 0,
        "Message": "OK",
    });
    if let Some(id) = message_id {
        body["MessageID"] = json!(id);
    }
    axum::Json(body).into_response()
}

pub(super) fn server() -> Response {
    axum::Json(json!({ "ID": 1, "Name": "sink", "ApiTokens": [], "DeliveryType": "Live" })).into_response()
}

pub(super) fn refused(refusal: Refusal) -> Response {
    let error = match refusal {
        Refusal::ServerError => {
            PostmarkError::new(StatusCode::INTERNAL_SERVER_ERROR, 500, "This is an issue with Postmark's servers.")
        }
        // No header says for how long.
        Refusal::Throttled => PostmarkError::new(StatusCode::TOO_MANY_REQUESTS, 429, "Rate limit exceeded."),
        Refusal::Unauthorized => PostmarkError::token(),
        Refusal::Rejected => PostmarkError::invalid("The content was refused."),
        Refusal::DailyQuota => PostmarkError::refused(405, "Not allowed to send: you ran out of credits."),
        Refusal::SendingPaused => PostmarkError::refused(412, "Your account is pending approval."),
        Refusal::AccountSuspended => PostmarkError::refused(413, "Your account may not send."),
        Refusal::UnverifiedIdentity => {
            PostmarkError::refused(400, "The 'From' address you supplied is not a Sender Signature on your account.")
        }
        Refusal::NulText => PostmarkError::invalid("The text\0of this error contains U+0000"),
    };
    error.into()
}
