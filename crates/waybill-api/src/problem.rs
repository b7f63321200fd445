//! Refusals: RFC 9457 `application/problem+json`, one closed list of codes.
//!
//! `type` is `/problems/<code>`: a reference that RFC 9457 section 3.1.1 lets be relative, resolved against the API itself, where
//! `GET /problems/<code>` explains it. Programs compare `code`.

use crate::service::ServiceError;
use axum::{
    Json,
    extract::Path,
    response::{IntoResponse, Response},
};
use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE},
};
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;
use waybill_core::{event::FieldError, json::JsonError};

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $status:literal, $title:literal, $meaning:literal;)+) => {
        /// Every kind of refusal.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $variant),+ }
        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$variant),+];
            /// Stable word for programs.
            pub fn as_str(self) -> &'static str { match self { $(Code::$variant => $word),+ } }
            pub fn status(self) -> u16 { match self { $(Code::$variant => $status),+ } }
            pub fn title(self) -> &'static str { match self { $(Code::$variant => $title),+ } }
            /// What it means and what to do, for `GET /problems/<code>`.
            pub fn meaning(self) -> &'static str { match self { $(Code::$variant => $meaning),+ } }
        }
    };
}

codes! {
    InvalidJson = "invalid_json", 400, "The body is not acceptable JSON",
        "Syntax, encoding, a repeated key, U+0000, a lone surrogate or too deep nesting; `errors` names the place. Fix the document; sending it again unchanged can't succeed.";
    InvalidBody = "invalid_body", 400, "The body could not be read",
        "It ended early or doesn't match its Content-Encoding. Send it again, complete.";
    InvalidParameter = "invalid_parameter", 400, "A parameter is not acceptable",
        "A path or query parameter is unknown, repeated or has a value outside its range; `errors` names it.";
    InvalidIdempotencyKey = "invalid_idempotency_key", 400, "The Idempotency-Key is not acceptable",
        "1 to 255 printable ASCII characters, bare or as a quoted string (RFC 8941), once; not with a batch.";
    Unauthorized = "unauthorized", 401, "Credentials are missing or wrong",
        "Send `Authorization: Bearer <key>` with a key that exists, is not revoked and has not expired.";
    MissingScope = "missing_scope", 403, "The key lacks a scope",
        "Use a key that has the scope named in `detail`.";
    NotFound = "not_found", 404, "Not found",
        "No such resource for this key. Resources of other tenants look the same as those that don't exist.";
    MethodNotAllowed = "method_not_allowed", 405, "The method is not allowed here",
        "Use one of the methods in the Allow header.";
    BodyTimeout = "body_timeout", 408, "The body came too slowly",
        "The whole body has to arrive within the time named in `detail`. Send it again.";
    InProgress = "idempotency_in_progress", 409, "A request with this key is still in progress",
        "Send the same request again after Retry-After; it will be answered with the first one's job.";
    BodyTooLarge = "body_too_large", 413, "The body is too large",
        "The limit in `detail` holds for the bytes received and for the bytes after decompression.";
    UnsupportedMediaType = "unsupported_media_type", 415, "The content type is not supported",
        "`detail` names the content types taken here.";
    UnsupportedEncoding = "unsupported_content_encoding", 415, "The content encoding is not supported",
        "Send the body as it is or with `Content-Encoding: gzip`, once.";
    InvalidEvent = "invalid_event", 422, "The event is not valid",
        "`errors` names every field and what to do about it.";
    TooManyEvents = "too_many_events", 422, "The batch has too many events",
        "Split it; `detail` names the limit.";
    KeyReused = "idempotency_key_reused", 422, "The key belongs to an event with other content",
        "Use a new Idempotency-Key, or a new event id, for different content.";
    Internal = "internal", 500, "Internal error",
        "Our mistake. Send the request again; with the same Idempotency-Key or event id that is safe. Report the request id if it persists.";
    Unavailable = "unavailable", 503, "Temporarily unavailable",
        "Nothing was done. Send the request again after Retry-After.";
}

/// One thing that is wrong with the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ProblemError {
    /// JSON Pointer (RFC 6901) into the body; empty for the whole document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// Name of the path or query parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// Stable word for programs.
    #[schema(value_type = String)]
    pub code: &'static str,
    /// What to do.
    pub detail: String,
}

/// The body of a refusal (RFC 9457).
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    #[serde(rename = "type")]
    #[schema(example = "/problems/invalid_event")]
    pub type_ref: String,
    #[schema(value_type = String)]
    pub title: &'static str,
    pub status: u16,
    /// Stable word for programs.
    #[schema(value_type = String, example = "invalid_event")]
    pub code: &'static str,
    /// Says what to do.
    pub detail: String,
    /// The request's path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// As in the Retry-After header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub errors: Vec<ProblemError>,
}

