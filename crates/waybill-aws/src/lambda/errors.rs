//! Why an invocation did not come about.

use super::LambdaConfig;
use aws_sdk_lambda::{
    error::{ProvideErrorMetadata, SdkError},
    operation::invoke::InvokeError,
};
use waybill_core::{ports::RenderFailure, text::storable};

const MAX_TEXT: usize = 300;

/// Always temporary: nothing of it is the document's fault, and the row's attempts are bounded.
pub(super) fn not_invoked(config: &LambdaConfig, error: &SdkError<InvokeError>) -> RenderFailure {
    let function = &config.function;
    let text = match (error.raw_response(), error.code()) {
        (Some(answer), code) => {
            let status = answer.status().as_u16();
            let code = code.unwrap_or("no error code");
            let what = match code {
                "TooManyRequestsException" => "is throttled",
                "ResourceNotFoundException" => "does not exist (check its name and region)",
                "AccessDeniedException" => "may not be invoked by us (lambda:InvokeFunction)",
                _ => "could not be invoked",
            };
            let message = error.message().unwrap_or("no message");
            format!("the renderer's function {function} {what}: {status} {code}: {message}")
        }
        (None, _) if matches!(error, SdkError::TimeoutError(_)) => {
            format!("the renderer's function {function} gave no answer within {:?}", config.timeout)
        }
        (None, _) => format!("the renderer's function {function} was not reached: {}", crate::error::causes(error)),
    };
    tracing::warn!(error = %storable(&text, MAX_TEXT), "renderer.not_invoked");
    RenderFailure::Temporary(storable(&text, MAX_TEXT))
}
