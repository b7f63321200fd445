//! The signature of webhooks that Svix delivers, which is that of Standard Webhooks under other header names: HMAC-SHA256 over
//! `{svix-id}.{svix-timestamp}.{body}`. <https://docs.svix.com/receiving/verifying-payloads/how-manual>

use crate::events::{EventSignature, Headers, SignatureError};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use std::fmt;
use waybill_crypto::{Secret, constant_time_eq, hmac_sha256};

/// Seconds that a call's time may differ from ours, either way: what is older may be a recording.
const TOLERANCE_SECONDS: u64 = 300;
/// Svix makes keys of 24 to 64 octets; fewer than this is a typing error.
const MIN_KEY: usize = 16;
/// Entries looked at: two secrets give two, and a header of thousands is work for nothing.
const MAX_SIGNATURES: usize = 16;

/// The keys that may sign: one, or two while the secret is being changed.
pub struct Svix {
    keys: Vec<Vec<u8>>,
}

impl Svix {
    /// `whsec_{base64}`, several with commas or spaces between; the prefix may be left out. `None` if any of them is none.
    pub fn parse(secrets: &Secret) -> Option<Self> {
        let texts = secrets.expose().split([',', ' ']).filter(|text| !text.is_empty());
        let keys: Option<Vec<Vec<u8>>> = texts.map(key).collect();
        keys.filter(|keys| !keys.is_empty()).map(|keys| Self { keys })
    }
}

fn key(text: &str) -> Option<Vec<u8>> {
    let key = BASE64.decode(text.strip_prefix("whsec_").unwrap_or(text)).ok()?;
    (key.len() >= MIN_KEY).then_some(key)
}

impl fmt::Debug for Svix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Svix({} keys)", self.keys.len())
    }
}

struct Signed<'a> {
    id: &'a str,
    timestamp: &'a str,
    signatures: &'a str,
}

impl<'a> Signed<'a> {
    fn read(headers: Headers<'a>, now: i64) -> Result<Self, SignatureError> {
        let header = |name| headers(name).filter(|value| !value.is_empty()).ok_or(SignatureError::Header { name });
        let signed = Self {
            id: header("svix-id")?,
            timestamp: header("svix-timestamp")?,
            signatures: header("svix-signature")?,
        };
        let at: i64 = signed.timestamp.parse().map_err(|_| SignatureError::Header { name: "svix-timestamp" })?;
        if now.abs_diff(at) > TOLERANCE_SECONDS { Err(SignatureError::Time) } else { Ok(signed) }
    }
}

impl EventSignature for Svix {
    fn check_headers(&self, headers: Headers<'_>, now: i64) -> Result<(), SignatureError> {
        Signed::read(headers, now).map(drop)
    }

