//! Everything that is not a worker: scheduler, queue, Redis, time, the providers' events, and a person.

use crate::{
    action::Action,
    bounds::Fault,
    mutant::Mutant,
    protocol::Protocol,
    world::{At, Broken, Delivery, Due, Row, Send, Worker, World},
};
use waybill_core::{
    outcome::OnUnknown,
    state::DeliveryState,
    walk::{Next, Pass, Verdict},
};

impl Protocol {
    pub(crate) fn system_actions(&self, world: &World, actions: &mut Vec<Action>) {
        for delivery in Delivery::ALL {
            self.row_actions(world, delivery, actions);
            let waiting = world.queue[delivery.index()];
            if world.left.allow(Fault::Duplicate) && (waiting > 0 || world.handles(delivery)) {
                actions.push(Action::MessageRepeated(delivery));
            }
            if world.left.allow(Fault::LostMessage) && waiting > 0 {
                actions.push(Action::MessageLost(delivery));
            }
        }
        if world.lock.is_some() {
            if world.left.allow(Fault::LockLoss) {
                actions.push(Action::LockFlushed);
            }
            if lock_may_expire(world) {
                actions.push(Action::LockExpires);
            }
        }
    }

    fn row_actions(&self, world: &World, delivery: Delivery, actions: &mut Vec<Action>) {
        let row = world.row(delivery);
        if self.is_due(world, delivery) {
            actions.push(Action::Release(delivery));
        }
        if row.state == DeliveryState::Sending {
            if row.expired || self.mutant == Mutant::TakesLiveClaims {
                actions.push(Action::ExpireClaim(delivery));
            }
            if !row.expired && claim_may_end(world, delivery) {
                actions.push(Action::ClaimEnds(delivery));
            }
        }
        if row.state == DeliveryState::Unknown {
            if !row.held {
                actions.push(Action::CloseWindow(delivery));
            } else {
                actions.push(Action::SettleByHand { delivery, resend: true });
                if row.accepted {
                    actions.push(Action::SettleByHand { delivery, resend: false });
                }
            }
        }
        // An event about what is SENT already changes nothing that is modelled.
        if row.accepted && !row.event && world.left.allow(Fault::Event) && can_learn(row) {
            actions.push(Action::Event(delivery));
        }
    }

    /// The scheduler queues what is due. A row that was put off is looked at again and again; only a look that may find something else
    /// than the last one is a move of the model.
    fn is_due(&self, world: &World, delivery: Delivery) -> bool {
        let row = world.row(delivery);
        if !row.state.is_claimable() {
            return false;
        }
        match row.due {
            Due::Soon => true,
            Due::PutOff => match world.send {
                Send::Sent { .. } => true,
                Send::Claimed { .. } | Send::Unknown { .. } => false,
                Send::Free => world.lock.is_none_or(|owner| owner == delivery),
            },
            // Its message counts as lost.
            Due::Backstop => {
                self.mutant != Mutant::AcknowledgeOnHeldLock
                    && world.queue[delivery.index()] == 0
                    && !world.handles(delivery)
            }
            Due::Never => false,
        }
    }

    pub(crate) fn release(&self, world: &mut World, delivery: Delivery) {
        world.row_mut(delivery).due = Due::Backstop;
        world.queue[delivery.index()] += 1;
    }

    pub(crate) fn crash(&self, world: &mut World, worker: usize) {
        world.left.spend(Fault::Crash);
        // The message comes back after its visibility time-out.
        world.queue[world.workers[worker].delivery.index()] += 1;
        world.workers[worker] = Worker::IDLE;
    }

    /// Time passes the end of a claim. A worker between its last look at the clock and the call is not there any more at that time, unless
    /// its process stood still: the margin is longer than that.
    pub(crate) fn claim_ends(&self, world: &mut World, delivery: Delivery) {
        world.row_mut(delivery).expired = true;
        if let Some(owner) = owner(world, delivery) {
            let worker = &mut world.workers[owner];
            worker.late = true;
            if worker.at == At::Call {
                worker.frozen = true;
                world.left.spend(Fault::Freeze);
            } else {
                world.left.spend(Fault::Stall);
            }
        }
    }

