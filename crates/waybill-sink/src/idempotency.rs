//! Idempotency keys as Resend keeps them: a key stands for one body and the answer that its first acceptance had.
//! <https://resend.com/docs/dashboard/emails/idempotency-keys>
//!
//! A request that was refused or broken off leaves nothing behind: its key is as good as new.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sha2::{Digest, Sha256};

/// Answers remembered. Resend forgets by time (24 h); the sink by number, so that a long run stays small.
const MAX_ANSWERS: usize = 200_000;

#[derive(Clone, Default)]
pub(crate) struct Keys(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    entries: HashMap<String, Entry>,
    /// Keys with an answer, oldest first.
    answered: VecDeque<String>,
}

struct Entry {
    body: [u8; 32],
    /// The id that was answered; `None` while the first request is being worked on.
    answer: Option<String>,
}

/// What a request with a key may do.
pub(crate) enum Begin {
    Go(KeyInUse),
    /// The first request with this key has not been answered yet.
    Concurrent,
    /// The key stands for another body.
    OtherBody,
}

impl Keys {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, key: &str, body: &[u8]) -> Begin {
        let body: [u8; 32] = Sha256::digest(body).into();
        let mut state = self.state();
        let answer = match state.entries.get(key) {
            Some(entry) if entry.body != body => return Begin::OtherBody,
            Some(Entry { answer: None, .. }) => return Begin::Concurrent,
            Some(Entry { answer, .. }) => answer.clone(),
            None => {
                state.entries.insert(key.to_owned(), Entry { body, answer: None });
                None
            }
        };
        Begin::Go(KeyInUse { keys: self.clone(), key: key.to_owned(), answer })
    }
}

/// A request that came with a key. Dropped without an answer, it frees the key.
pub(crate) struct KeyInUse {
    keys: Keys,
    key: String,
    answer: Option<String>,
}

impl KeyInUse {
    /// The id of the first acceptance, if there was one.
    pub(crate) fn answered(&self) -> Option<&str> {
        self.answer.as_deref()
    }

    pub(crate) fn remember(mut self, id: &str) {
        let mut state = self.keys.state();
        if let Some(entry) = state.entries.get_mut(&self.key) {
            entry.answer = Some(id.to_owned());
        }
        state.answered.push_back(self.key.clone());
        if state.answered.len() > MAX_ANSWERS
            && let Some(oldest) = state.answered.pop_front()
        {
            state.entries.remove(&oldest);
        }
        drop(state);
        self.answer = Some(id.to_owned());
    }
}

impl Drop for KeyInUse {
    fn drop(&mut self) {
        if self.answer.is_none() {
            self.keys.state().entries.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(begin: Begin) -> KeyInUse {
        match begin {
            Begin::Go(key) => key,
            Begin::Concurrent => panic!("concurrent"),
            Begin::OtherBody => panic!("another body"),
        }
    }

    #[test]
    fn a_key_stands_for_one_body_and_its_first_answer() {
        let keys = Keys::default();
        let first = go(keys.begin("k", b"body"));
        assert_eq!(first.answered(), None);
        assert!(matches!(keys.begin("k", b"body"), Begin::Concurrent));
        assert!(matches!(keys.begin("k", b"other"), Begin::OtherBody));
        first.remember("id");
        assert_eq!(go(keys.begin("k", b"body")).answered(), Some("id"));
        assert_eq!(go(keys.begin("k", b"body")).answered(), Some("id"), "asking does not use it up");
        assert!(matches!(keys.begin("k", b"other"), Begin::OtherBody));
        assert_eq!(go(keys.begin("l", b"other")).answered(), None);
    }

    #[test]
    fn what_was_refused_or_broken_off_leaves_the_key_as_new() {
        let keys = Keys::default();
        drop(keys.begin("k", b"body"));
        assert_eq!(go(keys.begin("k", b"other")).answered(), None);
    }
}
