//! Moves in words, for counterexamples.

use crate::{
    action::{Action, Choice},
    protocol::Protocol,
    world::{At, Delivery, World},
};
use stateright::Path;

/// A path, one line per move, with what it changed of the two rows and the send log.
pub fn lines(protocol: &Protocol, path: Path<World, Action>) -> Vec<String> {
    let steps = path.into_vec();
    steps
        .iter()
        .filter_map(|(before, action)| {
            let action = (*action)?;
            let mut after = *before;
            protocol.apply(&mut after, action);
            Some(format!("{}{}", say(before, action), changes(before, &after)))
        })
        .collect()
}

fn say(world: &World, action: Action) -> String {
    match action {
        Action::Receive(delivery) => format!("a worker receives {delivery:?} and loads its row"),
        Action::ReceiveEarly(delivery) => format!("a message of {delivery:?} is too early and is deleted"),
        Action::Step { worker, choice } => step(world, worker, choice),
        Action::Crash { worker } => format!("the worker on {:?} dies", world.workers[worker].delivery),
        Action::ClaimEnds(delivery) => format!("the claim of {delivery:?} runs out"),
        Action::LockExpires => "the lock expires".into(),
        Action::LockFlushed => "Redis is flushed".into(),
        Action::MessageRepeated(delivery) => format!("the queue delivers {delivery:?} again"),
        Action::MessageLost(delivery) => format!("the queue loses a message of {delivery:?}"),
        Action::Release(delivery) => format!("the scheduler queues {delivery:?}"),
        Action::ExpireClaim(delivery) => format!("the scheduler takes the claim of {delivery:?} away"),
        Action::CloseWindow(delivery) => format!("the reconcile window of {delivery:?} closes"),
        Action::Event(delivery) => format!("an event says that {delivery:?} was accepted"),
        Action::SettleByHand { delivery, resend: true } => format!("a person sends {delivery:?} again"),
        Action::SettleByHand { delivery, resend: false } => format!("a person finds {delivery:?} at the provider"),
    }
}

fn step(world: &World, index: usize, choice: Choice) -> String {
    let worker = &world.workers[index];
    let (delivery, provider) = (worker.delivery, worker.position + worker.made_calls());
    let does = match (worker.at, choice) {
        (At::Lock, Choice::SkipLock) => "finds Redis away and goes on without the lock".into(),
        (At::Lock, _) if world.lock.is_some_and(|owner| owner != delivery) => "finds the lock held".into(),
        (At::Lock, _) => "takes the lock".into(),
        (At::Claim, _) => "asks for the claim".into(),
        (At::Defer, _) => "puts its row off".into(),
        (At::Finish, _) => "finishes its row as a duplicate".into(),
        (At::Check, Choice::GiveUp) => "finds its claim too short and gives it up".into(),
        (At::Check, _) if worker.late => "looks at the clock: its claim is over".into(),
        (At::Check, _) => "looks at the clock: the claim lasts".into(),
        (At::Call, Choice::AcceptedInSilence) => format!("calls provider {provider}: accepted, the answer is lost"),
        (At::Call, Choice::RefusedInSilence) => format!("calls provider {provider}: not accepted, the answer is lost"),
        (At::Call, Choice::Unavailable) => format!("calls provider {provider}: unavailable"),
        (At::Call, Choice::RejectedRecipient) => format!("calls provider {provider}: the recipient is rejected"),
        (At::Call, _) => format!("calls provider {provider}: accepted"),
        (At::Record(verdict), _) => format!("records {verdict:?}"),
        (At::Release, _) => "gives the lock back".into(),
        (At::Acknowledge, _) => "deletes its message".into(),
        (At::Idle, _) => "idles".into(),
    };
    format!("the worker on {delivery:?} {does}")
}

fn changes(before: &World, after: &World) -> String {
    let mut text = String::new();
    for delivery in Delivery::ALL {
        let (old, new) = (before.row(delivery).state, after.row(delivery).state);
        if old != new {
            text += &format!("; {delivery:?} {old} -> {new}");
        }
    }
    if before.send != after.send {
        text += &format!("; send log: {:?}", after.send);
    }
    if before.lock != after.lock {
        text += &after.lock.map_or("; the lock is free".into(), |owner| format!("; the lock is {owner:?}'s"));
    }
    text
}
