//! From an SDK error to an outcome. What decides is how far the request got.
//!
//! | SDK error | the request | outcome |
//! |---|---|---|
//! | `ConstructionFailure` | was not written | `RejectedMessage` |
//! | `DispatchFailure`, no credentials | was not signed | `Unusable` or `Unavailable` |
//! | `DispatchFailure`, connecting failed (TCP, DNS, TLS, connect time-out) | was not sent | `Unavailable` |
//! | `DispatchFailure`, anything else | may have arrived | `Unknown` |
//! | `TimeoutError` | may have arrived | `Unknown` |
//! | `ResponseError` | was answered, unreadably | by its status; a success is `Unknown` |
//! | `ServiceError` | was answered | by code and text |

use super::classify::{self, Answer};
use crate::detail::detail;
use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_sesv2::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
    operation::send_email::SendEmailError,
};
use std::{error::Error, time::Duration};
use waybill_core::outcome::Outcome;

/// Longer wishes are clipped: a person should hear of them from the breaker, not from a mail that is a day late.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

pub(super) fn outcome(error: &SdkError<SendEmailError, HttpResponse>) -> Outcome {
    match error {
        SdkError::ConstructionFailure(_) => Outcome::RejectedMessage { detail: innermost(error) },
        SdkError::TimeoutError(_) => Outcome::Unknown { detail: "no answer within the time-out".into() },
        SdkError::DispatchFailure(_) => not_dispatched(error),
        SdkError::ResponseError(_) => answered(error.raw_response(), None, ""),
        SdkError::ServiceError(service) => {
            let error = service.err();
            answered(Some(service.raw()), error.code(), error.message().unwrap_or_default())
        }
        // The SDK's enum may grow; what is new is not certain.
        other => Outcome::Unknown { detail: innermost(other) },
    }
}

fn answered(response: Option<&HttpResponse>, code: Option<&str>, message: &str) -> Outcome {
    let status = response.map_or(0, |r| r.status().as_u16());
    let retry_after = response.and_then(retry_after).map(|d| d.min(MAX_RETRY_AFTER));
    classify::outcome(Answer { status, code, message, retry_after })
}

/// `x-amz-retry-after` in milliseconds (an SDK convention), `Retry-After` in seconds (RFC 9110 section 10.2.3).
fn retry_after(response: &HttpResponse) -> Option<Duration> {
    let number = |name: &str| response.headers().get(name).and_then(|value| value.trim().parse::<u64>().ok());
    number("x-amz-retry-after").map(Duration::from_millis).or_else(|| number("retry-after").map(Duration::from_secs))
}

/// No answer. Certain are only a connection that did not come about and a request that could not be signed.
fn not_dispatched(error: &SdkError<SendEmailError, HttpResponse>) -> Outcome {
    if let Some(cause) = find::<CredentialsError>(error) {
        return no_credentials(cause);
    }
    let detail = innermost(error);
    // TCP, DNS, TLS and the connect time-out all happen inside the connector, before the first byte of the request.
    if find::<hyper_util::client::legacy::Error>(error).is_some_and(|e| e.is_connect()) {
        return Outcome::Unavailable { detail };
    }
    Outcome::Unknown { detail }
}

fn no_credentials(cause: &CredentialsError) -> Outcome {
    // The kinds print without the key or the answer of the metadata service.
    let detail = detail(&format!("AWS credentials: {cause}"));
    match cause {
        CredentialsError::CredentialsNotLoaded(_) | CredentialsError::InvalidConfiguration(_) => {
            Outcome::Unusable { detail }
        }
        // The metadata service or STS is slow or down: temporary.
        CredentialsError::ProviderTimedOut(_)
        | CredentialsError::ProviderError(_)
        | CredentialsError::Unhandled(_)
        | _ => Outcome::Unavailable { detail },
    }
}

fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    std::iter::successors(Some(error), |&e| e.source()).find_map(|e| e.downcast_ref::<E>())
}

fn innermost(error: &SdkError<SendEmailError, HttpResponse>) -> String {
    let outer: &(dyn Error + 'static) = error;
    let cause = std::iter::successors(Some(outer), |&e| e.source()).last().unwrap_or(outer);
    detail(&format!("no answer: {cause}"))
}
