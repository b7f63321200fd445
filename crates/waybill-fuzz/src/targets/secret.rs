//! What callers prove themselves with: API keys and Basic credentials.

use super::as_text;
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use waybill_crypto::{ApiKey, Secret};
use waybill_providers::verify_basic;

pub(crate) const WORDS: &[&str] = &["wb_live_", "wb_test_", "Basic ", "basic ", "Bearer ", "d2F5YmlsbDpzM2NyZXQ=", "="];

pub(crate) fn check(input: &[u8]) {
    let Some(text) = as_text(input) else { return };
    match ApiKey::parse(text) {
        Ok(key) => {
            assert_eq!(key.expose(), text);
            assert_eq!(key.hash(), waybill_crypto::hash(text));
            assert!(text.ends_with(key.hint()) && key.hint().len() == 4);
            assert!(!format!("{key:?}").contains(&text[8..]), "a key is not printed");
        }
        Err(error) => assert!(text.len() < 8 || !error.to_string().contains(text), "{error}"),
    }
    // Nobody but who knows it.
    let expected = Secret::from("waybill:s3cret");
    if verify_basic(Some(text), &expected) {
        let (_, credentials) = text.trim().split_once(' ').expect("a scheme and credentials");
        assert_eq!(BASE64.decode(credentials.trim()).expect("base64"), expected.expose().as_bytes());
    }
    assert!(!verify_basic(Some(text), &Secret::from("")), "an empty secret is met by nothing");
    let right = format!("Basic {}", BASE64.encode(text));
    assert!(text.is_empty() || verify_basic(Some(&right), &Secret::from(text)));
}
