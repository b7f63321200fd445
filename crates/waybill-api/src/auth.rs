//! Who may come in: API keys for tenants. Decided on the request's head alone, before a byte of its body is read.

use crate::{
    problem::{Code, Problem},
    state::ApiState,
};
use axum::extract::FromRequestParts;
use hyper::{HeaderMap, header::AUTHORIZATION, http::request::Parts};
use sha2::{Digest, Sha256};
use std::marker::PhantomData;
use waybill_core::ids::TenantId;

/// Every scope there is; an API key holds a set of them.
pub const SCOPES: [&str; 4] = ["events:write", "jobs:read", "jobs:write", "ops"];

/// Longer than any key we hand out; more is not worth a look-up.
const MAX_KEY: usize = 256;

/// A scope as a type, so that a route names what it needs in its signature.
pub trait Scope: Send + Sync + 'static {
    const NAME: &'static str;
}

macro_rules! scopes {
    ($($name:ident = $word:literal),+ $(,)?) => {$(
        #[derive(Debug)]
        #[doc = concat!("`", $word, "`")]
        pub struct $name;
        impl Scope for $name { const NAME: &'static str = $word; }
    )+};
}
scopes!(EventsWrite = "events:write", JobsRead = "jobs:read", JobsWrite = "jobs:write", Ops = "ops");

/// A caller whose key is valid and has the scope.
#[derive(Debug)]
pub struct Authorized<S: Scope> {
    pub tenant: TenantId,
    scope: PhantomData<S>,
}

impl<S: Scope> FromRequestParts<ApiState> for Authorized<S> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &ApiState) -> Result<Self, Problem> {
        let key = bearer(&parts.headers);
        // Hashed even when there is nothing to hash: no key, a malformed one and a wrong one take the same way.
        let hash: [u8; 32] = Sha256::digest(key.unwrap_or_default().as_bytes()).into();
        let caller = match key {
            Some(_) => api.service.authenticate(hash).await?,
            None => None,
        };
        let Some(caller) = caller else {
            return Err(Problem::unauthorized(
                "Bearer realm=\"waybill\"",
                "send `Authorization: Bearer <key>` with a key that exists, is not revoked and has not expired",
            ));
        };
        if !caller.scopes.iter().any(|scope| scope == S::NAME) {
            return Err(Problem::new(Code::MissingScope, format!("this needs a key with the scope `{}`", S::NAME)));
        }
        Ok(Self { tenant: caller.tenant, scope: PhantomData })
    }
}

/// The token of `Authorization: Bearer <token>` (RFC 6750 section 2.1). The scheme is not case-sensitive (RFC 9110 section 11.1).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    let fits = (1..=MAX_KEY).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic());
    (scheme.eq_ignore_ascii_case("bearer") && fits).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn with(values: &[&str]) -> HeaderMap {
        values.iter().map(|v| (AUTHORIZATION, HeaderValue::from_str(v).unwrap())).collect()
    }

    #[test]
    fn the_bearer_token_is_read_and_everything_else_is_none() {
        assert_eq!(bearer(&with(&["bearer  wb_test_1 "])), Some("wb_test_1"));
        let long = format!("Bearer {}", "x".repeat(MAX_KEY + 1));
        for bad in
            [&["Basic abc"][..], &["Bearer "], &["Bearer"], &["Bearer a b"], &[&long], &["Bearer a", "Bearer a"], &[]]
        {
            assert_eq!(bearer(&with(bad)), None, "{bad:?}");
        }
    }

    #[test]
    fn the_list_of_scopes_is_that_of_the_types() {
        assert_eq!(SCOPES, [EventsWrite::NAME, JobsRead::NAME, JobsWrite::NAME, Ops::NAME]);
    }
}
