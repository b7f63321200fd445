//! `POST /inbound/{provider}/{account}`: what providers tell us, behind their signature where its key is configured, else behind a shared
//! secret (HTTP Basic).
//!
//! The body is passed on as bytes: it is the provider adapter that reads it, and foreign texts in it (U+0000, lone surrogates) are its
//! business. The limits are those of every other route.

use crate::{
    body,
    problem::{Code, Problem, ProblemBody},
    service::{FeedbackAnswer, InboundGuard, InboundSecret, InboundSignature},
    state::ApiState,
};
use axum::{
    Json,
    body::Bytes,
    extract::{Path, Request, State},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper::{HeaderMap, header::AUTHORIZATION};
use serde::Serialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq as _;
use utoipa::ToSchema;

/// The events of the call are recorded, or were before.
#[derive(Debug, Serialize, ToSchema)]
pub struct Recorded {
    events: usize,
}

/// Take a provider's events.
#[utoipa::path(post, path = "/inbound/{provider}/{account}", tag = "inbound", security(("inbound_secret" = [])),
    params(
        ("provider" = String, Path, description = "A configured provider: ses, sendgrid, resend, …"),
        ("account" = String, Path, description = "The configured account's name")),
    request_body(content = serde_json::Value, description = "As the provider sends it"),
    responses(
        (status = 200, description = "Recorded", body = Recorded),
        (status = 400, description = "Not a body of this provider", body = ProblemBody, content_type = "application/problem+json"),
        (status = 408, description = "The body came too slowly", body = ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "Too large", body = ProblemBody, content_type = "application/problem+json"),
        (status = 415, description = "Content encoding not supported", body = ProblemBody, content_type = "application/problem+json")))]
pub(crate) async fn create_inbound(
    State(api): State<ApiState>,
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
    request: Request,
) -> Result<Json<Recorded>, Problem> {
    let Path((provider, account)) = path.map_err(|_| Problem::parameter("account", "not readable UTF-8"))?;
    let body = match api.service.inbound_guard(&provider, &account) {
        Some(InboundGuard::Signature(signature)) => signed_body(&api, &*signature, request).await?,
        Some(InboundGuard::Secret(secret)) => behind_secret(&api, Some(&secret), request).await?,
        None => behind_secret(&api, None, request).await?,
    };
    match api.service.feedback(&provider, &account, body).await? {
        FeedbackAnswer::Recorded { events } => Ok(Json(Recorded { events })),
        FeedbackAnswer::Unreadable { detail } => Err(Problem::new(Code::InvalidBody, detail)),
    }
}

/// The secret is checked before a byte of the body is read.
async fn behind_secret(api: &ApiState, secret: Option<&InboundSecret>, request: Request) -> Result<Bytes, Problem> {
    if !is_allowed(request.headers(), secret) {
        return Err(refused());
    }
    body::read(request, &api.config).await
}

/// The signature is over the body, so that has to be read first: within the limits of every body, and only if the headers may be right.
async fn signed_body(api: &ApiState, signature: &dyn InboundSignature, request: Request) -> Result<Bytes, Problem> {
    let headers = request.headers().clone();
    if !signature.may_pass(&headers) {
        return Err(refused());
    }
    let body = body::read(request, &api.config).await?;
    if signature.passes(&headers, &body) { Ok(body) } else { Err(refused()) }
}

/// The same words whatever is missing: they don't tell which accounts there are, nor how they are guarded.
fn refused() -> Problem {
    Problem::unauthorized(
        "Basic realm=\"waybill inbound\"",
        "this needs HTTP Basic with the secret configured for this provider account, or the provider's signature where that is configured",
    )
}

/// Compares digests, so that neither length nor content of the secret shows in the time; an account that doesn't exist takes the same way.
fn is_allowed(headers: &HeaderMap, secret: Option<&InboundSecret>) -> bool {
    let given = Sha256::digest(basic_password(headers).unwrap_or_default());
    let wanted = Sha256::digest(secret.map_or("", InboundSecret::reveal).as_bytes());
    let equal: bool = given.as_slice().ct_eq(wanted.as_slice()).into();
    equal && secret.is_some()
}

/// The password of `Authorization: Basic` (RFC 7617): what follows the first colon.
fn basic_password(headers: &HeaderMap) -> Option<Vec<u8>> {
    let (scheme, encoded) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    let colon = decoded.iter().position(|b| *b == b':')?;
    Some(decoded[colon + 1..].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())])
    }

    #[test]
    fn only_the_right_password_of_an_existing_account_gets_in() {
        let secret = InboundSecret::new("s3cret:with:colons".into());
        let good = headers(&format!("Basic {}", STANDARD.encode("any:s3cret:with:colons")));
        assert!(is_allowed(&good, secret.as_ref()));
        assert!(!is_allowed(&good, None));
        assert!(!is_allowed(&headers(&format!("Basic {}", STANDARD.encode("any:"))), None));
        for bad in ["any:s3cret", "s3cret:with:colons", "any:", "no colon"] {
            assert!(!is_allowed(&headers(&format!("Basic {}", STANDARD.encode(bad))), secret.as_ref()), "{bad}");
        }
        assert!(!is_allowed(&headers("Bearer s3cret:with:colons"), secret.as_ref()));
        assert!(!is_allowed(&HeaderMap::new(), secret.as_ref()));
        assert!(InboundSecret::new(String::new()).is_none());
    }
}
