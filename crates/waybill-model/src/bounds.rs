//! How much may go wrong in one run, and the runs that are checked.

use serde_json::{Value, json};
use waybill_core::outcome::OnUnknown;

/// How often each thing may happen in one run of the model, and how many of them together. Everything not counted here happens as often
/// as it likes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Faults {
    /// All of the following together.
    pub together: u8,
    /// A worker's process dies, at any step.
    pub crashes: u8,
    /// The lock is flushed, or Redis is away when it is asked for.
    pub lock_losses: u8,
    /// A living worker is so slow that its claim ends, or that a call no longer fits before its end.
    pub stalls: u8,
    /// A process stands still between its last look at the clock and the call, past the end of its claim.
    pub freezes: u8,
    /// A provider refuses with certainty (it is away, or it rejects the recipient).
    pub refusals: u8,
    /// A provider's answer is lost: it accepted, or it did not.
    pub lost_answers: u8,
    /// The queue delivers a message again: a duplicate, or a visibility time-out under a living worker.
    pub duplicates: u8,
    /// The queue loses a message for good.
    pub lost_messages: u8,
    /// Acceptances of which the provider sends an event, at any later time or never.
    pub events: u8,
}

/// One run: a policy, a list of providers, and what may go wrong.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub name: &'static str,
    pub on_unknown: OnUnknown,
    pub providers: u8,
    pub max_attempts: u8,
    pub max_crashes: u8,
    pub faults: Faults,
}

impl Faults {
    pub const NONE: Self = Self {
        together: 0,
        crashes: 0,
        lock_losses: 0,
        stalls: 0,
        freezes: 0,
        refusals: 0,
        lost_answers: 0,
        duplicates: 0,
        lost_messages: 0,
        events: 0,
    };
}

/// A thing that may go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Crash,
    LockLoss,
    Stall,
    Freeze,
    Refusal,
    LostAnswer,
    Duplicate,
    LostMessage,
    Event,
}

impl Faults {
    pub fn allow(&self, fault: Fault) -> bool {
        let mut copy = *self;
        self.together > 0 && *copy.count(fault) > 0
    }

    pub fn spend(&mut self, fault: Fault) {
        self.together -= 1;
        *self.count(fault) -= 1;
    }

    fn count(&mut self, fault: Fault) -> &mut u8 {
        match fault {
            Fault::Crash => &mut self.crashes,
            Fault::LockLoss => &mut self.lock_losses,
            Fault::Stall => &mut self.stalls,
            Fault::Freeze => &mut self.freezes,
            Fault::Refusal => &mut self.refusals,
            Fault::LostAnswer => &mut self.lost_answers,
            Fault::Duplicate => &mut self.duplicates,
            Fault::LostMessage => &mut self.lost_messages,
            Fault::Event => &mut self.events,
        }
    }
}

impl Bounds {
    pub fn json(&self) -> Value {
        let f = self.faults;
        json!({
            "run": self.name,
            "workers": 2,
            "deliveries": 2,
            "on_unknown": self.on_unknown.as_str(),
            "providers": self.providers,
            "max_attempts": self.max_attempts,
            "faults_together": f.together,
            "max_crashes": self.max_crashes,
            "crashes": f.crashes,
            "lock_losses": f.lock_losses,
            "stalls": f.stalls,
            "freezes": f.freezes,
            "refusals": f.refusals,
            "lost_answers": f.lost_answers,
            "duplicates": f.duplicates,
            "lost_messages": f.lost_messages,
            "events": f.events,
        })
    }
}

/// Every fault that the model knows, at most `together` of them in one run.
const fn faults(together: u8) -> Faults {
    Faults {
        together,
        crashes: 2,
        lock_losses: 1,
        stalls: 2,
        freezes: 1,
        refusals: 2,
        lost_answers: 2,
        duplicates: 1,
        lost_messages: 1,
        events: 2,
    }
}

const fn bounds(name: &'static str, on_unknown: OnUnknown, providers: u8, together: u8) -> Bounds {
    Bounds { name, on_unknown, providers, max_attempts: 2, max_crashes: 2, faults: faults(together) }
}

/// Some minutes in a release build.
pub const FULL: [Bounds; 4] = [
    bounds("reconcile, one provider", OnUnknown::Reconcile, 1, 4),
    bounds("reconcile, two providers", OnUnknown::Reconcile, 2, 3),
    bounds("failover, two providers", OnUnknown::Failover, 2, 3),
    bounds("hold, two providers", OnUnknown::Hold, 2, 3),
];

/// Some seconds.
pub const QUICK: [Bounds; 4] = [
    bounds("reconcile, one provider", OnUnknown::Reconcile, 1, 2),
    bounds("reconcile, two providers", OnUnknown::Reconcile, 2, 2),
    bounds("failover, two providers", OnUnknown::Failover, 2, 2),
    bounds("hold, two providers", OnUnknown::Hold, 2, 2),
];
