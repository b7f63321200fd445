//! A state as 192 bits. Most of a walk's time goes into naming states, and a state written field by field is slow to hash.

use crate::world::{At, Call, Delivery, Row, Send, Verdict, Worker, World};
use std::hash::{Hash, Hasher};

/// Puts small numbers next to each other.
#[derive(Default)]
struct Packer {
    words: [u64; 3],
    used: u32,
}

impl Packer {
    fn put(&mut self, bits: u32, value: u8) {
        debug_assert!(u32::from(value) < 1 << bits, "{value} in {bits} bits");
        // A field never lies across two words.
        if self.used % 64 + bits > 64 {
            self.used += 64 - self.used % 64;
        }
        self.words[(self.used / 64) as usize] |= u64::from(value) << (self.used % 64);
        self.used += bits;
    }
}

impl World {
    /// Different for different states.
    pub fn pack(&self) -> [u64; 3] {
        let mut packer = Packer::default();
        self.rows.iter().for_each(|row| put_row(&mut packer, row));
        self.workers.iter().for_each(|worker| put_worker(&mut packer, worker));
        let (kind, by, token) = match self.send {
            Send::Free => (0, Delivery::D1, 0),
            Send::Claimed { by, token } => (1, by, token),
            Send::Unknown { by, token } => (2, by, token),
            Send::Sent { by } => (3, by, 0),
        };
        packer.put(2, kind);
        packer.put(1, by as u8);
        packer.put(3, token);
        packer.put(2, self.lock.map_or(0, |owner| 1 + owner as u8));
        self.queue.iter().for_each(|waiting| packer.put(3, *waiting));
        let left = &self.left;
        for count in [
            left.together,
            left.crashes,
            left.lock_losses,
            left.stalls,
            left.freezes,
            left.refusals,
            left.lost_answers,
            left.duplicates,
            left.lost_messages,
            left.events,
        ] {
            packer.put(4, count);
        }
        let truth = &self.truth;
        packer.put(2, truth.acceptances);
        packer.put(7, truth.open);
        packer.put(7, truth.licensed);
        packer.put(1, u8::from(truth.open_for_good));
        packer.put(1, u8::from(truth.recorded));
        packer.put(7, truth.broken);
        packer.words
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pack().hash(state);
    }
}

fn put_row(packer: &mut Packer, row: &Row) {
    packer.put(4, row.state as u8);
    packer.put(2, row.due as u8);
    packer.put(1, u8::from(row.expired));
    packer.put(1, u8::from(row.held));
    packer.put(3, row.attempts);
    packer.put(3, row.crashes);
    packer.put(2, row.position);
    packer.put(1, u8::from(row.event));
    packer.put(1, u8::from(row.accepted));
}

fn put_worker(packer: &mut Packer, worker: &Worker) {
    let (at, detail) = match worker.at {
        At::Idle => (0, 0),
        At::Lock => (1, 0),
        At::Claim => (2, 0),
        At::Defer => (3, 0),
        At::Finish => (4, 0),
        At::Check => (5, 0),
        At::Call => (6, 0),
        At::Release => (7, 0),
        At::Acknowledge => (8, 0),
        At::Record(Verdict::Sent) => (9, 0),
        At::Record(Verdict::Retry) => (10, 0),
        At::Record(Verdict::Failed) => (11, 0),
        At::Record(Verdict::Hold { position }) => (12, position << 1),
        At::Record(Verdict::Unknown { position, hold }) => (13, position << 1 | u8::from(hold)),
    };
    packer.put(4, at);
    packer.put(3, detail);
    packer.put(1, worker.delivery as u8);
    packer.put(3, worker.token);
    packer.put(3, worker.attempts);
    packer.put(2, worker.position);
    for call in worker.calls {
        packer.put(3, call.map_or(0, call_number));
    }
    packer.put(1, u8::from(worker.late));
    packer.put(1, u8::from(worker.frozen));
    packer.put(1, u8::from(worker.guarded));
}

fn call_number(call: Call) -> u8 {
    match call {
        Call::Accepted => 1,
        Call::Unavailable => 2,
        Call::RejectedRecipient => 3,
        Call::Unknown => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bounds::QUICK, protocol::Protocol};
    use stateright::Model;
    use std::collections::HashMap;

    #[test]
    fn states_of_one_pack_are_one_state() {
        let protocol = Protocol::new(QUICK[3]);
        let mut packs: HashMap<[u64; 3], World> = HashMap::new();
        let mut todo = protocol.init_states();
        while let Some(world) = todo.pop() {
            let known = packs.insert(world.pack(), world);
            assert!(known.is_none_or(|known| known == world), "{known:?}\n{world:?}");
            if known.is_none() && packs.len() < 30_000 {
                todo.extend(protocol.next_states(&world));
            }
        }
        assert!(packs.len() >= 30_000);
    }
}
