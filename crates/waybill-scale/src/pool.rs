//! Servers with one queue, first come, first served.

use std::collections::VecDeque;

/// `J` is a job. The caller plans its end: a pool knows no time.
#[derive(Debug)]
pub struct Pool<J> {
    servers: usize,
    busy: usize,
    waiting: VecDeque<(f64, J)>,
    work: f64,
}

impl<J> Pool<J> {
    pub fn new(servers: usize) -> Self {
        Self { servers: servers.max(1), busy: 0, waiting: VecDeque::new(), work: 0.0 }
    }

    /// A job of `seconds` comes. Returns what starts now.
    #[must_use]
    pub fn offer(&mut self, seconds: f64, job: J) -> Option<(f64, J)> {
        if self.busy == self.servers {
            self.waiting.push_back((seconds, job));
            return None;
        }
        self.busy += 1;
        Some(self.start(seconds, job))
    }

    /// A job has ended. Returns what starts now.
    #[must_use]
    pub fn done(&mut self) -> Option<(f64, J)> {
        match self.waiting.pop_front() {
            Some((seconds, job)) => Some(self.start(seconds, job)),
            None => {
                self.busy -= 1;
                None
            }
        }
    }

    fn start(&mut self, seconds: f64, job: J) -> (f64, J) {
        self.work += seconds;
        (seconds, job)
    }

    /// The share of its servers' time that was used in `seconds`.
    pub fn utilisation(&self, seconds: f64) -> f64 {
        self.work / (seconds * self.servers as f64).max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{calendar::Calendar, rng::Rng};

    enum Event {
        Arrive,
        /// The time at which the job came.
        Done(f64),
    }

    struct Seen {
        /// Mean time in the system, seconds.
        time: f64,
        /// Mean number in the system.
        number: f64,
        /// Arrivals per second.
        rate: f64,
        utilisation: f64,
    }

    /// A station with Poisson arrivals.
    fn station(servers: usize, rate: f64, mut service: impl FnMut(&mut Rng) -> f64) -> Seen {
        let (mut calendar, mut pool, mut rng) = (Calendar::default(), Pool::new(servers), Rng::new(7));
        let (mut inside, mut area, mut last, mut total, mut left, mut came) = (0.0, 0.0, 0.0, 0.0, 0u64, 0u64);
        let until = 200_000.0 / rate;
        calendar.plan(rng.exponential(rate), Event::Arrive);
        while let Some(event) = calendar.next(until) {
            let now = calendar.now();
            area += inside * (now - last);
            last = now;
            let starts = match event {
                Event::Arrive => {
                    calendar.plan(rng.exponential(rate), Event::Arrive);
                    (inside, came) = (inside + 1.0, came + 1);
                    pool.offer(service(&mut rng), now)
                }
                Event::Done(since) => {
                    (inside, left, total) = (inside - 1.0, left + 1, total + now - since);
                    pool.done()
                }
            };
            if let Some((seconds, since)) = starts {
                calendar.plan(seconds, Event::Done(since));
            }
        }
        assert_eq!(came, left + inside as u64, "in = out + inside");
        Seen {
            time: total / left as f64,
            number: area / last,
            rate: came as f64 / last,
            utilisation: pool.utilisation(last),
        }
    }

    fn near(seen: f64, wanted: f64, tolerance: f64) {
        assert!((seen / wanted - 1.0).abs() < tolerance, "{seen} instead of {wanted}");
    }

    /// Erlang's C: the probability of waiting with `c` servers at load `a`.
    fn erlang_c(c: usize, a: f64) -> f64 {
        let blocked = (1..=c).fold(1.0, |b, n| a * b / (n as f64 + a * b));
        let rho = a / c as f64;
        blocked / (1.0 - rho * (1.0 - blocked))
    }

    #[test]
    fn one_exponential_server_agrees_with_the_formula_and_with_little() {
        let seen = station(1, 0.7, |rng| rng.exponential(1.0));
        near(seen.time, 1.0 / (1.0 - 0.7), 0.05);
        near(seen.utilisation, 0.7, 0.02);
        near(seen.number, seen.rate * seen.time, 0.01);
    }

    #[test]
    fn four_exponential_servers_agree_with_erlang() {
        let (rate, servers) = (3.2, 4);
        let seen = station(servers, rate, |rng| rng.exponential(1.0));
        near(seen.time, 1.0 + erlang_c(servers, rate) / (servers as f64 - rate), 0.05);
        near(seen.number, seen.rate * seen.time, 0.01);
    }

    #[test]
    fn constant_service_agrees_with_pollaczek_and_khinchine_and_with_cosmetatos() {
        // M/D/1: exact.
        near(station(1, 0.8, |_| 1.0).time, 1.0 + 0.8 / (2.0 * 0.2), 0.05);
        // M/D/c: Cosmetatos' approximation, good to about a percent.
        let (rate, c) = (3.2, 4.0_f64);
        let rho = rate / c;
        let exponential = erlang_c(4, rate) / (c - rate);
        let factor = 0.5 * (1.0 + (1.0 - rho) * (c - 1.0) * ((4.0 + 5.0 * c).sqrt() - 2.0) / (16.0 * rho * c));
        near(station(4, rate, |_| 1.0).time, 1.0 + exponential * factor, 0.05);
    }
}
