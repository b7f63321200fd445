//! The promises, as the checker evaluates them in every state; and what has to be possible, so that a promise is not kept only because
//! nothing happens.

use crate::{
    bounds::Bounds,
    protocol::Protocol,
    world::{At, Broken, Call, Send, Worker, World},
};
use stateright::{Expectation, Model, Property};
use waybill_core::{outcome::OnUnknown, state::DeliveryState};

/// The names of promises are what a violation is called.
pub fn all() -> Vec<Property<Protocol>> {
    vec![
        Property::always("lost", not_lost),
        Property::always("sent_twice", |_, world: &World| kept(world, Broken::SentTwice)),
        Property::always("forgotten", |_, world: &World| kept(world, Broken::Forgotten)),
        Property::always("illegal_move", |_, world: &World| kept(world, Broken::IllegalMove)),
        Property::always("called_without_claim", |_, world: &World| kept(world, Broken::CalledWithoutClaim)),
        Property::always("event_ignored", |_, world: &World| kept(world, Broken::EventIgnored)),
        Property::always("sent_undone", sent_stays),
        Property::always("acceptance_unrecorded", |_, world: &World| kept(world, Broken::AcceptanceUnrecorded)),
        Property::always("false_duplicate", duplicates_are_of_something_sent),
        Property::always("false_sent", sent_was_accepted),
        Property::always("guard_taken", nobody_takes_a_lock_away),
        Property::sometimes("reached: one SENT, the other DUPLICATE", |_, world: &World| {
            world.all_final() && has(world, DeliveryState::Sent) && has(world, DeliveryState::Duplicate)
        }),
        Property::sometimes("reached: UNKNOWN", |_, world: &World| has(world, DeliveryState::Unknown)),
        Property::sometimes("reached: FAILED", |_, world: &World| has(world, DeliveryState::Failed)),
        Property::sometimes("reached: two acceptances", |_, world: &World| world.truth.acceptances > 1),
        Property::sometimes("reached: an event settles", |_, world: &World| {
            world.rows.iter().any(|row| row.event && row.state == DeliveryState::Sent)
        }),
        Property::sometimes("reached: a frozen call is accepted", |_, world: &World| {
            world.workers.iter().any(|w| w.frozen && w.calls.contains(&Some(Call::Accepted)))
        }),
        Property::sometimes(
            "reached: an attempt gives back the lock that the next one counts on",
            |_, world: &World| {
                let next = |w: &Worker| w.at == At::Call && w.guarded;
                let gives_back = |w: &Worker, d| w.at == At::Release && w.delivery == d;
                world.workers.iter().any(|w| next(w) && world.workers.iter().any(|o| gives_back(o, w.delivery)))
            },
        ),
        Property::sometimes("reached: a holder calls although a fact made its identity sent", |_, world: &World| {
            matches!(world.send, Send::Sent { .. }) && world.workers.iter().any(|w| w.at == At::Call && !w.late)
        }),
    ]
}

/// The names of the promises, without what has to be possible.
pub fn promises() -> Vec<&'static str> {
    all().iter().filter(|p| p.expectation == Expectation::Always).map(|p| p.name).collect()
}

/// Whether the bounds let something be reached.
pub fn possible(name: &str, bounds: &Bounds) -> bool {
    // A hand-settled outcome is no event's, and without a state UNKNOWN none is reached.
    !(name == "reached: UNKNOWN" && bounds.on_unknown == OnUnknown::Failover)
}

fn kept(world: &World, promise: Broken) -> bool {
    world.truth.broken & promise as u8 == 0
}

fn has(world: &World, state: DeliveryState) -> bool {
    world.rows.iter().any(|row| row.state == state)
}

/// While something is open, something goes on by itself. With the absence of circles (`walk`) it follows that every run ends, and ends
/// with both deliveries final.
fn not_lost(protocol: &Protocol, world: &World) -> bool {
    if world.all_final() || world.workers.iter().any(|w| !w.is_idle()) || world.queue != [0; 2] {
        return true;
    }
    let mut actions = Vec::new();
    protocol.actions(world, &mut actions);
    actions.iter().any(|action| action.is_certain())
}

/// What was recorded as sent stays sent, whatever comes later.
fn sent_stays(_: &Protocol, world: &World) -> bool {
    !world.truth.recorded || matches!(world.send, Send::Sent { .. })
}

fn duplicates_are_of_something_sent(_: &Protocol, world: &World) -> bool {
    !has(world, DeliveryState::Duplicate) || matches!(world.send, Send::Sent { .. })
}

fn sent_was_accepted(_: &Protocol, world: &World) -> bool {
    let sent = world.rows.iter().filter(|row| row.state.is_accepted()).count();
    sent <= usize::from(world.truth.acceptances)
        && world.rows.iter().all(|row| !row.state.is_accepted() || row.accepted)
}

/// Who took the lock has it until it expires, is flushed, or is given back by its own delivery.
fn nobody_takes_a_lock_away(_: &Protocol, world: &World) -> bool {
    world.workers.iter().all(|w| !w.guarded || world.lock == Some(w.delivery))
}
