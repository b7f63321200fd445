//! Fault scripts: which requests go wrong, how, and how often.
//!
//! The first entry that names the provider, matches the recipient, is due by its percentage and has count left is
//! used. Everything is deterministic: no clock and no chance, so a failing run can be run again.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde::Serialize;

use crate::mail::Provider;

macro_rules! fault_kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// What goes wrong with one request.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
        pub enum FaultKind {
            $($(#[$doc])* #[serde(rename = $name)] $kind,)*
        }

        impl FaultKind {
            pub const ALL: &[FaultKind] = &[$(FaultKind::$kind,)*];

            /// The name used in fault scripts.
            pub fn as_str(self) -> &'static str {
                match self { $(FaultKind::$kind => $name,)* }
            }
        }
    };
}

fault_kinds! {
    /// A success status without a message id. The mail is not accepted.
    NoMessageId = "no_message_id",
    /// Accepted, then silence for `delay_ms` (120 s) and a closed connection.
    TimeoutAfterAccept = "timeout_after_accept",
    /// Silence without acceptance.
    TimeoutBeforeAccept = "timeout_before_accept",
    /// 500, not accepted.
    Http500 = "http_500",
    /// 500, although the mail was accepted.
    Http500AfterAccept = "http_500_after_accept",
    /// 429, the provider's rate limit.
    Throttle = "throttle",
    /// 429 with an empty body and no header that says for how long.
    ThrottleBare = "throttle_bare",
    /// 429 with `Retry-After: 7` and an empty body.
    ThrottleRetryAfter = "throttle_retry_after",
    /// 413 with a gateway's HTML page; not accepted.
    TooLarge = "too_large",
    /// Accepted, and answered byte by byte with a head that does not end.
    Drip = "drip",
    /// Accepted, and answered with a success status and 16 MiB of nothing, without a message id.
    HugeBody = "huge_body",
    /// The connection is reset after the request was read; not accepted.
    Reset = "reset",
    /// The connection is reset after acceptance.
    ResetAfterAccept = "reset_after_accept",
    /// Accepted and answered after `delay_ms` (3 s), also when the client has hung up by then.
    Slow = "slow",
    /// The credentials are refused.
    Unauthorized = "unauthorized",
    /// The mail itself is refused, for good.
    Reject = "reject",
    /// 502 with a gateway's HTML page; not accepted.
    HtmlBody = "html_body",
    /// 400 whose JSON message contains an escaped U+0000.
    NulBody = "nul_body",
    /// 400 whose body is plain text with a raw 0x00 byte.
    RawNulBody = "raw_nul_body",
    /// The day's quota is used up.
    DailyQuota = "daily_quota",
    /// Sending is paused for the account.
    SendingPaused = "sending_paused",
    /// The account is suspended.
    AccountSuspended = "account_suspended",
    /// The sender's identity is not verified.
    UnverifiedIdentity = "unverified_identity",
}

impl FaultKind {
    pub(crate) fn parse(name: &str) -> Option<FaultKind> {
        FaultKind::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }
}

/// One entry of a fault script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    pub provider: Provider,
    pub fault: FaultKind,
    /// How many requests it hits; `None` for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Milliseconds; the length of the pause or silence of this fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Only requests to a recipient whose address contains this text, in any case.
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub recipient: Option<String>,
    /// Hits this share of the matching requests, evenly spread; `None` is all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
}

impl Fault {
    /// Hits every request to the provider, for ever.
    pub fn new(provider: Provider, fault: FaultKind) -> Self {
        Fault { provider, fault, count: None, delay_ms: None, recipient: None, percent: None }
    }

    pub fn times(self, count: u64) -> Self {
        Fault { count: Some(count), ..self }
    }

    pub fn delay(self, delay: Duration) -> Self {
        Fault { delay_ms: Some(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)), ..self }
    }

    pub fn for_recipient(self, part_of_address: impl Into<String>) -> Self {
        Fault { recipient: Some(part_of_address.into()), ..self }
    }

    /// 1 to 100; larger values mean 100.
    pub fn percent(self, percent: u8) -> Self {
        Fault { percent: Some(percent.min(100)), ..self }
    }

    fn matches(&self, provider: Provider, recipients: &[&str]) -> bool {
        let Some(part) = &self.recipient else { return self.provider == provider };
        let part = part.to_lowercase();
        self.provider == provider && recipients.iter().any(|address| address.to_lowercase().contains(&part))
    }
}

