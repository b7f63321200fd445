//! From the post of an event to the messages of its deliveries: API, publication, main queue, router.

use crate::{
    deliver::{Delivery, Next},
    scenario::Arrivals,
    system::{BATCH, Event, System},
};

impl System<'_> {
    pub(crate) fn plan_arrival(&mut self) {
        if let Arrivals::Open { deliveries_per_s, seconds } = self.scenario.arrivals {
            let wait = self.rng.exponential(deliveries_per_s / self.scenario.recipients as f64);
            if self.calendar.now() + wait < seconds {
                self.calendar.plan(wait, Event::Arrive);
            }
        }
    }

    pub(crate) fn arrive(&mut self) {
        if self.posts_left == 0 {
            return;
        }
        if let Arrivals::Closed { backlog, .. } = self.scenario.arrivals
            && self.books.inside_now() >= backlog
        {
            self.resting_posters += 1;
            return;
        }
        self.posts_left -= 1;
        self.plan_arrival();
        let event = self.events.len() as u32;
        self.events.push(self.calendar.now());
        self.books.created += self.scenario.recipients as u64;
        let api = event as usize % self.scenario.api;
        let seconds = self.cpu("cpu_share_api") * self.scenario.recipients as f64;
        let pool = self.cpu_pool(api);
        self.work(pool, seconds, Event::Checked { api, event });
    }

    /// A delivery has ended: a poster that rests because too many are inside may go on.
    pub(crate) fn ended(&mut self) {
        self.books.last_end = self.calendar.now();
        if self.resting_posters > 0 {
            self.resting_posters -= 1;
            self.calendar.plan(0.0, Event::Arrive);
        }
    }

    /// 202: the events go on to be published.
    pub(crate) fn answered_posts(&mut self, api: usize, events: Vec<u32>) {
        if let Arrivals::Closed { .. } = self.scenario.arrivals {
            events.iter().for_each(|_| self.calendar.plan(0.0, Event::Arrive));
        }
        let gather = self.scenario.inputs.ms("gather_ms");
        let rate = self.scenario.expected_rate() / (self.scenario.recipients * self.scenario.api) as f64;
        let (waiting, timed) = &mut self.gathering[api];
        waiting.extend(events);
        let whole = waiting.len() / BATCH * BATCH;
        if rate * gather < self.scenario.inputs.get("gather_worth") {
            let all = std::mem::take(waiting);
            self.publish(all);
        } else if whole > 0 {
            let rest = waiting.split_off(whole);
            let full = std::mem::replace(waiting, rest);
            self.publish(full);
        } else if !*timed {
            *timed = true;
            self.calendar.plan(gather, Event::Gathered { api });
        }
    }

    pub(crate) fn publish(&mut self, events: Vec<u32>) {
        for chunk in events.chunks(BATCH) {
            self.queue_request("queue_send_ms", chunk.len(), Event::Published(chunk.to_vec()));
        }
    }

    pub(crate) fn feed_routers(&mut self) {
        for router in 0..self.routers.len() {
            while self.routers[router] > 0 && !self.main.is_empty() {
                self.routers[router] -= 1;
                let events: Vec<u32> = self.main.drain(..self.main.len().min(BATCH)).collect();
                self.queue_request("queue_receive_ms", events.len(), Event::Routing { router, events });
            }
        }
    }

    pub(crate) fn routed(&mut self, router: usize, events: &[u32]) {
        let mut units = Vec::with_capacity(events.len() * self.scenario.recipients);
        for event in events {
            let born = self.events[*event as usize];
            for _ in 0..self.scenario.recipients {
                units.push(self.deliveries.len() as u32);
                self.deliveries.push(Delivery { born, attempts: 0, position: 0, failed: false, next: Next::Send });
            }
        }
        for chunk in units.chunks(BATCH) {
            self.queue_request("queue_send_ms", chunk.len(), Event::Queued(chunk.to_vec()));
        }
        self.routers[router] += 1;
        self.feed_routers();
    }
}
