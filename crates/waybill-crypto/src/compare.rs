use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// SHA-256 (FIPS 180-4) of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Whether two byte strings are equal, in a time that depends on their lengths only.
pub fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_only_when_every_byte_is() {
        assert!(constant_time_eq(b"", b""));
        assert!(constant_time_eq(b"secret", b"secret"));
        for other in [&b"Secret"[..], b"secreT", b"secre", b"secrets", b""] {
            assert!(!constant_time_eq(b"secret", other), "{other:?}");
        }
    }
}
