//! Simulated time: what happens next.

use std::{cmp::Ordering, collections::BinaryHeap};

/// Events by time; those of one moment in the order in which they were planned.
#[derive(Debug)]
pub struct Calendar<E> {
    now: f64,
    planned: u64,
    heap: BinaryHeap<Entry<E>>,
}

#[derive(Debug)]
struct Entry<E> {
    at: f64,
    number: u64,
    event: E,
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap's largest is the earliest.
        other.at.total_cmp(&self.at).then(other.number.cmp(&self.number))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

impl<E> Default for Calendar<E> {
    fn default() -> Self {
        Self { now: 0.0, planned: 0, heap: BinaryHeap::new() }
    }
}

impl<E> Calendar<E> {
    /// Seconds since the start.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Plans an event `seconds` from now.
    pub fn plan(&mut self, seconds: f64, event: E) {
        self.planned += 1;
        self.heap.push(Entry { at: self.now + seconds.max(0.0), number: self.planned, event });
    }

    /// Goes on to the next event, if it is not after `until`.
    pub fn next(&mut self, until: f64) -> Option<E> {
        if self.heap.peek()?.at > until {
            return None;
        }
        let entry = self.heap.pop()?;
        self.now = entry.at;
        Some(entry.event)
    }
}
