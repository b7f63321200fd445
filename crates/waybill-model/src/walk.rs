//! A second walk through all states, depth first and with code of its own. It finds what the checker does not look for: a circle, that is a
//! run without end. Where there is none, and where every state with something open goes on by itself (the promise `lost`), every run ends
//! with both deliveries final. Its count of states has to agree with the checker's.

use crate::{action::Action, protocol::Protocol, world::World};
use stateright::Model;
use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{BuildHasherDefault, Hasher},
};

/// A state's name: its hash, of another kind than the checker's.
fn fingerprint(world: &World) -> u64 {
    world.pack().iter().fold(0x9e37_79b9_7f4a_7c15, |hash: u64, word| {
        let mixed = (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (mixed ^ (mixed >> 32)).wrapping_mul(0xc4ce_b9fe_1a85_ec53).rotate_left(29)
    })
}

/// What a walk found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walked {
    pub states: usize,
    /// The moves of a circle, or nothing.
    pub circle: Vec<Action>,
    /// States without any move, and how many of them have something open.
    pub ends: usize,
    pub open_ends: usize,
}

/// Fingerprints are hashes already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// Whether a state is on the path to where the walk stands now.
type Seen = HashMap<u64, bool, BuildHasherDefault<AsItIs>>;

struct Step {
    world: World,
    name: u64,
    todo: Vec<Action>,
    /// The move that led on from here.
    went: Option<Action>,
}

pub fn walk(protocol: &Protocol) -> Walked {
    let mut walked = Walked::default();
    let mut seen = Seen::default();
    let mut path = Vec::new();
    for start in protocol.init_states() {
        enter(protocol, start, fingerprint(&start), &mut seen, &mut path, &mut walked);
        while let Some(step) = path.last_mut() {
            let Some(action) = step.todo.pop() else {
                seen.insert(step.name, false);
                path.pop();
                continue;
            };
            step.went = Some(action);
            let Some(next) = protocol.next_state(&step.world, action) else { continue };
            let name = fingerprint(&next);
            match seen.get(&name) {
                Some(true) => {
                    walked.circle = circle(&path, name);
                    return walked;
                }
                Some(false) => {}
                None => enter(protocol, next, name, &mut seen, &mut path, &mut walked),
            }
        }
    }
    walked
}

fn enter(protocol: &Protocol, world: World, name: u64, seen: &mut Seen, path: &mut Vec<Step>, walked: &mut Walked) {
    if let Entry::Vacant(new) = seen.entry(name) {
        new.insert(true);
        walked.states += 1;
        let mut todo = Vec::new();
        protocol.actions(&world, &mut todo);
        if todo.is_empty() {
            walked.ends += 1;
            walked.open_ends += usize::from(!world.all_final());
        }
        path.push(Step { world, name, todo, went: None });
    }
}

fn circle(path: &[Step], name: u64) -> Vec<Action> {
    let from = path.iter().position(|step| step.name == name).unwrap_or(0);
    path[from..].iter().filter_map(|step| step.went).collect()
}