/// The fault chosen for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) kind: FaultKind,
    pub(crate) delay: Option<Duration>,
}

#[derive(Default)]
pub(crate) struct Script {
    /// Lets the usual case, no script at all, pass without the lock.
    armed: AtomicBool,
    entries: Mutex<Vec<Entry>>,
}

struct Entry {
    fault: Fault,
    /// Matching requests seen, for the percentage.
    seen: u64,
}

impl Entry {
    /// True for exactly `percent` of every 100 matching requests, spread evenly.
    fn is_due(&mut self) -> bool {
        let percent = u64::from(self.fault.percent.unwrap_or(100));
        self.seen += 1;
        self.seen * percent / 100 > (self.seen - 1) * percent / 100
    }
}

impl Script {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn replace(&self, faults: Vec<Fault>) {
        let mut entries = self.entries();
        *entries =
            faults.into_iter().filter(|fault| fault.count != Some(0)).map(|fault| Entry { fault, seen: 0 }).collect();
        self.armed.store(!entries.is_empty(), Ordering::Release);
    }

    /// What is left of the script; used-up entries are gone.
    pub(crate) fn remaining(&self) -> Vec<Fault> {
        self.entries().iter().map(|entry| entry.fault.clone()).collect()
    }

    /// The fault for one request, if one is due; counts it down.
    pub(crate) fn take(&self, provider: Provider, recipients: &[&str]) -> Option<Hit> {
        if !self.armed.load(Ordering::Acquire) {
            return None;
        }
        let mut entries = self.entries();
        let at = entries.iter_mut().position(|entry| entry.fault.matches(provider, recipients) && entry.is_due())?;
        let fault = &mut entries[at].fault;
        let hit = Hit { kind: fault.fault, delay: fault.delay_ms.map(Duration::from_millis) };
        if let Some(left) = &mut fault.count {
            *left -= 1;
            if *left == 0 {
                entries.remove(at);
                self.armed.store(!entries.is_empty(), Ordering::Release);
            }
        }
        Some(hit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(script: &Script, provider: Provider, times: usize) -> Vec<Option<FaultKind>> {
        (0..times).map(|_| script.take(provider, &["ada@example.com"]).map(|hit| hit.kind)).collect()
    }

    #[test]
    fn the_first_entry_with_count_left_is_used_and_used_up() {
        let script = Script::default();
        script.replace(vec![
            Fault::new(Provider::Ses, FaultKind::Http500).times(2),
            Fault::new(Provider::Ses, FaultKind::Throttle).times(1),
        ]);
        let expected = [Some(FaultKind::Http500), Some(FaultKind::Http500), Some(FaultKind::Throttle), None];
        assert_eq!(kinds(&script, Provider::Ses, 4), expected);
        assert!(script.remaining().is_empty());
    }

    #[test]
    fn another_provider_or_recipient_is_left_alone() {
        let script = Script::default();
        script.replace(vec![Fault::new(Provider::Ses, FaultKind::Reset).times(1).for_recipient("BOB@")]);
        assert_eq!(kinds(&script, Provider::SendGrid, 1), [None]);
        assert_eq!(kinds(&script, Provider::Ses, 1), [None]);
        assert_eq!(script.take(Provider::Ses, &["bob@example.com"]).map(|hit| hit.kind), Some(FaultKind::Reset));
    }

    #[test]
    fn a_percentage_is_exact_and_spread() {
        let script = Script::default();
        script.replace(vec![Fault::new(Provider::Ses, FaultKind::Http500).percent(5)]);
        let hits = kinds(&script, Provider::Ses, 200);
        assert_eq!(hits.iter().flatten().count(), 10);
        assert_eq!(hits[..20].iter().flatten().count(), 1);
    }

    #[test]
    fn every_kind_has_its_own_name() {
        for kind in FaultKind::ALL {
            assert_eq!(FaultKind::parse(kind.as_str()), Some(*kind));
        }
    }
}
