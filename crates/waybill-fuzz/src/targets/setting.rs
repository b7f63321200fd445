//! Variables of providers: any text in any of them is either taken or named, and never repeated.

use super::as_text;
use waybill_providers::{Settings, registry::PROVIDERS};

pub(crate) const WORDS: &[&str] =
    &["true", "false", "1", "10000", "600001", "https://", "http://127.0.0.1:1", "eu-central-1", "SG.x", " "];

pub(crate) fn check(input: &[u8]) {
    let Some(text) = as_text(input) else { return };
    for kind in PROVIDERS {
        let everywhere = |_: &str| Some(text.to_owned());
        // The client is not made: that may ask the network.
        let Err(errors) = (kind.build)(&Settings::new(&everywhere)) else { continue };
        assert!(!errors.is_empty());
        for error in errors {
            assert!(error.name.starts_with("WAYBILL_") || error.name.starts_with("AWS_"), "{}", error.name);
            assert!(!error.problem.is_empty());
        }
    }
}
