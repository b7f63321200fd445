//! Providers: how long a call takes, a rate that the account allows, and outages.

use crate::{inputs::Inputs, rng::Rng};

/// A provider of the list, as a scenario describes it.
#[derive(Debug, Clone)]
pub struct ProviderSetup {
    pub name: &'static str,
    /// Median of a call, seconds.
    pub median: f64,
    /// Standard deviation of its logarithm.
    pub spread: f64,
    /// Mails per second that the account may send.
    pub quota: f64,
    pub outage: Option<Outage>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outage {
    pub from: f64,
    pub until: f64,
    pub kind: OutageKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutageKind {
    /// Refuses at once.
    Refuses,
    /// Takes the call and never answers.
    Hangs,
}

/// What a call comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Accepted,
    /// Certainly not accepted: away.
    Refused,
    /// Above the account's rate.
    Throttled,
    /// The time-out was over.
    Unknown,
}

#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) setup: ProviderSetup,
    tokens: f64,
    last: f64,
    pub(crate) accepted: u64,
    pub(crate) throttled: u64,
}

impl Provider {
    pub(crate) fn new(setup: ProviderSetup) -> Self {
        let tokens = setup.quota;
        Self { setup, tokens, last: 0.0, accepted: 0, throttled: 0 }
    }

    /// Seconds until the answer, and the answer.
    pub(crate) fn call(&mut self, now: f64, inputs: &Inputs, rng: &mut Rng) -> (f64, Answer) {
        match self.setup.outage.filter(|outage| (outage.from..outage.until).contains(&now)).map(|outage| outage.kind) {
            Some(OutageKind::Refuses) => return (inputs.ms("refused_ms"), Answer::Refused),
            Some(OutageKind::Hangs) => return (inputs.get("provider_timeout_s"), Answer::Unknown),
            None => {}
        }
        // A bucket of one second's mails.
        self.tokens = (self.tokens + (now - self.last) * self.setup.quota).min(self.setup.quota);
        self.last = now;
        if self.tokens < 1.0 {
            self.throttled += 1;
            return (inputs.ms("refused_ms"), Answer::Throttled);
        }
        self.tokens -= 1.0;
        let seconds = rng.log_normal(self.setup.median, self.setup.spread);
        if seconds > inputs.get("provider_timeout_s") {
            return (inputs.get("provider_timeout_s"), Answer::Unknown);
        }
        self.accepted += 1;
        (seconds, Answer::Accepted)
    }
}
