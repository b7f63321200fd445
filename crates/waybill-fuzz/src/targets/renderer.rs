//! The two sides of the renderer's contract: an order as the function reads it, and an answer as we do.

use super::as_text;
use waybill_aws::read_answer;
use waybill_core::ports::{
    RenderFailure,
    renderer_contract::{RenderOrder, VERSION},
};

pub(crate) const WORDS: &[&str] = &[
    "\"version\":1",
    "\"document_type\"",
    "\"template_version\":1",
    "\"data\":\"{}\"",
    "\"object_key\"",
    "\"result\":\"rendered\"",
    "\"result\":\"failed\"",
    "\"size\":1",
    "\"sha256\":\"",
    "\"kind\":\"temporary\"",
    "\"detail\"",
    "\"errorType\"",
    "0000000000000000000000000000000000000000000000000000000000000000",
];

pub(crate) fn check(input: &[u8]) {
    for function_error in [None, Some("Unhandled")] {
        match read_answer(200, function_error, input) {
            Ok(_) => assert_eq!(function_error, None, "a function that failed has rendered nothing"),
            Err(failure) => bounded(&failure),
        }
    }
    assert!(read_answer(202, None, input).is_err(), "nothing but 200 is a result");
    let Some(text) = as_text(input) else { return };
    match RenderOrder::parse(text) {
        Ok(order) => {
            assert!((1..=VERSION).contains(&order.version));
            let written = serde_json::to_string(&order).expect("an order is JSON");
            assert_eq!(RenderOrder::parse(&written), Ok(order));
        }
        Err(failure) => bounded(&failure),
    }
}

fn bounded(failure: &RenderFailure) {
    assert!(failure.to_string().chars().count() <= 800, "{failure}");
}
