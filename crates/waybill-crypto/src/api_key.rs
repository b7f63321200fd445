//! The text of an API key: `wb_live_` or `wb_test_`, 43 base62 digits for 256 random bits, 6 more for a checksum.

use crate::{RandomError, Secret, constant_time_eq, random_bytes, sha256};
use std::fmt;

const LIVE: &str = "wb_live_";
const TEST: &str = "wb_test_";
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// `62^43 > 2^256 > 62^42`.
const BODY: usize = 43;
/// `62^6 > 2^32 > 62^5`.
const CHECKSUM: usize = 6;

/// Why a text is not an API key. Says nothing about whether a well-formed key exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("an API key starts with `{LIVE}` or `{TEST}`")]
    Prefix,
    #[error("an API key has {} letters and digits after its prefix", BODY + CHECKSUM)]
    Shape,
    #[error("the checksum of this API key is wrong; it was probably not copied whole")]
    Checksum,
}

/// An API key's text. It is shown once, when the key is made; we keep its [`ApiKey::hash`] and its [`ApiKey::hint`].
#[derive(Clone)]
pub struct ApiKey(Secret);

impl ApiKey {
    /// The key for these random bits. The same bits give the same key.
    pub fn generate(live: bool, random: &[u8; 32]) -> Self {
        let mut text = String::with_capacity(LIVE.len() + BODY + CHECKSUM);
        text.push_str(if live { LIVE } else { TEST });
        text.push_str(&base62::<BODY>(random));
        let checksum = checksum(&text);
        text.push_str(&checksum);
        Self(Secret::new(text))
    }

    /// A new key from the operating system's random bytes.
    ///
    /// # Errors
    /// [`RandomError`] when there are none.
    pub fn random(live: bool) -> Result<Self, RandomError> {
        Ok(Self::generate(live, &random_bytes()?))
    }

    /// Reads a key that somebody presents.
    ///
    /// # Errors
    /// [`KeyError`]: what is wrong with the text; the text itself is in no error.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let digits = text.strip_prefix(LIVE).or_else(|| text.strip_prefix(TEST)).ok_or(KeyError::Prefix)?;
        if digits.len() != BODY + CHECKSUM || !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(KeyError::Shape);
        }
        let (signed, found) = text.split_at(text.len() - CHECKSUM);
        if !constant_time_eq(checksum(signed).as_bytes(), found.as_bytes()) {
            return Err(KeyError::Checksum);
        }
        Ok(Self(Secret::from(text)))
    }

    pub fn is_live(&self) -> bool {
        self.expose().starts_with(LIVE)
    }

    /// What is stored and looked up: see [`hash`].
    pub fn hash(&self) -> [u8; 32] {
        hash(self.expose())
    }

    /// The last four digits, for lists that people read. They are checksum, so they give away nothing of the random bits beyond
    /// 24 bits of their hash.
    pub fn hint(&self) -> &str {
        let text = self.expose();
        &text[text.len() - 4..]
    }

    /// The key itself.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_live() { "ApiKey(wb_live_[redacted])" } else { "ApiKey(wb_test_[redacted])" })
    }
}

/// SHA-256 of a presented key's whole text. Also for a text that is no key at all, so that a look-up of an unknown key does the same
/// work as one of a known key.
pub fn hash(text: &str) -> [u8; 32] {
    sha256(text.as_bytes())
}

/// The first 32 bits of the text's SHA-256.
fn checksum(text: &str) -> String {
    let hash = hash(text);
    base62::<CHECKSUM>(&[hash[0], hash[1], hash[2], hash[3]])
}

