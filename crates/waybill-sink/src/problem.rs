//! RFC 9457 answers of the sink's own control routes (not of the providers it plays).

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

/// One mistake in a request body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FieldError {
    /// JSON Pointer (RFC 6901) to the field.
    pub(crate) pointer: String,
    pub(crate) detail: String,
}

impl FieldError {
    pub(crate) fn new(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        FieldError { pointer: pointer.into(), detail: detail.into() }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Problem {
    #[serde(skip)]
    status: StatusCode,
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    code: &'static str,
    detail: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldError>,
}

impl Problem {
    pub(crate) fn not_json(detail: impl Into<String>) -> Self {
        Problem {
            status: StatusCode::BAD_REQUEST,
            kind: "about:blank",
            title: "Not JSON",
            code: "not_json",
            detail: detail.into(),
            errors: Vec::new(),
        }
    }

    /// 422 with every mistake; the detail repeats the first, for people who read only that.
    pub(crate) fn invalid(errors: Vec<FieldError>) -> Self {
        let detail = errors.first().map(|error| format!("{}: {}", error.pointer, error.detail)).unwrap_or_default();
        Problem {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            kind: "about:blank",
            title: "Invalid request",
            code: "invalid_request",
            detail,
            errors,
        }
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Problem {
            status: StatusCode::NOT_FOUND,
            kind: "about:blank",
            title: "Not found",
            code: "not_found",
            detail: format!("No such {what}; the mailbox keeps only the newest mails."),
            errors: Vec::new(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        (self.status, [(header::CONTENT_TYPE, "application/problem+json")], body).into_response()
    }
}
