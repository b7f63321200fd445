use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// HMAC-SHA256 (RFC 2104) over `parts` one after the other, as if they were one text. The key may have any length.
pub fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mac) => mac,
        // RFC 2104 takes every key; the crate's signature is that of all MACs.
        Err(never) => unreachable!("{never}"),
    };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// RFC 4231, cases 2 and 6 (a key that is longer than a block).
    #[test]
    fn it_is_the_one_of_the_rfc_however_the_text_is_cut() {
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex(&hmac_sha256(b"Jefe", &[b"what do ya want for nothing?"])), expected);
        assert_eq!(hex(&hmac_sha256(b"Jefe", &[b"what do ya ", b"", b"want for nothing?"])), expected);
        let long = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
        assert_eq!(hex(&hmac_sha256(&[0xaa; 131], &[b"Test Using Larger Than Block-Size Key - Hash Key First"])), long);
    }
}
