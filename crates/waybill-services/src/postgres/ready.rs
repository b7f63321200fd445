//! Is the server ready? Asked over the wire, as a client would (PostgreSQL manual, "Message Flow", "Message Formats").

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::Duration;

use super::cluster::ROLE;

const PATIENCE: Duration = Duration::from_secs(1);
const PROTOCOL_3_0: u32 = 0x0003_0000;

/// `Ok` when a connection attempt gets as far as the question for a password.
pub(super) fn ask(port: u16) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&startup_packet())?;
    let mut kind = [0_u8; 1];
    stream.read_exact(&mut kind)?;
    match kind[0] {
        b'R' => Ok(()),
        b'E' => Err(io::Error::other(error_message(&mut stream)?)),
        other => Err(io::Error::other(format!("an answer of kind {other:#04x}"))),
    }
}

fn startup_packet() -> Vec<u8> {
    let parameters = format!("user\0{ROLE}\0database\0postgres\0\0");
    let length = 8 + u32::try_from(parameters.len()).unwrap_or(0);
    let mut packet = Vec::new();
    packet.extend(length.to_be_bytes());
    packet.extend(PROTOCOL_3_0.to_be_bytes());
    packet.extend(parameters.as_bytes());
    packet
}

/// The text (field `M`) of an ErrorResponse, such as "the database system is starting up".
fn error_message(stream: &mut impl Read) -> io::Result<String> {
    let mut length = [0_u8; 4];
    stream.read_exact(&mut length)?;
    let mut body = Vec::new();
    stream.take(u64::from(u32::from_be_bytes(length)).saturating_sub(4).min(8192)).read_to_end(&mut body)?;
    let message = body.split(|&byte| byte == 0).find_map(|field| field.strip_prefix(b"M"));
    Ok(String::from_utf8_lossy(message.unwrap_or(b"an error without text")).into_owned())
}

/// Whether `postmaster.pid` says that our process is the one on that port, and ready: another server may have been
/// quicker to take it. Lines 1, 4 and 8 are the pid, the port and the status.
pub(super) fn is_ours(data: &Path, pid: u32, port: u16) -> bool {
    let text = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let line = |number: usize| text.lines().nth(number - 1).map(str::trim).unwrap_or_default().to_owned();
    line(1) == pid.to_string() && line(4) == port.to_string() && line(8) == "ready"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_startup_packet_states_its_own_length() {
        let packet = startup_packet();
        assert_eq!(packet[..8], [0, 0, 0, 40, 0, 3, 0, 0]);
        assert_eq!(packet.len(), 40);
        assert_eq!(&packet[8..], b"user\0waybill\0database\0postgres\0\0");
    }

    #[test]
    fn the_text_of_an_error_response_is_found_between_its_fields() {
        let mut answer: &[u8] = b"\0\0\0\x2fSFATAL\0C57P03\0Mthe database is starting up\0\0\0rest";
        assert_eq!(error_message(&mut answer).unwrap(), "the database is starting up");
        let mut cut: &[u8] = b"\0\0\0\x05S";
        assert_eq!(error_message(&mut cut).unwrap(), "an error without text");
    }
}
