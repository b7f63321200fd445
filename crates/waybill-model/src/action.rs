//! The names of all moves.

use crate::world::Delivery;

/// One move of one process, of time, or of the world outside. `worker` is an index into the (sorted) workers of the state it starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// An idle worker receives a message of this delivery and loads its row.
    Receive(Delivery),
    /// The same, before the row's retry is due by the clock: the message is deleted, the row remembers.
    ReceiveEarly(Delivery),
    Step {
        worker: usize,
        choice: Choice,
    },
    Crash {
        worker: usize,
    },
    /// Time passes the end of the claim with which this row is SENDING.
    ClaimEnds(Delivery),
    LockExpires,
    LockFlushed,
    MessageRepeated(Delivery),
    MessageLost(Delivery),
    /// The scheduler queues a message for a row that is due.
    Release(Delivery),
    /// The scheduler takes an expired claim away.
    ExpireClaim(Delivery),
    /// The scheduler closes the reconcile window.
    CloseWindow(Delivery),
    /// A provider's event tells that a mail of this delivery was accepted.
    Event(Delivery),
    /// A person finds a held delivery at the provider, or wants it sent again.
    SettleByHand {
        delivery: Delivery,
        resend: bool,
    },
}

/// What a worker's step meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// The only way on.
    Go,
    /// Redis is away: without the lock.
    SkipLock,
    /// The claim lasts, but not long enough for a call.
    GiveUp,
    Accepted,
    /// The provider accepts and the answer is lost.
    AcceptedInSilence,
    /// The provider does not accept, and the answer is lost.
    RefusedInSilence,
    Unavailable,
    RejectedRecipient,
}

impl Action {
    /// Happens sooner or later if it goes on being possible: everything but faults and the providers' events.
    pub fn is_certain(&self) -> bool {
        match self {
            Self::Receive(_)
            | Self::ClaimEnds(_)
            | Self::LockExpires
            | Self::Release(_)
            | Self::ExpireClaim(_)
            | Self::CloseWindow(_)
            | Self::SettleByHand { .. } => true,
            Self::Step { choice, .. } => matches!(choice, Choice::Go | Choice::Accepted),
            Self::ReceiveEarly(_)
            | Self::Crash { .. }
            | Self::LockFlushed
            | Self::MessageRepeated(_)
            | Self::MessageLost(_)
            | Self::Event(_) => false,
        }
    }
}
