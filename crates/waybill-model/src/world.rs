//! One state of everything that the protocol touches.

use crate::bounds::Faults;
use waybill_core::state::DeliveryState;

/// One of the two deliveries. They have one identity: two employees triggered the same order at the same moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Delivery {
    D1,
    D2,
}

impl Delivery {
    pub const ALL: [Self; 2] = [Self::D1, Self::D2];

    pub fn index(self) -> usize {
        match self {
            Self::D1 => 0,
            Self::D2 => 1,
        }
    }

    pub fn other(self) -> Self {
        match self {
            Self::D1 => Self::D2,
            Self::D2 => Self::D1,
        }
    }
}

/// Names a claim. Small, and used again once nobody can name the old one any more.
pub type Token = u8;

/// When the scheduler looks at a claimable row next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Due {
    /// A message was queued; only after a long time does it count as lost.
    Backstop,
    /// Put off until what it waits for may have changed.
    PutOff,
    /// A retry.
    Soon,
    /// Not a claimable row.
    Never,
}

/// A row of `deliveries`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Row {
    pub state: DeliveryState,
    pub due: Due,
    /// SENDING, and the claim's time is over.
    pub expired: bool,
    /// UNKNOWN, and only a person decides.
    pub held: bool,
    pub attempts: u8,
    pub crashes: u8,
    pub position: u8,
    /// A provider's event that says "accepted" is in `provider_events`.
    pub event: bool,
    /// Truth: a provider accepted it.
    pub accepted: bool,
}

/// The identity's row in `sends`; `Free` is no row, or a released one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Send {
    Free,
    Claimed { by: Delivery, token: Token },
    Unknown { by: Delivery, token: Token },
    Sent { by: Delivery },
}

/// The outcome of a call, as the worker sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    Accepted,
    Unavailable,
    RejectedRecipient,
    Unknown,
}

/// What a worker is going to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    Sent,
    Unknown { position: u8, hold: bool },
    Hold { position: u8 },
    Retry,
    Failed,
}

/// A worker's next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum At {
    Idle,
    /// Loaded, wants the lock.
    Lock,
    /// Wants the claim.
    Claim,
    /// Has to put its row off.
    Defer,
    /// Has to make its row a DUPLICATE.
    Finish,
    /// Holds the claim as far as it knows, and asks its clock.
    Check,
    /// Its clock let it call: nothing stands between it and the socket.
    Call,
    Record(Verdict),
    /// Has to give the lock back.
    Release,
    /// Has to delete the message.
    Acknowledge,
}

/// A process with one message in hand, unless it is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Worker {
    pub at: At,
    pub delivery: Delivery,
    /// Of its claim; 0 before.
    pub token: Token,
    pub attempts: u8,
    pub position: u8,
    pub calls: [Option<Call>; 2],
    /// Its claim's time is over.
    pub late: bool,
    /// It stood still past the end of its claim just before the call.
    pub frozen: bool,
    /// It took the lock, and the lock was neither lost nor given back by its delivery since.
    pub guarded: bool,
}

impl Worker {
    pub const IDLE: Self = Self {
        at: At::Idle,
        delivery: Delivery::D1,
        token: 0,
        attempts: 0,
        position: 0,
        calls: [None; 2],
        late: false,
        frozen: false,
        guarded: false,
    };

    pub fn is_idle(&self) -> bool {
        self.at == At::Idle
    }

    /// Between the claim and the record of its result.
    pub fn has_claim(&self) -> bool {
        match self.at {
            At::Check | At::Call | At::Record(_) => true,
            At::Idle | At::Lock | At::Claim | At::Defer | At::Finish | At::Release | At::Acknowledge => false,
        }
    }

    pub fn made_calls(&self) -> u8 {
        u8::from(self.calls[0].is_some()) + u8::from(self.calls[1].is_some())
    }
}

/// What really happened at the providers, and what of it nobody may contradict. No process can see this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Truth {
    /// Acceptances; counts to 3.
    pub acceptances: u8,
    /// Bits of tokens: a call of this attempt was accepted, and nobody has declared its outcome unknown and settled that by the policy.
    pub open: u8,
    /// Bits of tokens whose unknown outcome was settled by the policy: another mail is allowed.
    pub licensed: u8,
    /// An acceptance that can't be declared unknown any more.
    pub open_for_good: bool,
    /// An acceptance was recorded.
    pub recorded: bool,
    /// Promises that a step broke: [`Broken`] as bits.
    pub broken: u8,
}