/// A refusal on its way out.
#[derive(Debug, Clone)]
pub struct Problem {
    body: Box<ProblemBody>,
    header: Option<(HeaderName, HeaderValue)>,
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            body: Box::new(ProblemBody {
                type_ref: format!("/problems/{}", code.as_str()),
                title: code.title(),
                status: code.status(),
                code: code.as_str(),
                detail: detail.into(),
                instance: None,
                request_id: None,
                retry_after_seconds: None,
                errors: Vec::new(),
            }),
            header: None,
        }
    }

    pub fn body(&self) -> &ProblemBody {
        &self.body
    }

    pub fn into_body(self) -> ProblemBody {
        *self.body
    }

    /// A parameter that is wrong.
    pub fn parameter(name: &str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let mut problem = Self::new(Code::InvalidParameter, format!("`{name}`: {detail}"));
        problem.body.errors.push(ProblemError {
            pointer: None,
            parameter: Some(name.to_owned()),
            code: "invalid_parameter",
            detail,
        });
        problem
    }

    /// A document that can't be read; `prefix` is the pointer of the part it was read from.
    pub fn json(error: &JsonError, prefix: &str) -> Self {
        Self::new(Code::InvalidJson, error.to_string()).with_errors([FieldError::from(error)], prefix)
    }

    /// An event whose fields are wrong.
    pub fn event(errors: Vec<FieldError>, prefix: &str) -> Self {
        let detail = match errors.as_slice() {
            [one] => format!("{}: {}", if one.pointer.is_empty() { "the event" } else { &one.pointer }, one.detail),
            many => format!("{} fields are wrong; see `errors`", many.len()),
        };
        Self::new(Code::InvalidEvent, detail).with_errors(errors, prefix)
    }

    fn with_errors(mut self, errors: impl IntoIterator<Item = FieldError>, prefix: &str) -> Self {
        self.body.errors = errors
            .into_iter()
            .map(|e| ProblemError {
                pointer: Some(format!("{prefix}{}", e.pointer)),
                parameter: None,
                code: e.code,
                detail: e.detail,
            })
            .collect();
        self
    }

    /// `challenge` goes into WWW-Authenticate (RFC 9110 section 11.6.1).
    pub fn unauthorized(challenge: &'static str, detail: &str) -> Self {
        Self::new(Code::Unauthorized, detail).with_header(WWW_AUTHENTICATE, challenge)
    }

    pub fn with_header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.header = Some((name, HeaderValue::from_static(value)));
        self
    }

    /// Rounded up: a client that obeys must not come too early.
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.body.retry_after_seconds = Some(after.as_millis().div_ceil(1000).clamp(1, 3600) as u64);
        self
    }

    /// What only the outer layer knows.
    pub(crate) fn at(mut self, path: &str, request_id: &str) -> Self {
        self.body.instance = Some(path.to_owned());
        self.body.request_id = Some(request_id.to_owned());
        self
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::Unavailable { retry_after } => {
                Problem::new(Code::Unavailable, "nothing was done; send the request again after Retry-After")
                    .with_retry_after(retry_after)
            }
            ServiceError::Internal => Problem::internal(),
        }
    }
}

impl Problem {
    pub fn internal() -> Self {
        Self::new(Code::Internal, "our mistake; sending the same request again is safe")
    }
}

impl IntoResponse for Problem {
    /// Leaves itself in the response's extensions, so that the outer layer can add the request id.
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.body.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(&self.body)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.body.retry_after_seconds {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some((name, value)) = self.header.clone() {
            headers.insert(name, value);
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// What a code means.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProblemPage {
    #[serde(rename = "type")]
    type_ref: String,
    #[schema(value_type = String)]
    code: &'static str,
    status: u16,
    #[schema(value_type = String)]
    title: &'static str,
    /// What it means and what to do.
    #[schema(value_type = String)]
    meaning: &'static str,
}

/// Explains a problem's `type`.
#[utoipa::path(get, path = "/problems/{code}", tag = "about", security(()),
    params(("code" = String, Path, description = "The code of a problem")),
    responses((status = 200, description = "What it means and what to do", body = ProblemPage)))]
pub(crate) async fn find_problem(Path(code): Path<String>) -> Result<Json<ProblemPage>, Problem> {
    let code = Code::ALL
        .iter()
        .find(|known| known.as_str() == code)
        .ok_or_else(|| Problem::new(Code::NotFound, "no such problem code"))?;
    Ok(Json(ProblemPage {
        type_ref: format!("/problems/{}", code.as_str()),
        code: code.as_str(),
        status: code.status(),
        title: code.title(),
        meaning: code.meaning(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_every_one_says_what_to_do() {
        let mut words: Vec<_> = Code::ALL.iter().map(|c| c.as_str()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Code::ALL.len());
        assert!(Code::ALL.iter().all(|c| c.meaning().ends_with('.') && c.status() >= 400));
    }

    #[test]
    fn retry_after_is_rounded_up_and_at_least_a_second() {
        let seconds = |ms| {
            Problem::from(ServiceError::Unavailable { retry_after: Duration::from_millis(ms) })
                .body()
                .retry_after_seconds
        };
        assert_eq!((seconds(0), seconds(1001), seconds(2000)), (Some(1), Some(2), Some(2)));
    }
}