    fn verify(&self, headers: Headers<'_>, body: &[u8], now: i64) -> Result<(), SignatureError> {
        let signed = Signed::read(headers, now)?;
        let parts = [signed.id.as_bytes(), b".", signed.timestamp.as_bytes(), b".", body];
        let wanted: Vec<[u8; 32]> = self.keys.iter().map(|key| hmac_sha256(key, &parts)).collect();
        // Other versions (`v1a` is asymmetric) and what is no base64 are passed over.
        let given = signed.signatures.split(' ').filter_map(|entry| entry.strip_prefix("v1,")).take(MAX_SIGNATURES);
        let given: Vec<Vec<u8>> = given.filter_map(|text| BASE64.decode(text).ok()).collect();
        // Every pair is compared, so that the time tells nothing of which one fits.
        let fits = given.iter().flat_map(|given| wanted.iter().map(move |wanted| constant_time_eq(given, wanted)));
        if fits.fold(false, |any, fits| any | fits) { Ok(()) } else { Err(SignatureError::Mismatch) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
    const BODY: &str = r#"{"id":"evt_01","type":"notification.delivered"}"#;
    const GOOD: &str = "v1,5QAbhfBSw/OaFaEiw5FQB3XJOLTSgmHFATSmuGgzEEs=";
    const NOW: i64 = 1_764_516_000;

    fn svix(secrets: &str) -> Svix {
        Svix::parse(&Secret::from(secrets)).unwrap()
    }

    fn verify(svix: &Svix, signatures: &str, timestamp: &str, body: &[u8], now: i64) -> Result<(), SignatureError> {
        let find = |name: &str| match name {
            "svix-id" => Some("msg_01TESTVECTOR"),
            "svix-timestamp" => Some(timestamp),
            "svix-signature" => Some(signatures),
            _ => None,
        };
        svix.verify(&find, body, now)
    }

    fn signed(secret: &str, timestamp: &str, body: &[u8]) -> String {
        let parts = [b"msg_01TESTVECTOR".as_slice(), b".", timestamp.as_bytes(), b".", body];
        format!("v1,{}", BASE64.encode(hmac_sha256(&key(secret).unwrap(), &parts)))
    }

    /// The vector is one of Standard Webhooks, whose construction is the same.
    #[test]
    fn pv_01_any_v1_entry_of_any_active_secret_is_enough() {
        let other = format!("whsec_{}", BASE64.encode([7; 24]));
        let several = format!("v1,AAAA {GOOD} v1a,zzz");
        for secrets in [SECRET.to_owned(), SECRET["whsec_".len()..].to_owned(), format!("{other},{SECRET}")] {
            for signatures in [GOOD, several.as_str()] {
                assert_eq!(
                    verify(&svix(&secrets), signatures, "1764516000", BODY.as_bytes(), NOW),
                    Ok(()),
                    "{secrets}"
                );
            }
        }
        // Both sides of a rotation, each signed alone.
        let both = svix(&format!("{other} {SECRET}"));
        let by_other = signed(&other, "1764516000", BODY.as_bytes());
        assert_eq!(verify(&both, &by_other, "1764516000", BODY.as_bytes(), NOW), Ok(()));
    }

    #[test]
    fn pv_01_what_is_altered_or_signed_otherwise_does_not_pass() {
        let svix = svix(SECRET);
        let (v1a, cut) = (GOOD.replace("v1,", "v1a,"), &GOOD[..GOOD.len() - 4]);
        for signatures in ["", "v1,", "v1,AAAA", &GOOD[3..], v1a.as_str(), cut, "v1,!!!"] {
            assert!(verify(&svix, signatures, "1764516000", BODY.as_bytes(), NOW).is_err(), "{signatures}");
        }
        let altered = BODY.replace("evt_01", "evt_02");
        assert_eq!(verify(&svix, GOOD, "1764516000", altered.as_bytes(), NOW), Err(SignatureError::Mismatch));
        assert_eq!(verify(&svix, GOOD, "1764516001", BODY.as_bytes(), NOW), Err(SignatureError::Mismatch));
        // The text of the secret is not its key.
        let by_text = format!("v1,{}", BASE64.encode(hmac_sha256(SECRET.as_bytes(), &[BODY.as_bytes()])));
        assert!(verify(&svix, &by_text, "1764516000", BODY.as_bytes(), NOW).is_err());
    }

    #[test]
    fn pv_01_the_time_must_be_near_and_a_number() {
        let svix = svix(SECRET);
        for (difference, expected) in
            [(290, Ok(())), (-290, Ok(())), (310, Err(SignatureError::Time)), (-310, Err(SignatureError::Time))]
        {
            let at = (NOW + difference).to_string();
            let signature = signed(SECRET, &at, BODY.as_bytes());
            assert_eq!(verify(&svix, &signature, &at, BODY.as_bytes(), NOW), expected, "{difference}");
        }
        for at in ["abc", "", "1764516000.0", "99999999999999999999"] {
            let signature = signed(SECRET, at, BODY.as_bytes());
            let header = SignatureError::Header { name: "svix-timestamp" };
            assert_eq!(verify(&svix, &signature, at, BODY.as_bytes(), NOW), Err(header), "{at}");
        }
        let far = i64::MIN.to_string();
        assert_eq!(verify(&svix, GOOD, &far, b"", NOW), Err(SignatureError::Time));
    }

    #[test]
    fn pv_01_bytes_that_are_not_ascii_are_signed_as_they_are() {
        let body = "{\"text\":\"ção\"}".as_bytes();
        let signature = signed(SECRET, "1764516000", body);
        assert_eq!(verify(&svix(SECRET), &signature, "1764516000", body, NOW), Ok(()));
    }

    #[test]
    fn a_missing_header_is_seen_before_the_body_is_read() {
        let none = |_: &str| None;
        assert_eq!(svix(SECRET).check_headers(&none, NOW), Err(SignatureError::Header { name: "svix-id" }));
    }

    #[test]
    fn a_secret_that_is_none_is_refused_and_none_is_printed() {
        for text in ["", " ,", "whsec_", "whsec_!!!", "whsec_AAAA", &format!("{SECRET},x")] {
            assert!(Svix::parse(&Secret::from(text)).is_none(), "{text}");
        }
        assert_eq!(format!("{:?}", svix(SECRET)), "Svix(1 keys)");
    }
}
