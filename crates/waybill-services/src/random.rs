//! Passwords and folder names that nobody can guess.

use std::fs::File;
use std::io::{self, Read};

/// 128 random bits of the operating system as 32 hexadecimal digits, which need no escaping in a URL or a configuration
/// file.
pub(crate) fn hex128() -> io::Result<String> {
    let mut bytes = [0_u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
