//! What provider events have in common: errors, the checks of who posts them, ids made from content.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use waybill_crypto::{Secret, constant_time_eq, sha256};

/// A body that is no batch of events at all. A single event that we don't know is never an error.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    #[error("the body is not JSON")]
    NotJson(#[source] serde_json::Error),
    #[error("the body is JSON, but not {expected}")]
    Shape { expected: &'static str },
}

/// Looks up one header of a call, by its name in lower case.
pub type Headers<'a> = &'a dyn Fn(&str) -> Option<&'a str>;

/// Why a call is not taken for the provider's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("the header {name} is missing or unreadable")]
    Header { name: &'static str },
    #[error("its time is too far from ours")]
    Time,
    #[error("no signature in it fits")]
    Mismatch,
}

/// A provider's own signature over the bytes of its calls.
pub trait EventSignature: std::fmt::Debug + Send + Sync {
    /// What can be said before a byte of the body is read. `now` in Unix seconds.
    ///
    /// # Errors
    /// The call can't be the provider's, or is too old.
    fn check_headers(&self, headers: Headers<'_>, now: i64) -> Result<(), SignatureError>;

    /// `body` as it was received: nothing is parsed or trimmed before.
    ///
    /// # Errors
    /// The call is not the provider's, or is too old.
    fn verify(&self, headers: Headers<'_>, body: &[u8], now: i64) -> Result<(), SignatureError>;
}

/// Whether an `Authorization` header carries the `user:password` that was given to the provider together with our address (HTTP Basic,
/// RFC 7617). Compares in constant time; an expected value that is empty is met by nothing.
///
/// It proves that the caller knows the secret, not that the body is the provider's: that is what [`EventSignature`]s do, where the
/// provider signs and we can verify (those of SNS and SendGrid are planned).
pub fn verify_basic(authorization: Option<&str>, expected: &Secret) -> bool {
    if expected.is_empty() {
        return false;
    }
    let given = authorization.and_then(basic_credentials).unwrap_or_default();
    // Hashes have one length, so not even the length of the secret shows in the time.
    constant_time_eq(&sha256(&given), &sha256(expected.expose().as_bytes()))
}

fn basic_credentials(header: &str) -> Option<Vec<u8>> {
    let (scheme, credentials) = header.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    BASE64.decode(credentials.trim()).ok()
}

/// An event id for a provider that gives none: the same event, delivered twice, has the same bytes.
pub(crate) fn content_id(event: &[u8]) -> String {
    hex::encode(&sha256(event)[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_basic_credentials_pass() {
        let expected = Secret::from("waybill:s3cret");
        // `waybill:s3cret`, and the same with its last letter changed.
        assert!(verify_basic(Some("Basic d2F5YmlsbDpzM2NyZXQ="), &expected));
        assert!(verify_basic(Some("basic  d2F5YmlsbDpzM2NyZXQ="), &expected));
        for wrong in [
            None,
            Some(""),
            Some("Basic"),
            Some("Basic !!!"),
            Some("Basic d2F5YmlsbDpzM2NyZXM="),
            Some("Bearer d2F5YmlsbDpzM2NyZXQ="),
            Some("d2F5YmlsbDpzM2NyZXQ="),
        ] {
            assert!(!verify_basic(wrong, &expected), "{wrong:?}");
        }
    }

    #[test]
    fn without_a_secret_nobody_passes() {
        assert!(!verify_basic(Some("Basic "), &Secret::from("")));
        assert!(!verify_basic(Some("Basic Og=="), &Secret::from("")));
        assert!(!verify_basic(None, &Secret::from("")));
    }
}