/// A big-endian number in `WIDTH` base62 digits, by long division.
fn base62<const WIDTH: usize>(number: &[u8]) -> String {
    let mut number = number.to_vec();
    let mut digits = [b'0'; WIDTH];
    for digit in digits.iter_mut().rev() {
        let mut remainder = 0u16;
        for byte in &mut number {
            let dividend = (remainder << 8) | u16::from(*byte);
            *byte = (dividend / 62) as u8;
            remainder = dividend % 62;
        }
        *digit = DIGITS[usize::from(remainder)];
    }
    debug_assert!(number.iter().all(|byte| *byte == 0), "WIDTH is too small for this number");
    digits.iter().map(|digit| char::from(*digit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn base62_is_the_positional_notation() {
        assert_eq!(base62::<3>(&[0]), "000");
        assert_eq!(base62::<2>(&[61]), "0z");
        assert_eq!(base62::<2>(&[62]), "10");
        assert_eq!(base62::<3>(&[0x0f, 0x04]), "100", "62^2 = 3844");
        assert_eq!(base62::<6>(&[0xff; 4]), "4gfFC3");
        // 2^256 - 1 fits, and is the largest.
        assert!(base62::<43>(&[0xff; 32]) > base62::<43>(&[0xfe; 32]));
    }

    #[test]
    fn a_key_reads_back_and_says_what_it_is_for() {
        for (live, prefix) in [(true, "wb_live_"), (false, "wb_test_")] {
            let key = ApiKey::generate(live, &[7; 32]);
            assert!(key.expose().starts_with(prefix));
            assert_eq!(key.expose().len(), 8 + 43 + 6);
            let read = ApiKey::parse(key.expose()).unwrap();
            assert_eq!((read.hash(), read.is_live()), (key.hash(), live));
            assert!(key.expose().ends_with(key.hint()));
        }
    }

    #[test]
    fn the_hash_is_sha_256_of_the_text() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash("abc").iter().map(|b| format!("{b:02x}")).collect::<String>(), expected, "FIPS 180-2, B.1");
        let key = ApiKey::generate(true, &[1; 32]);
        assert_eq!(key.hash(), hash(key.expose()));
        assert_ne!(
            key.hash(),
            ApiKey::generate(false, &[1; 32]).hash(),
            "a test key never opens what a live key opens"
        );
    }

    #[test]
    fn different_bits_give_different_keys() {
        let mut seen = HashSet::new();
        for byte in 0..32 {
            for bit in 0..8 {
                let mut random = [0u8; 32];
                random[byte] = 1 << bit;
                assert!(seen.insert(ApiKey::generate(true, &random).expose().to_owned()));
            }
        }
        assert_ne!(ApiKey::random(true).unwrap().hash(), ApiKey::random(true).unwrap().hash());
    }

    #[test]
    fn what_is_not_a_key_is_told_apart() {
        let good = ApiKey::generate(true, &[9; 32]).expose().to_owned();
        assert_eq!(ApiKey::parse("sk_live_abc").unwrap_err(), KeyError::Prefix);
        assert_eq!(ApiKey::parse("").unwrap_err(), KeyError::Prefix);
        assert_eq!(ApiKey::parse(&good[..good.len() - 1]).unwrap_err(), KeyError::Shape);
        assert_eq!(ApiKey::parse(&format!("{good} ")).unwrap_err(), KeyError::Shape);
        assert_eq!(
            ApiKey::parse(&good.replace("wb_live_", "wb_live_é")[..good.len() + 2]).unwrap_err(),
            KeyError::Shape
        );
        assert_eq!(ApiKey::parse(&good.replace("wb_live_", "wb_test_")).unwrap_err(), KeyError::Checksum);
        for at in 8..good.len() {
            let mut typo = good.clone().into_bytes();
            typo[at] = if typo[at] == b'a' { b'b' } else { b'a' };
            assert_eq!(ApiKey::parse(std::str::from_utf8(&typo).unwrap()).unwrap_err(), KeyError::Checksum, "{at}");
        }
    }

    #[test]
    fn a_key_does_not_print_itself() {
        let key = ApiKey::generate(true, &[3; 32]);
        assert_eq!(format!("{key:?}"), "ApiKey(wb_live_[redacted])");
    }
}
