//! Typed identifiers: a prefix and the base32 form of a UUID, as in the TypeID specification 0.3.
//!
//! `job_01jd…` sorts by creation time, can't be passed where a delivery id is wanted, and is stored as 16 bytes.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{fmt, str::FromStr};
use uuid::Uuid;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Why a text is not the identifier that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("expected an id that starts with `{expected}_`")]
    Prefix { expected: &'static str },
    #[error("expected 26 base32 characters after the prefix")]
    Suffix,
}

fn encode(id: Uuid) -> [u8; 26] {
    let mut value = id.as_u128();
    let mut out = [b'0'; 26];
    for slot in out.iter_mut().rev() {
        *slot = ALPHABET[(value & 31) as usize];
        value >>= 5;
    }
    out
}

fn decode(text: &str) -> Option<Uuid> {
    let bytes = text.as_bytes();
    // 26 characters carry 130 bits; the first may hold only three of them.
    if bytes.len() != 26 || bytes[0] > b'7' {
        return None;
    }
    let mut value: u128 = 0;
    for byte in bytes {
        let digit = ALPHABET.iter().position(|a| a == byte)?;
        value = (value << 5) | digit as u128;
    }
    Some(Uuid::from_u128(value))
}

macro_rules! typed_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Uuid);

        impl $name {
            pub const PREFIX: &'static str = $prefix;
            pub fn uuid(self) -> Uuid {
                self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!($prefix, "_"))?;
                encode(self.0).iter().try_for_each(|b| fmt::Write::write_char(f, *b as char))
            }
        }
        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let rest = text
                    .strip_prefix(concat!($prefix, "_"))
                    .ok_or(IdError::Prefix { expected: $prefix })?;
                decode(rest).map(Self).ok_or(IdError::Suffix)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
            }
        }
        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id)
            }
        }
    };
}

typed_id!(/// A tenant: one customer of the platform.
    TenantId, "ten");
typed_id!(/// An API key's row (not the secret).
    KeyId, "key");
typed_id!(/// The durable record of one accepted event.
    JobId, "job");
typed_id!(/// One recipient, one channel, one document of a job.
    DeliveryId, "dlv");
typed_id!(/// One claim's worth of work on a delivery.
    AttemptId, "att");
typed_id!(/// A rendered document.
    DocumentId, "doc");
typed_id!(/// A route; its rows are (id, version).
    RouteId, "rte");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specification_s_examples_hold() {
        assert_eq!(JobId(Uuid::nil()).to_string(), "job_00000000000000000000000000");
        assert_eq!(JobId(Uuid::from_u128(u128::MAX)).to_string(), "job_7zzzzzzzzzzzzzzzzzzzzzzzzz");
        let id: Uuid = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
        assert_eq!(JobId(id).to_string(), "job_01h455vb4pex5vsknk084sn02q");
        assert_eq!("job_01h455vb4pex5vsknk084sn02q".parse(), Ok(JobId(id)));
    }

    #[test]
    fn another_prefix_an_overflow_and_wrong_letters_are_refused() {
        assert_eq!("dlv_01h455vb4pex5vsknk084sn02q".parse::<JobId>(), Err(IdError::Prefix { expected: "job" }));
        for bad in [
            "job_8zzzzzzzzzzzzzzzzzzzzzzzzz",
            "job_01h455vb4pex5vsknk084sn02",
            "job_01h455vb4pex5vsknk084sn02u",
            "job_01H455VB4PEX5VSKNK084SN02Q",
            "job_é1h455vb4pex5vsknk084sn02",
        ] {
            assert_eq!(bad.parse::<JobId>(), Err(IdError::Suffix), "{bad}");
        }
    }

    #[test]
    fn order_of_ids_is_order_of_text() {
        let (a, b) = (Uuid::from_u128(1 << 90), Uuid::from_u128((1 << 90) + 1));
        assert!(JobId(a).to_string() < JobId(b).to_string());
    }
}
