//! Faults in the words of SMTP. Some have no place here: a status code is HTTP's, and a server that says 4yz after it has taken a message
//! breaks the protocol; it is played all the same, so that a script means what it says.

use crate::faults::FaultKind;

/// A refusal at RCPT, before any message.
pub(super) fn at_recipient(fault: FaultKind) -> Option<&'static str> {
    match fault {
        FaultKind::Unauthorized => Some("530 5.7.0 Authentication required"),
        FaultKind::Throttle | FaultKind::ThrottleBare => Some("451 4.7.1 Too many messages, slow down"),
        FaultKind::ThrottleRetryAfter => Some("451 4.7.1 Too many messages, try again in 7 seconds"),
        FaultKind::DailyQuota => Some("550 5.4.5 Daily user sending limit exceeded"),
        FaultKind::SendingPaused => Some("550 5.7.1 Sending is paused for this account"),
        FaultKind::AccountSuspended => Some("550 5.7.0 This account is suspended"),
        FaultKind::UnverifiedIdentity => Some("553 5.1.8 The sender's address is not verified"),
        FaultKind::NoMessageId
        | FaultKind::TimeoutAfterAccept
        | FaultKind::TimeoutBeforeAccept
        | FaultKind::Http500
        | FaultKind::Http500AfterAccept
        | FaultKind::Drip
        | FaultKind::HugeBody
        | FaultKind::TooLarge
        | FaultKind::Reset
        | FaultKind::ResetAfterAccept
        | FaultKind::Slow
        | FaultKind::Reject
        | FaultKind::HtmlBody
        | FaultKind::NulBody
        | FaultKind::RawNulBody => None,
    }
}

/// What happens after the message.
pub(super) enum AfterMessage {
    /// Accepted at once, or after the fault's delay.
    Accept {
        late: bool,
    },
    /// These bytes, accepted or not.
    Say {
        accept: bool,
        bytes: &'static [u8],
    },
    /// Silence, then a closed connection.
    Silence {
        accept: bool,
    },
    Reset {
        accept: bool,
    },
    /// Accepted; a reply that comes byte by byte and does not end.
    Drip,
    /// Accepted; a reply of 16 MiB.
    Huge,
}

pub(super) fn after_message(fault: Option<FaultKind>) -> AfterMessage {
    let refuse = |bytes| AfterMessage::Say { accept: false, bytes };
    let Some(fault) = fault else { return AfterMessage::Accept { late: false } };
    match fault {
        FaultKind::NoMessageId => refuse(b"250 \r\n"),
        FaultKind::Http500 => refuse(b"451 4.3.0 Local error in processing\r\n"),
        FaultKind::Http500AfterAccept => {
            AfterMessage::Say { accept: true, bytes: b"451 4.3.0 Local error in processing\r\n" }
        }
        FaultKind::TooLarge => refuse(b"552 5.3.4 Message size exceeds fixed limit\r\n"),
        FaultKind::Reject => refuse(b"554 5.6.0 Message content rejected\r\n"),
        FaultKind::HtmlBody => refuse(b"<html><head><title>502 Bad Gateway</title></head></html>\r\n"),
        FaultKind::NulBody => refuse(b"554 5.6.0 The text\0of this reply contains U+0000\r\n"),
        FaultKind::RawNulBody => refuse(b"\0\0 no\r\n"),
        FaultKind::TimeoutBeforeAccept => AfterMessage::Silence { accept: false },
        FaultKind::TimeoutAfterAccept => AfterMessage::Silence { accept: true },
        FaultKind::Reset => AfterMessage::Reset { accept: false },
        FaultKind::ResetAfterAccept => AfterMessage::Reset { accept: true },
        FaultKind::Slow => AfterMessage::Accept { late: true },
        FaultKind::Drip => AfterMessage::Drip,
        FaultKind::HugeBody => AfterMessage::Huge,
        // Said at RCPT: no message follows.
        FaultKind::Throttle
        | FaultKind::ThrottleBare
        | FaultKind::ThrottleRetryAfter
        | FaultKind::Unauthorized
        | FaultKind::DailyQuota
        | FaultKind::SendingPaused
        | FaultKind::AccountSuspended
        | FaultKind::UnverifiedIdentity => refuse(b"451 4.3.0 Local error in processing\r\n"),
    }
}
