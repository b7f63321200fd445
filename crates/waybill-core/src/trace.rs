//! The trace context of whoever sent an event: passed on and logged, never needed for anything.

use crate::ports::ReceivedMessage;
use std::fmt;

/// The name of the request header and of the message attribute.
pub const TRACEPARENT: &str = "traceparent";

/// A `traceparent` of version 00 (W3C Trace Context, section 3.2): `00-{trace id}-{parent id}-{flags}`, lower-case hexadecimal.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Traceparent(String);

impl Traceparent {
    /// `None` for anything else: a trace context that is wrong is no reason to refuse what it came with.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = |part: &str, digits: usize| {
            part.len() == digits && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let id = |part: &str, digits: usize| hex(part, digits) && part.bytes().any(|b| b != b'0');
        let mut parts = text.split('-');
        let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let good = version == "00" && id(trace, 32) && id(parent, 16) && hex(flags, 2) && parts.next().is_none();
        good.then(|| Self(text.to_owned()))
    }

    /// That of a queue message's sender.
    pub fn of(message: &ReceivedMessage) -> Option<Self> {
        message.attributes.iter().find(|(name, _)| name == TRACEPARENT).and_then(|(_, value)| Self::parse(value))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What all log lines of one trace share.
    pub fn trace_id(&self) -> &str {
        self.0.get(3..35).unwrap_or_default()
    }

    /// The attribute of a message on its way.
    pub fn attribute(&self) -> (String, String) {
        (TRACEPARENT.to_owned(), self.0.clone())
    }
}

impl fmt::Debug for Traceparent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_good_one_is_kept_as_it_is_and_names_its_trace() {
        let trace = Traceparent::parse(GOOD).unwrap();
        assert_eq!((trace.as_str(), trace.trace_id()), (GOOD, "4bf92f3577b34da6a3ce929d0e0e4736"));
        assert!(Traceparent::parse(&GOOD.replace("-01", "-00")).is_some(), "not sampled is a trace, too");
    }

    #[test]
    fn anything_else_is_dropped() {
        let zeros = |part: &str| GOOD.replace(part, &"0".repeat(part.len()));
        for bad in [
            "",
            "00",
            &GOOD[..54],
            &format!("{GOOD}-00"),
            &format!("{GOOD}0"),
            &format!(" {GOOD}"),
            &GOOD.to_uppercase(),
            &GOOD.replace("4bf", "4bg"),
            &GOOD.replace("4bf", "4b\u{e9}"),
            &GOOD.replacen("00-", "ff-", 1),
            &GOOD.replacen("00-", "01-", 1),
            &zeros("4bf92f3577b34da6a3ce929d0e0e4736"),
            &zeros("00f067aa0ba902b7"),
            "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
        ] {
            assert_eq!(Traceparent::parse(bad), None, "{bad}");
        }
    }
}
