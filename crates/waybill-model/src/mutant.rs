//! Wrong protocols. Each differs from the right one in a single place of the model, and a promise has to refuse it: if none does, the
//! model proves nothing.

use crate::bounds::{Bounds, Faults};
use waybill_core::outcome::OnUnknown;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// The protocol as it is.
    None,
    /// Looks at the send log, then takes the lock, then sends: the classic.
    LogCheckBeforeLock,
    /// Deletes the lock's key whoever owns it.
    ReleaseWithoutOwnerCheck,
    /// Takes a held lock for "somebody else sends it" and deletes the message; no row remembers.
    AcknowledgeOnHeldLock,
    /// The lock is the only guard: the log is looked at behind it, and no claim is asked for.
    LockWithoutClaim,
    /// Records results by delivery, whoever holds the claim now.
    RecordWithoutToken,
    /// Calls without asking the clock whether the claim lasts.
    NoClockCheck,
    /// The claim's statement takes an expired claim over instead of having it reconciled.
    TakeOverWithoutReconcile,
    /// An identity whose outcome is unknown may be claimed by its other deliveries.
    UnknownFreesIdentity,
    /// An acceptance whose claim was lost is thrown away.
    LateAcceptanceIgnored,
    /// Events that came before the result are not looked at when the window closes.
    EarlyEventIgnored,
    /// A second delivery of an identity in progress is a duplicate at once.
    DuplicateOfClaimed,
    /// Takes a claim away without looking (again) whether its time is over.
    TakesLiveClaims,
}

impl Mutant {
    /// All that have to be refused.
    pub const ALL: [Self; 12] = [
        Self::LogCheckBeforeLock,
        Self::ReleaseWithoutOwnerCheck,
        Self::AcknowledgeOnHeldLock,
        Self::LockWithoutClaim,
        Self::RecordWithoutToken,
        Self::NoClockCheck,
        Self::TakeOverWithoutReconcile,
        Self::UnknownFreesIdentity,
        Self::LateAcceptanceIgnored,
        Self::EarlyEventIgnored,
        Self::DuplicateOfClaimed,
        Self::TakesLiveClaims,
    ];

    /// The promises that it breaks within [`Mutant::bounds`].
    pub fn breaks(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::LogCheckBeforeLock | Self::LockWithoutClaim => &["sent_twice"],
            Self::ReleaseWithoutOwnerCheck => &["guard_taken"],
            Self::AcknowledgeOnHeldLock => &["forgotten", "lost"],
            Self::RecordWithoutToken => &["sent_twice"],
            Self::NoClockCheck => &["called_without_claim", "sent_twice"],
            Self::TakeOverWithoutReconcile => &["sent_twice"],
            Self::UnknownFreesIdentity => &["sent_twice"],
            Self::LateAcceptanceIgnored => &["acceptance_unrecorded"],
            Self::EarlyEventIgnored => &["event_ignored"],
            Self::DuplicateOfClaimed => &["false_duplicate"],
            Self::TakesLiveClaims => &["called_without_claim"],
        }
    }

    /// The fewest faults that show it.
    pub fn bounds(self) -> Bounds {
        let none = Faults { together: 9, ..Faults::NONE };
        let faults = match self {
            Self::None
            | Self::LogCheckBeforeLock
            | Self::AcknowledgeOnHeldLock
            | Self::DuplicateOfClaimed
            | Self::TakesLiveClaims => none,
            Self::ReleaseWithoutOwnerCheck => Faults { lock_losses: 1, refusals: 2, ..none },
            Self::LockWithoutClaim => Faults { lock_losses: 1, ..none },
            Self::RecordWithoutToken => Faults { stalls: 1, refusals: 2, ..none },
            Self::NoClockCheck => Faults { stalls: 1, ..none },
            Self::TakeOverWithoutReconcile => Faults { crashes: 1, lock_losses: 1, ..none },
            Self::UnknownFreesIdentity => Faults { lost_answers: 1, lock_losses: 1, ..none },
            Self::LateAcceptanceIgnored => Faults { stalls: 1, ..none },
            Self::EarlyEventIgnored => Faults { crashes: 1, events: 1, ..none },
        };
        Bounds {
            name: self.name(),
            on_unknown: OnUnknown::Reconcile,
            providers: 1,
            max_attempts: 3,
            max_crashes: 3,
            faults,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::LogCheckBeforeLock => "log_check_before_lock",
            Self::ReleaseWithoutOwnerCheck => "release_without_owner_check",
            Self::AcknowledgeOnHeldLock => "acknowledge_on_held_lock",
            Self::LockWithoutClaim => "lock_without_claim",
            Self::RecordWithoutToken => "record_without_token",
            Self::NoClockCheck => "no_clock_check",
            Self::TakeOverWithoutReconcile => "take_over_without_reconcile",
            Self::UnknownFreesIdentity => "unknown_frees_identity",
            Self::LateAcceptanceIgnored => "late_acceptance_ignored",
            Self::EarlyEventIgnored => "early_event_ignored",
            Self::DuplicateOfClaimed => "duplicate_of_claimed",
            Self::TakesLiveClaims => "takes_live_claims",
        }
    }
}