/// A promise that is about a step, not about a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// A second acceptance without the policy's leave, by a process that was not frozen.
    SentTwice = 1,
    /// A move that `may_become` does not allow.
    IllegalMove = 2,
    /// A message deleted, and no row remembers what has to happen next.
    Forgotten = 4,
    /// A call by somebody whose claim had been taken away.
    CalledWithoutClaim = 8,
    /// A window closed although an event had said that the mail was accepted.
    EventIgnored = 16,
    /// A worker was told of an acceptance, and let go without the identity being sent.
    AcceptanceUnrecorded = 32,
}

/// One state; its hash is made from `pack`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct World {
    pub rows: [Row; 2],
    pub send: Send,
    pub lock: Option<Delivery>,
    /// Messages that can be received.
    pub queue: [u8; 2],
    pub workers: [Worker; 2],
    pub left: Faults,
    pub truth: Truth,
}

impl World {
    /// Both deliveries were just routed, and each has its message.
    pub fn start(left: Faults) -> Self {
        let row = Row {
            state: DeliveryState::Pending,
            due: Due::Backstop,
            expired: false,
            held: false,
            attempts: 0,
            crashes: 0,
            position: 0,
            event: false,
            accepted: false,
        };
        let truth = Truth { acceptances: 0, open: 0, licensed: 0, open_for_good: false, recorded: false, broken: 0 };
        Self { rows: [row; 2], send: Send::Free, lock: None, queue: [1; 2], workers: [Worker::IDLE; 2], left, truth }
    }

    pub fn row(&self, delivery: Delivery) -> &Row {
        &self.rows[delivery.index()]
    }

    pub fn row_mut(&mut self, delivery: Delivery) -> &mut Row {
        &mut self.rows[delivery.index()]
    }

    pub fn all_final(&self) -> bool {
        self.rows.iter().all(|row| row.state.is_final())
    }

    pub fn handles(&self, delivery: Delivery) -> bool {
        self.workers.iter().any(|w| !w.is_idle() && w.delivery == delivery)
    }

    pub fn breaks(&mut self, promise: Broken) {
        self.truth.broken |= promise as u8;
    }

    /// The one way in which a delivery changes its state.
    pub fn move_row(&mut self, delivery: Delivery, to: DeliveryState, due: Due) {
        if !self.row(delivery).state.may_become(to) {
            self.breaks(Broken::IllegalMove);
        }
        let row = self.row_mut(delivery);
        row.state = to;
        row.due = due;
        row.expired = false;
        row.held = false;
    }

    /// An acceptance that we learn of by a late result, an event or a person: it makes the identity sent unless it already is, and its
    /// delivery SENT.
    pub fn fact(&mut self, delivery: Delivery) {
        if !self.row(delivery).state.may_become(DeliveryState::Sent) {
            return;
        }
        if !matches!(self.send, Send::Sent { .. }) {
            self.send = Send::Sent { by: delivery };
        }
        self.truth.recorded = true;
        self.move_row(delivery, DeliveryState::Sent, Due::Never);
    }

    /// A kept event takes effect on a row that is not under way.
    pub fn settle_by_event(&mut self, delivery: Delivery) -> bool {
        let row = self.row(delivery);
        let open = row.state != DeliveryState::Sending && row.state.may_become(DeliveryState::Sent);
        if row.event && open {
            self.fact(delivery);
        }
        self.row(delivery).state.is_accepted()
    }

    /// The policy has settled an unknown outcome: another mail is allowed, and it is counted.
    pub fn license(&mut self, token: Token) {
        self.truth.open &= !bit(token);
        self.truth.licensed |= bit(token);
    }

    /// The same inside a pass, where the attempt goes on.
    pub fn forgive(&mut self, token: Token) {
        self.truth.open &= !bit(token);
    }

    /// A provider accepts a mail of this attempt.
    pub fn accept(&mut self, delivery: Delivery, token: Token, frozen: bool) {
        let truth = &mut self.truth;
        if (truth.open != 0 || truth.open_for_good) && !frozen {
            truth.broken |= Broken::SentTwice as u8;
        }
        truth.acceptances = (truth.acceptances + 1).min(3);
        if truth.licensed & bit(token) == 0 {
            truth.open |= bit(token);
        }
        self.row_mut(delivery).accepted = true;
    }
}

pub(crate) fn bit(token: Token) -> u8 {
    if token == 0 { 0 } else { 1 << (token - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_that_the_product_does_not_allow_breaks_a_promise_and_an_allowed_one_does_not() {
        for from in DeliveryState::ALL {
            for to in DeliveryState::ALL {
                let mut world = World::start(Faults::NONE);
                world.rows[0].state = *from;
                world.move_row(Delivery::D1, *to, Due::Never);
                let broken = world.truth.broken == Broken::IllegalMove as u8;
                assert_eq!(broken, !from.may_become(*to), "{from} -> {to}");
            }
        }
    }
}
