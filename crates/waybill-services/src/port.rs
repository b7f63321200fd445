//! Free ports on loopback.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// A port that was free a moment ago. Another process may take it before the server does, so callers try again a few
/// times.
pub(crate) fn free() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Whether somebody listens on that port right now.
pub(crate) fn taken(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err()
}
