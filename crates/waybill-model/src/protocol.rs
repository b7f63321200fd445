//! The protocol as the checker sees it.

use crate::{
    action::Action,
    bounds::{Bounds, Fault},
    mutant::Mutant,
    properties,
    world::World,
};
use stateright::{Model, Property};
use std::time::Duration;
use waybill_core::policy::RetryPolicy;

#[derive(Debug, Clone)]
pub struct Protocol {
    pub bounds: Bounds,
    pub mutant: Mutant,
    /// The only property to look at; all where it is `None`.
    pub only: Option<&'static str>,
    /// Whether states that differ in the deliveries' names only are one. Halves the work; a counterexample is easier to read without.
    pub exchange: bool,
    pub(crate) retry: RetryPolicy,
}

impl Protocol {
    pub fn new(bounds: Bounds) -> Self {
        // Delays are no part of the model: a retry is due at any time.
        let second = Duration::from_secs(1);
        let retry =
            RetryPolicy { max_attempts: u32::from(bounds.max_attempts), base: second, cap: second, hold_delay: second };
        Self { bounds, mutant: Mutant::None, only: None, exchange: true, retry }
    }

    /// `mutant` within the bounds that show it, held against one promise.
    pub fn mutant(mutant: Mutant, only: &'static str) -> Self {
        Self { mutant, only: Some(only), exchange: false, ..Self::new(mutant.bounds()) }
    }

    pub fn apply(&self, world: &mut World, action: Action) {
        match action {
            Action::Receive(delivery) => self.receive(world, delivery),
            Action::ReceiveEarly(delivery) => world.queue[delivery.index()] -= 1,
            Action::Step { worker, choice } => self.step(world, worker, choice),
            Action::Crash { worker } => self.crash(world, worker),
            Action::ClaimEnds(delivery) => self.claim_ends(world, delivery),
            Action::LockExpires => self.lose_lock(world),
            Action::LockFlushed => {
                world.left.spend(Fault::LockLoss);
                self.lose_lock(world);
            }
            Action::MessageRepeated(delivery) => {
                world.left.spend(Fault::Duplicate);
                world.queue[delivery.index()] += 1;
            }
            Action::MessageLost(delivery) => {
                world.left.spend(Fault::LostMessage);
                world.queue[delivery.index()] -= 1;
            }
            Action::Release(delivery) => self.release(world, delivery),
            Action::ExpireClaim(delivery) => self.expire_claim(world, delivery),
            Action::CloseWindow(delivery) => self.close_window(world, delivery),
            Action::Event(delivery) => self.event(world, delivery),
            Action::SettleByHand { delivery, resend } => self.settle_by_hand(world, delivery, resend),
        }
        world.normalize();
        if self.exchange {
            let other = world.exchanged();
            if other.pack() < world.pack() {
                *world = other;
            }
        }
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::start(self.bounds.faults)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.worker_actions(world, actions);
        self.system_actions(world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = *world;
        self.apply(&mut next, action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let all = properties::all();
        all.into_iter().filter(|p| self.only.is_none_or(|only| p.name == only)).collect()
    }
}
