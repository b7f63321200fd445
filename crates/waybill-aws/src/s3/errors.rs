//! What S3's refusals mean (Amazon S3 API Reference, "Error responses").

use crate::error::causes;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use std::error::Error;
use waybill_core::{ports::ObjectError, text::storable};

/// Of what is kept of a text from outside.
const MAX_TEXT: usize = 300;

/// The HTTP status, if there was an answer.
pub(super) fn status<E>(error: &SdkError<E>) -> Option<u16> {
    error.raw_response().map(|response| response.status().as_u16())
}

pub(super) fn unavailable(text: impl AsRef<str>) -> ObjectError {
    ObjectError::Unavailable(storable(text.as_ref(), MAX_TEXT))
}

/// A 403 and a wrong configuration need a person; everything else may pass.
pub(super) fn classify<E>(call: &str, bucket: &str, error: &SdkError<E>) -> ObjectError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let Some(status) = status(error) else {
        let what = if matches!(error, SdkError::TimeoutError(_)) { "no answer in time" } else { "no answer" };
        return unavailable(format!("{call}: {what}: {}", causes(error)));
    };
    let code = error.code().unwrap_or("no error code");
    let says = match error.message() {
        Some(message) => format!("{call} in bucket {bucket}: {status} {code}: {message}"),
        None => format!("{call} in bucket {bucket}: {status} {code}"),
    };
    match (status, code) {
        // The clock's drift is corrected by the SDK for its next call; credentials are renewed.
        (_, "RequestTimeTooSkewed" | "ExpiredToken" | "RequestTimeout" | "BadDigest") | (200, _) => unavailable(says),
        (_, "NoSuchBucket") => denied(format!("{says} (check the bucket's name and region in the configuration)")),
        (301 | 307 | 308, _) | (400, "AuthorizationHeaderMalformed") => {
            denied(format!("{says} (the bucket is in another region than the configured one)"))
        }
        (400 | 401 | 403 | 405, _) => denied(says),
        _ => unavailable(says),
    }
}

fn denied(text: String) -> ObjectError {
    ObjectError::Denied(storable(&text, MAX_TEXT))
}
