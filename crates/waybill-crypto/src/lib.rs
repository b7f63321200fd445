//! Secrets: how they are made, kept out of logs, hashed and compared.
//!
//! What it does:
//! - [`ApiKey`]: a key's text (`wb_live_…`, `wb_test_…`) from 256 random bits, with a checksum that tells a typing error or a random
//!   text from a key without asking the database, and its [`hash`], the only form that is ever stored;
//! - [`Secret`]: a text that does not print itself; every password or token in a configuration struct has this type;
//! - [`constant_time_eq`], [`sha256`], [`hmac_sha256`] and [`random_bytes`].
//!
//! What it refuses: a key whose prefix, length, alphabet or checksum is wrong; a random number generator that can be seeded.
//!
//! Invariants:
//! - neither `Debug` nor `Display` of anything here shows a secret, and nothing here is `Serialize`;
//! - comparing two secrets takes the same time wherever they differ (their lengths are not secret);
//! - SHA-256 without salt or stretching is right for API keys *because* they are 256 random bits. It is wrong for anything that a
//!   person chose; this crate has no password hash on purpose.
//!
//! To extend: a new kind of token gets its own module and prefix, so that scanners can find it in leaked text. Sealing of provider
//! credentials at rest (key ids, bound context) belongs here too, and is a later issue.

mod api_key;
mod compare;
mod hmac;
mod random;
mod secret;

pub use api_key::{ApiKey, KeyError, hash};
pub use compare::{constant_time_eq, sha256};
pub use hmac::hmac_sha256;
pub use random::{RandomError, random_bytes};
pub use secret::Secret;
