//! Reads what an invocation came back with.

use serde::Deserialize;
use waybill_core::{
    ports::{RenderFailure, RenderedDocument, renderer_contract::RenderAnswer},
    text::storable,
};

/// Of what is kept of a text from outside.
const MAX_TEXT: usize = 300;

/// What the function claims to have done.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    pub document: RenderedDocument,
    pub template_version: i32,
}

/// The function's error as the Lambda runtime reports it. Its message and trace are not read: they may hold the document's data.
#[derive(Deserialize)]
struct FunctionFailure {
    #[serde(rename = "errorType")]
    error_type: String,
}

/// What an invocation's answer says. A function that threw, ran out of time or memory, or died answers with status 200 too: the header tells (Lambda API, "Invoke").
///
/// # Errors
/// The function's own failure, or [`RenderFailure::Temporary`] for everything that is no answer of the contract.
pub fn read_answer(status: i32, function_error: Option<&str>, payload: &[u8]) -> Result<Said, RenderFailure> {
    if status != 200 {
        return Err(RenderFailure::Temporary(format!(
            "the invocation was answered with {status}, and only 200 is a result"
        )));
    }
    if let Some(kind) = function_error {
        let failure: Option<FunctionFailure> = serde_json::from_slice(payload).ok();
        let error_type = failure.map_or("no error type".into(), |failure| storable(&failure.error_type, MAX_TEXT));
        let kind = storable(kind, MAX_TEXT);
        tracing::warn!(error_type, kind, "renderer.function_error");
        return Err(RenderFailure::Temporary(format!("the renderer's function failed ({kind}): {error_type}")));
    }
    if payload.is_empty() {
        return Err(RenderFailure::Temporary("the renderer's answer is empty".into()));
    }
    let answer: RenderAnswer = serde_json::from_slice(payload).map_err(|_| {
        RenderFailure::Temporary(format!("the renderer's answer ({} octets) is not of the contract", payload.len()))
    })?;
    match answer {
        RenderAnswer::Rendered { size, sha256, template_version } => {
            let mut hash = [0; 32];
            hex::decode_to_slice(&sha256, &mut hash)
                .map_err(|_| RenderFailure::Temporary("the renderer's answer has no valid SHA-256".into()))?;
            Ok(Said { document: RenderedDocument { size, sha256: hash }, template_version })
        }
        RenderAnswer::Failed { kind, detail } => Err(kind.with(storable(&detail, MAX_TEXT))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temporary(status: i32, function_error: Option<&str>, payload: &[u8]) -> String {
        match read_answer(status, function_error, payload) {
            Err(RenderFailure::Temporary(detail)) => detail,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pdf_01_a_function_error_counts_before_the_payload_and_only_its_type_is_kept() {
        let good = format!(r#"{{"result":"rendered","size":1,"sha256":"{}","template_version":1}}"#, "0".repeat(64));
        assert!(read_answer(200, None, good.as_bytes()).is_ok());
        assert!(temporary(200, Some("Unhandled"), good.as_bytes()).contains("no error type"));
        let died = br#"{"errorType":"Runtime.\u0000ExitError","errorMessage":"customer Ana","trace":["customer"]}"#;
        let detail = temporary(200, Some("Unhandled"), died);
        assert_eq!(detail, "the renderer's function failed (Unhandled): Runtime.\u{fffd}ExitError");
    }

    #[test]
    fn pdf_01_every_other_answer_is_temporary_with_a_text_of_its_own() {
        for (status, payload, words) in [
            (202, &b""[..], "202"),
            (204, b"", "204"),
            (200, b"", "is empty"),
            (200, br#"{"statusCode":500}"#, "not of the contract"),
            (200, b"null", "not of the contract"),
            (200, b"<html>", "not of the contract"),
            (200, br#"{"result":"rendered","size":1,"sha256":"ab","template_version":1}"#, "SHA-256"),
            (200, br#"{"result":"rendered","size":-1,"sha256":"","template_version":1}"#, "not of the contract"),
            (200, br#"{"result":"failed","kind":"temporary","detail":"busy\u0000"}"#, "busy\u{fffd}"),
        ] {
            let detail = temporary(status, None, payload);
            assert!(detail.contains(words), "{detail}");
        }
        let permanent =
            read_answer(200, None, br#"{"result":"failed","kind":"permanent","detail":"/total is missing"}"#);
        assert_eq!(permanent, Err(RenderFailure::Permanent("/total is missing".into())));
    }
}
