//! The worker's side: permits, pollers, statements, calls, retries and reconcile windows.

use crate::{
    inputs::Inputs,
    providers::Answer,
    system::{BATCH, Event, Kind, System},
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivery {
    pub(crate) born: f64,
    /// Whole passes done.
    pub(crate) attempts: u8,
    /// Index of the provider to call.
    pub(crate) position: u8,
    /// Somebody was down or silent in this pass. One in which everybody only limits the rate is no attempt.
    pub(crate) failed: bool,
    /// What its record says.
    pub(crate) next: Next,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing is recorded yet.
    Send,
    Sent,
    Retry,
    Unknown,
    Dead,
}

#[derive(Debug)]
pub(crate) struct Worker {
    free: usize,
    permits: usize,
    idle_pollers: usize,
}

impl Worker {
    pub(crate) fn new(inputs: &Inputs) -> Self {
        let permits = inputs.count("permits");
        Self { free: permits, permits, idle_pollers: inputs.count("worker_pollers") }
    }

    pub(crate) fn in_use(&self) -> usize {
        self.permits - self.free
    }
}

impl System<'_> {
    /// Permits before the receive. The process with the most permits is the next one.
    pub(crate) fn feed_workers(&mut self) {
        while !self.queue.is_empty() {
            let ready = |w: &&Worker| w.idle_pollers > 0 && w.free > 0;
            let Some((index, _)) =
                self.workers.iter().enumerate().filter(|(_, w)| ready(w)).max_by_key(|(_, w)| w.free)
            else {
                return;
            };
            let worker = &mut self.workers[index];
            let count = BATCH.min(worker.free).min(self.queue.len());
            worker.free -= count;
            worker.idle_pollers -= 1;
            let units: Vec<u32> = self.queue.drain(..count).collect();
            self.queue_request("queue_receive_ms", count, Event::Received { worker: index, units });
        }
    }

    pub(crate) fn received(&mut self, worker: usize, units: Vec<u32>) {
        self.workers[worker].idle_pollers += 1;
        self.enter_lane(self.lane(worker, Kind::Load), &units);
        self.feed_workers();
    }

    pub(crate) fn claimed(&mut self, worker: usize, units: Vec<u32>) {
        let inputs = &self.scenario.inputs;
        let rest = 1.0 - inputs.get("cpu_share_api") - inputs.get("cpu_share_router");
        let driver = if self.scenario.shared_machine { inputs.ms("bench_driver_ms_per_delivery") } else { 0.0 };
        let each = inputs.ms("cpu_ms_per_delivery") * rest + driver;
        let pool = self.cpu_pool(self.scenario.api + self.scenario.routers + worker);
        // In slices: one mail after the other, and the first one needn't wait for the last.
        for slice in units.chunks(BATCH) {
            let seconds = each * slice.len() as f64;
            self.work(pool, seconds, Event::Composed { worker, units: slice.to_vec() });
        }
    }

    pub(crate) fn call(&mut self, worker: usize, delivery: u32) {
        let position = usize::from(self.deliveries[delivery as usize].position);
        let now = self.calendar.now();
        let (seconds, answer) = self.providers[position].call(now, &self.scenario.inputs, &mut self.rng);
        self.calendar.plan(seconds, Event::Answered { worker, delivery, answer });
    }

    pub(crate) fn answered(&mut self, worker: usize, delivery: u32, answer: Answer) {
        let now = self.calendar.now();
        let providers = self.providers.len();
        let d = &mut self.deliveries[delivery as usize];
        match answer {
            Answer::Accepted => {
                d.next = Next::Sent;
                if d.born >= self.scenario.warm_up {
                    self.books.times.add(now - d.born);
                }
            }
            Answer::Unknown => {
                self.books.unknown += 1;
                d.position += 1;
                d.failed = true;
                d.next = Next::Unknown;
            }
            Answer::Refused | Answer::Throttled => {
                d.position += 1;
                d.failed |= answer == Answer::Refused;
                if usize::from(d.position) < providers {
                    self.call(worker, delivery);
                    return;
                }
                self.pass_is_over(delivery);
            }
        }
        self.enter_lane(self.lane(worker, Kind::Record), &[delivery]);
    }

    /// Nobody took it.
    fn pass_is_over(&mut self, delivery: u32) {
        let most = self.scenario.inputs.get("max_attempts") as u8;
        let d = &mut self.deliveries[delivery as usize];
        d.position = 0;
        d.attempts += u8::from(d.failed);
        d.next = if d.attempts >= most { Next::Dead } else { Next::Retry };
        d.failed = false;
    }

    pub(crate) fn recorded(&mut self, worker: usize, units: &[u32]) {
        for unit in units {
            self.workers[worker].free += 1;
            self.follow(*unit);
        }
        self.feed_workers();
    }

    fn follow(&mut self, delivery: u32) {
        let d = self.deliveries[delivery as usize];
        let inputs = &self.scenario.inputs;
        match d.next {
            Next::Sent | Next::Send => {
                self.books.accepted += 1;
                self.ended();
            }
            Next::Dead => {
                self.books.dead += 1;
                self.ended();
            }
            Next::Unknown => {
                let wait = inputs.get("reconcile_window_s") + inputs.get("sweep_s") * self.rng.unit();
                self.calendar.plan(wait, Event::Due { delivery });
            }
            Next::Retry => {
                let full = inputs.get("retry_base_s") * 2_f64.powi((i32::from(d.attempts) - 1).max(0));
                let backoff = full.min(inputs.get("retry_cap_s")) * (0.5 + 0.5 * self.rng.unit());
                self.calendar.plan(backoff + inputs.get("sweep_s") * self.rng.unit(), Event::Due { delivery });
            }
        }
    }

    /// The scheduler finds it.
    pub(crate) fn due(&mut self, delivery: u32) {
        let d = &self.deliveries[delivery as usize];
        if d.next == Next::Unknown && usize::from(d.position) >= self.providers.len() {
            self.pass_is_over(delivery);
            self.follow(delivery);
            return;
        }
        self.queue_request("queue_send_ms", 1, Event::Queued(vec![delivery]));
    }
}