    pub(crate) fn expire_claim(&self, world: &mut World, delivery: Delivery) {
        match world.send {
            Send::Claimed { by, token } if by == delivery => {
                let crashes = world.row(delivery).crashes + 1;
                match self.bounds.on_unknown {
                    OnUnknown::Reconcile | OnUnknown::Hold => {
                        world.send = Send::Unknown { by, token };
                        world.move_row(delivery, DeliveryState::Unknown, Due::Never);
                        world.row_mut(delivery).held = self.bounds.on_unknown == OnUnknown::Hold;
                    }
                    OnUnknown::Failover => {
                        world.send = Send::Free;
                        world.license(token);
                        if crashes >= self.bounds.max_crashes {
                            world.move_row(delivery, DeliveryState::Failed, Due::Never);
                        } else {
                            world.move_row(delivery, DeliveryState::Retrying, Due::Soon);
                        }
                    }
                }
                world.row_mut(delivery).crashes = crashes;
            }
            // Overtaken by a fact about the other delivery.
            Send::Claimed { .. } | Send::Unknown { .. } | Send::Free | Send::Sent { .. } => {
                world.move_row(delivery, DeliveryState::Retrying, Due::Soon);
            }
        }
        if self.mutant != Mutant::EarlyEventIgnored {
            world.settle_by_event(delivery);
        }
    }

    pub(crate) fn close_window(&self, world: &mut World, delivery: Delivery) {
        if self.mutant != Mutant::EarlyEventIgnored && world.settle_by_event(delivery) {
            return;
        }
        if world.row(delivery).event {
            world.breaks(Broken::EventIgnored);
        }
        free_unknown(world, delivery);
        let row = *world.row(delivery);
        let pass = Pass::resume(usize::from(row.position), usize::from(self.bounds.providers));
        let next = pass.start(&self.retry, u32::from(row.attempts), 0.0);
        if row.crashes >= self.bounds.max_crashes {
            world.move_row(delivery, DeliveryState::Failed, Due::Never);
            return;
        }
        let (to, due, attempts, position) = match next {
            Next::Call(position) => (DeliveryState::Retrying, Due::Soon, row.attempts, position as u8),
            Next::End(Verdict::Failed { .. }) => (DeliveryState::Failed, Due::Never, row.attempts + 1, row.position),
            Next::End(Verdict::Retry { .. }) => (DeliveryState::Retrying, Due::Soon, row.attempts + 1, 0),
            Next::End(Verdict::Hold { .. } | Verdict::Sent { .. } | Verdict::Unknown { .. }) => {
                (DeliveryState::Retrying, Due::Soon, row.attempts, 0)
            }
        };
        world.move_row(delivery, to, due);
        let row = world.row_mut(delivery);
        (row.attempts, row.position) = (attempts, position);
    }

    pub(crate) fn event(&self, world: &mut World, delivery: Delivery) {
        world.left.spend(Fault::Event);
        world.row_mut(delivery).event = true;
        world.settle_by_event(delivery);
    }

    pub(crate) fn settle_by_hand(&self, world: &mut World, delivery: Delivery, resend: bool) {
        if !resend {
            world.fact(delivery);
        } else if !world.settle_by_event(delivery) {
            free_unknown(world, delivery);
            world.move_row(delivery, DeliveryState::Retrying, Due::Soon);
        }
    }

    pub(crate) fn lose_lock(&self, world: &mut World) {
        world.lock = None;
        world.workers.iter_mut().for_each(|w| w.guarded = false);
    }
}

/// The identity leaves UNKNOWN, and its outcome is settled by the policy.
fn free_unknown(world: &mut World, delivery: Delivery) {
    if let Send::Unknown { by, token } = world.send
        && by == delivery
    {
        world.license(token);
        world.send = Send::Free;
    }
}

/// The living worker whose claim makes this row SENDING.
fn owner(world: &World, delivery: Delivery) -> Option<usize> {
    world.workers.iter().position(|w| w.delivery == delivery && w.has_claim() && !w.late)
}

fn claim_may_end(world: &World, delivery: Delivery) -> bool {
    match owner(world, delivery).map(|index| world.workers[index].at) {
        // Its process is dead.
        None => true,
        Some(At::Call) => world.left.allow(Fault::Freeze),
        Some(_) => world.left.allow(Fault::Stall),
    }
}

/// A lock lasts longer than a claim and longer than handling a message. It only matters when somebody waits for it.
fn lock_may_expire(world: &World) -> bool {
    let Some(owner) = world.lock else { return false };
    let claimed = matches!(world.send, Send::Claimed { by, .. } if by == owner && !world.row(by).expired);
    !claimed && !world.handles(owner) && world.row(owner.other()).due == Due::PutOff
}

fn can_learn(row: &Row) -> bool {
    row.state == DeliveryState::Sending || row.state.may_become(DeliveryState::Sent)
}
