//! The steps of a worker. The numbers are those of docs/protocol.md, "Deliver".

use crate::{
    action::{Action, Choice},
    bounds::Fault,
    mutant::Mutant,
    protocol::Protocol,
    world::{At, Broken, Call, Delivery, Due, Send, Verdict, Worker, World},
};
use waybill_core::{
    outcome::{OnUnknown, Outcome},
    state::DeliveryState,
    walk::{self, Next, Pass, Steps},
};

impl Protocol {
    pub(crate) fn worker_actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.workers.iter().any(Worker::is_idle) {
            for delivery in Delivery::ALL {
                if world.queue[delivery.index()] > 0 {
                    actions.push(Action::Receive(delivery));
                    let row = world.row(delivery);
                    if row.state == DeliveryState::Retrying && row.due == Due::Soon {
                        actions.push(Action::ReceiveEarly(delivery));
                    }
                }
            }
        }
        for (worker, w) in world.workers.iter().enumerate() {
            if w.is_idle() {
                continue;
            }
            let mut may = |choice| actions.push(Action::Step { worker, choice });
            let left = &world.left;
            match w.at {
                At::Idle => {}
                At::Call => {
                    may(Choice::Accepted);
                    if left.allow(Fault::LostAnswer) {
                        may(Choice::AcceptedInSilence);
                        may(Choice::RefusedInSilence);
                    }
                    if left.allow(Fault::Refusal) {
                        may(Choice::Unavailable);
                        may(Choice::RejectedRecipient);
                    }
                }
                At::Lock => {
                    may(Choice::Go);
                    if left.allow(Fault::LockLoss) {
                        may(Choice::SkipLock);
                    }
                }
                At::Check => {
                    may(Choice::Go);
                    if left.allow(Fault::Stall) && !w.late {
                        may(Choice::GiveUp);
                    }
                }
                At::Claim | At::Defer | At::Finish | At::Record(_) | At::Release | At::Acknowledge => may(Choice::Go),
            }
            if left.allow(Fault::Crash) && crash_matters(w.at) {
                actions.push(Action::Crash { worker });
            }
        }
    }

    /// Steps 1 to 3: what needs no lock and no claim.
    pub(crate) fn receive(&self, world: &mut World, delivery: Delivery) {
        world.queue[delivery.index()] -= 1;
        if !world.row(delivery).state.is_claimable() {
            self.delete_message(world, delivery);
            return;
        }
        let at = if matches!(world.send, Send::Sent { .. }) { At::Finish } else { At::Lock };
        if let Some(idle) = world.workers.iter_mut().find(|w| w.is_idle()) {
            *idle = Worker { at, delivery, ..Worker::IDLE };
        }
    }

    pub(crate) fn step(&self, world: &mut World, index: usize, choice: Choice) {
        let mut worker = world.workers[index];
        match worker.at {
            At::Idle => {}
            At::Lock => self.take_lock(world, &mut worker, choice),
            At::Claim => self.claim(world, &mut worker),
            At::Defer => {
                let row = world.row_mut(worker.delivery);
                if row.state.is_claimable() && row.due != Due::Soon {
                    row.due = Due::PutOff;
                }
                worker.at = At::Acknowledge;
            }
            At::Finish => {
                if world.row(worker.delivery).state.is_claimable() {
                    world.move_row(worker.delivery, DeliveryState::Duplicate, Due::Never);
                }
                worker.at = At::Acknowledge;
            }
            At::Check => self.ask_the_clock(world, &mut worker, choice),
            At::Call => self.call(world, &mut worker, choice),
            At::Record(verdict) => self.record(world, &mut worker, verdict),
            At::Release => {
                self.release_lock(world, &mut worker);
                // This delivery gave its lock back: none of its workers counts on it any more.
                for other in world.workers.iter_mut().filter(|w| w.delivery == worker.delivery) {
                    other.guarded = false;
                }
                worker.at = At::Acknowledge;
            }
            At::Acknowledge => {
                world.workers[index] = Worker::IDLE;
                self.delete_message(world, worker.delivery);
                return;
            }
        }
        world.workers[index] = worker;
    }

    /// Step 4.
    fn take_lock(&self, world: &mut World, worker: &mut Worker, choice: Choice) {
        if choice == Choice::SkipLock {
            world.left.spend(Fault::LockLoss);
            worker.at = At::Claim;
        } else if world.lock.is_none_or(|owner| owner == worker.delivery) {
            world.lock = Some(worker.delivery);
            worker.guarded = true;
            worker.at = At::Claim;
        } else {
            worker.at = if self.mutant == Mutant::AcknowledgeOnHeldLock {
                At::Acknowledge
            } else if self.mutant == Mutant::DuplicateOfClaimed {
                At::Finish
            } else {
                At::Defer
            };
        }
    }

    /// Step 6, one statement.
    fn claim(&self, world: &mut World, worker: &mut Worker) {
        let row = *world.row(worker.delivery);
        if !row.state.is_claimable() {
            worker.at = At::Acknowledge;
            return;
        }
        worker.at = match (world.send, self.mutant) {
            (_, Mutant::LogCheckBeforeLock) => At::Check,
            (Send::Sent { .. }, _) => At::Finish,
            (_, Mutant::LockWithoutClaim) | (Send::Free, _) => At::Check,
            (Send::Claimed { by, .. }, Mutant::TakeOverWithoutReconcile) if world.row(by).expired => At::Check,
            (Send::Unknown { .. }, Mutant::UnknownFreesIdentity) => At::Check,
            (Send::Claimed { .. } | Send::Unknown { .. }, Mutant::DuplicateOfClaimed) => At::Finish,
            (Send::Claimed { .. } | Send::Unknown { .. }, _) => At::Defer,
        };
        if worker.at == At::Check {
            let token = world.free_token();
            let position = Steps::from(usize::from(self.bounds.providers)).entry(usize::from(row.position)) as u8;
            *worker = Worker { token, attempts: row.attempts, position, ..*worker };
            world.send = Send::Claimed { by: worker.delivery, token };
            world.move_row(worker.delivery, DeliveryState::Sending, Due::Never);
        }
    }

    /// Step 7: the monotonic clock.
    fn ask_the_clock(&self, world: &mut World, worker: &mut Worker, choice: Choice) {
        let give_up = choice == Choice::GiveUp;
        if give_up {
            world.left.spend(Fault::Stall);
        }
        worker.at = if give_up || (worker.late && self.mutant != Mutant::NoClockCheck) {
            At::Record(Verdict::Hold { position: worker.position + worker.made_calls() })
        } else {
            At::Call
        };
    }

    /// Step 8: the call and what `Pass::after` says about it.
    fn call(&self, world: &mut World, worker: &mut Worker, choice: Choice) {
        let holds = matches!(world.send, Send::Claimed { token, .. } if token == worker.token);
        // Sent by a fact: the identity was taken away from a claim that lasts, and its holder can't know (docs/model.md).
        if !holds && !worker.frozen && !matches!(world.send, Send::Sent { .. }) {
            world.breaks(Broken::CalledWithoutClaim);
        }
        let seen = match choice {
            Choice::AcceptedInSilence | Choice::RefusedInSilence => {
                world.left.spend(Fault::LostAnswer);
                Call::Unknown
            }
            Choice::Unavailable | Choice::RejectedRecipient => {
                world.left.spend(Fault::Refusal);
                if choice == Choice::Unavailable { Call::Unavailable } else { Call::RejectedRecipient }
            }
            Choice::Accepted | Choice::Go | Choice::SkipLock | Choice::GiveUp => Call::Accepted,
        };
        if matches!(choice, Choice::Accepted | Choice::AcceptedInSilence) {
            world.accept(worker.delivery, worker.token, worker.frozen);
        }
        worker.calls[usize::from(worker.made_calls())] = Some(seen);
        worker.at = match self.after(worker) {
            Next::Call(_) => At::Check,
            Next::End(verdict) => At::Record(in_short(&verdict)),
        };
        // Under `failover` an unknown outcome is settled at once: the next provider may be called.
        if seen == Call::Unknown && self.bounds.on_unknown == OnUnknown::Failover {
            world.forgive(worker.token);
        }
    }

    /// The product's own decision, replayed over the calls of this piece of the pass.
    fn after(&self, worker: &Worker) -> Next {
        let mut pass = Pass::resume(usize::from(worker.position), usize::from(self.bounds.providers));
        let attempts = u32::from(worker.attempts);
        let mut next = pass.start(&self.retry, attempts, 0.0);
        for call in worker.calls.iter().flatten() {
            next = pass.after(&outcome(*call), self.bounds.on_unknown, &self.retry, attempts, 0.0);
        }
        next
    }

    /// Steps 9 and 10.
    fn record(&self, world: &mut World, worker: &mut Worker, verdict: Verdict) {
        let delivery = worker.delivery;
        let held = match world.send {
            Send::Claimed { by, token } => {
                by == delivery && (token == worker.token || self.mutant == Mutant::RecordWithoutToken)
            }
            Send::Unknown { .. } | Send::Free | Send::Sent { .. } => false,
        };
        if !held {
            self.record_late(world, worker, verdict);
            return;
        }
        let attempts = worker.attempts + 1;
        let (send, to, due) = match verdict {
            Verdict::Sent => (Send::Sent { by: delivery }, DeliveryState::Sent, Due::Never),
            Verdict::Unknown { .. } => {
                (Send::Unknown { by: delivery, token: worker.token }, DeliveryState::Unknown, Due::Never)
            }
            Verdict::Hold { .. } | Verdict::Retry => (Send::Free, DeliveryState::Retrying, Due::Soon),
            Verdict::Failed => (Send::Free, DeliveryState::Failed, Due::Never),
        };
        world.send = send;
        world.move_row(delivery, to, due);
        let row = world.row_mut(delivery);
        match verdict {
            Verdict::Sent => {}
            Verdict::Unknown { position, hold } => (row.position, row.held) = (position, hold),
            Verdict::Hold { position } => row.position = position,
            Verdict::Retry => (row.attempts, row.position) = (attempts, 0),
            Verdict::Failed => row.attempts = attempts,
        }
        if verdict == Verdict::Sent {
            world.truth.recorded = true;
        } else if self.mutant != Mutant::EarlyEventIgnored {
            world.settle_by_event(delivery);
        }
        let gives_back = match verdict {
            Verdict::Hold { .. } | Verdict::Retry | Verdict::Failed => true,
            Verdict::Sent => self.mutant == Mutant::LogCheckBeforeLock,
            Verdict::Unknown { .. } => false,
        };
        worker.at = if gives_back { At::Release } else { At::Acknowledge };
    }

    /// The claim was lost: an acceptance is a fact all the same, everything else changes nothing.
    fn record_late(&self, world: &mut World, worker: &mut Worker, verdict: Verdict) {
        if verdict == Verdict::Sent {
            if self.mutant != Mutant::LateAcceptanceIgnored {
                world.fact(worker.delivery);
            }
            if !matches!(world.send, Send::Sent { .. }) {
                world.breaks(Broken::AcceptanceUnrecorded);
            }
        }
        worker.at = At::Acknowledge;
    }

    fn release_lock(&self, world: &mut World, worker: &mut Worker) {
        if world.lock == Some(worker.delivery) || self.mutant == Mutant::ReleaseWithoutOwnerCheck {
            world.lock = None;
        }
        worker.guarded = false;
    }

    /// A message is deleted: somebody has to remember the delivery.
    fn delete_message(&self, world: &mut World, delivery: Delivery) {
        let row = world.row(delivery);
        let remembered = !row.state.is_claimable()
            || matches!(row.due, Due::PutOff | Due::Soon)
            || world.queue[delivery.index()] > 0
            || world.handles(delivery);
        if !remembered && world.left.lost_messages == self.bounds.faults.lost_messages {
            world.breaks(Broken::Forgotten);
        }
    }
}

/// A death elsewhere leaves nothing behind that a death at one of these steps does not.
fn crash_matters(at: At) -> bool {
    match at {
        At::Claim | At::Check | At::Record(_) | At::Release | At::Acknowledge => true,
        At::Idle | At::Lock | At::Defer | At::Finish | At::Call => false,
    }
}

fn outcome(call: Call) -> Outcome {
    let detail = String::new();
    match call {
        Call::Accepted => Outcome::Accepted { provider_message_id: detail },
        Call::Unavailable => Outcome::Unavailable { detail },
        Call::RejectedRecipient => Outcome::RejectedRecipient { detail },
        Call::Unknown => Outcome::Unknown { detail },
    }
}

fn in_short(verdict: &walk::Verdict) -> Verdict {
    match verdict {
        walk::Verdict::Sent { .. } => Verdict::Sent,
        walk::Verdict::Unknown { position, hold, .. } => Verdict::Unknown { position: *position as u8, hold: *hold },
        walk::Verdict::Hold { .. } => Verdict::Hold { position: 0 },
        walk::Verdict::Retry { .. } => Verdict::Retry,
        walk::Verdict::Failed { .. } => Verdict::Failed,
    }
}
