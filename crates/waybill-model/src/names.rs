//! States that differ in nothing that can matter become one, and tokens that nobody can name are used again. This keeps the number of
//! states within what a walk can do; it takes no behaviour away.

use crate::world::{At, Delivery, Send, Token, Worker, World, bit};

impl World {
    /// A token that nobody can name.
    pub fn free_token(&self) -> Token {
        let used = self.named_tokens();
        (1..8).find(|token| used & bit(*token) == 0).unwrap_or(8)
    }

    fn named_tokens(&self) -> u8 {
        let sends = match self.send {
            Send::Claimed { token, .. } | Send::Unknown { token, .. } => bit(token),
            Send::Free | Send::Sent { .. } => 0,
        };
        self.workers.iter().fold(sends, |used, worker| used | bit(worker.token))
    }

    /// The same with the deliveries' names exchanged: neither is special.
    pub fn exchanged(&self) -> Self {
        let mut world = *self;
        world.rows.swap(0, 1);
        world.queue.swap(0, 1);
        world.lock = world.lock.map(Delivery::other);
        world.send = match world.send {
            Send::Free => Send::Free,
            Send::Claimed { by, token } => Send::Claimed { by: by.other(), token },
            Send::Unknown { by, token } => Send::Unknown { by: by.other(), token },
            Send::Sent { by } => Send::Sent { by: by.other() },
        };
        for worker in world.workers.iter_mut().filter(|w| !w.is_idle()) {
            worker.delivery = worker.delivery.other();
        }
        world.workers.sort_unstable();
        world
    }

    /// States that differ in nothing that can matter become one.
    pub fn normalize(&mut self) {
        for delivery in Delivery::ALL {
            let final_now = self.row(delivery).state.is_final();
            for worker in self.workers.iter_mut().filter(|w| w.delivery == delivery) {
                match worker.at {
                    // Deleting the message of a final row, at once or after another delivery of it, changes nothing.
                    At::Acknowledge if final_now => *worker = Worker::IDLE,
                    // What it held and did is recorded.
                    At::Release | At::Acknowledge => {
                        let guarded = worker.guarded && worker.at == At::Release;
                        *worker = Worker { at: worker.at, delivery, guarded, ..Worker::IDLE };
                    }
                    At::Idle | At::Lock | At::Claim | At::Defer | At::Finish | At::Check | At::Call | At::Record(_) => {
                    }
                }
            }
            if final_now {
                // Nobody looks at the counts of a final row, and its messages are deleted without a look at anything else.
                self.queue[delivery.index()] = 0;
                let row = self.row_mut(delivery);
                (row.attempts, row.crashes, row.position) = (0, 0, 0);
            }
        }
        // Workers are alike, and a token that nobody can name needs none.
        self.workers.sort_unstable();
        let named = self.named_tokens();
        self.truth.open_for_good |= self.truth.open & !named != 0;
        self.truth.open &= named;
        self.truth.licensed &= named;
    }
}
