//! The service as stations and queues: what happens when something is over, and the database's statements. `accept` is the way from a post to
//! the delivery queue, `deliver` the way from there to a provider.
//!
//! One statement of the database is one job of its pool; a statement's time grows with its rows. Each process runs one statement of a kind at
//! a time, over what came while the last one ran: the group commit of `waybill-pipeline`.

use crate::{
    calendar::Calendar,
    deliver::{Delivery, Worker},
    inputs::StatementTime,
    pool::Pool,
    providers::{Answer, Provider},
    rng::Rng,
    scenario::{Arrivals, Scenario},
    stats::Times,
};
use std::collections::VecDeque;

/// Messages of one queue request.
pub(crate) const BATCH: usize = 10;
pub(crate) const DATABASE: usize = 0;

/// The moment when something is over.
#[derive(Debug)]
pub(crate) enum Event {
    /// A producer posts.
    Arrive,
    /// A job of a pool ends, and something follows.
    Done {
        pool: usize,
        then: Box<Event>,
    },
    /// The API has read and checked a post.
    Checked {
        api: usize,
        event: u32,
    },
    /// A statement over these events or deliveries is committed.
    Committed {
        lane: usize,
        units: Vec<u32>,
    },
    /// A publication has waited for others as long as it may.
    Gathered {
        api: usize,
    },
    /// These events are in the main queue.
    Published(Vec<u32>),
    /// A router has them in hand; has evaluated its routes; has committed its decision.
    Routing {
        router: usize,
        events: Vec<u32>,
    },
    Evaluated {
        router: usize,
        events: Vec<u32>,
    },
    Routed {
        router: usize,
        events: Vec<u32>,
    },
    /// These deliveries are in the delivery queue.
    Queued(Vec<u32>),
    Received {
        worker: usize,
        units: Vec<u32>,
    },
    Locked {
        worker: usize,
        units: Vec<u32>,
    },
    Composed {
        worker: usize,
        units: Vec<u32>,
    },
    Answered {
        worker: usize,
        delivery: u32,
        answer: Answer,
    },
    /// A retry is due, or a reconcile window is over.
    Due {
        delivery: u32,
    },
    Sample,
}

/// What one kind of statement of one process waits for.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    waiting: VecDeque<u32>,
    busy: bool,
    pub(crate) statements: u64,
    pub(crate) units: u64,
}

/// Lanes of a worker, behind those of the API.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Load = 0,
    Content = 1,
    Claim = 2,
    Record = 3,
}

/// Lanes per worker.
pub(crate) const KINDS: usize = 4;

pub(crate) struct System<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) calendar: Calendar<Event>,
    pub(crate) rng: Rng,
    pub(crate) statement: StatementTime,
    /// The database, then the processes' CPUs: APIs, routers, workers.
    pub(crate) pools: Vec<Pool<Event>>,
    pub(crate) lanes: Vec<Lane>,
    /// When each event was posted.
    pub(crate) events: Vec<f64>,
    pub(crate) gathering: Vec<(Vec<u32>, bool)>,
    pub(crate) main: VecDeque<u32>,
    pub(crate) routers: Vec<usize>,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) queue: VecDeque<u32>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) providers: Vec<Provider>,
    pub(crate) posts_left: usize,
    pub(crate) resting_posters: usize,
    pub(crate) books: Books,
}

/// Counts of one run.
#[derive(Debug, Clone, Default)]
pub struct Books {
    pub created: u64,
    pub accepted: u64,
    pub dead: u64,
    /// Outcomes that nobody could know.
    pub unknown: u64,
    /// Post to acceptance, of what was posted after the warm-up.
    pub times: Times,
    /// Deliveries inside, once a second.
    pub inside: Vec<u64>,
    /// Permit seconds used.
    pub permit_seconds: f64,
    pub statements: u64,
    /// When the last delivery was accepted or died.
    pub last_end: f64,
}

impl Books {
    /// Post to acceptance, seconds.
    pub fn mean_time(&self) -> f64 {
        self.times.mean()
    }

    pub fn inside_now(&self) -> u64 {
        self.created - self.accepted - self.dead
    }
}

impl<'a> System<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        let s = scenario;
        let cpus = if s.shared_machine { 0 } else { s.api + s.routers + s.workers };
        let mut pools = vec![Pool::new(s.database_servers)];
        pools.extend((0..cpus).map(|_| Pool::new(1)));
        let posts_left = match s.arrivals {
            Arrivals::Open { .. } => usize::MAX,
            Arrivals::Closed { events, .. } => events,
        };
        Self {
            scenario,
            calendar: Calendar::default(),
            rng: Rng::new(s.seed),
            statement: StatementTime::new(&s.inputs),
            pools,
            lanes: (0..s.api + KINDS * s.workers).map(|_| Lane::default()).collect(),
            events: Vec::new(),
            gathering: vec![(Vec::new(), false); s.api],
            main: VecDeque::new(),
            routers: vec![s.inputs.count("router_pollers"); s.routers],
            deliveries: Vec::new(),
            queue: VecDeque::new(),
            workers: (0..s.workers).map(|_| Worker::new(&s.inputs)).collect(),
            providers: s.providers.iter().cloned().map(Provider::new).collect(),
            posts_left,
            resting_posters: 0,
            books: Books::default(),
        }
    }

    pub(crate) fn run(&mut self) {
        match self.scenario.arrivals {
            Arrivals::Open { .. } => self.plan_arrival(),
            Arrivals::Closed { posters, .. } => (0..posters).for_each(|_| self.calendar.plan(0.0, Event::Arrive)),
        }
        self.calendar.plan(1.0, Event::Sample);
        while let Some(event) = self.calendar.next(self.scenario.horizon) {
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrive => self.arrive(),
            Event::Done { pool, then } => {
                if let Some((seconds, next)) = self.pools[pool].done() {
                    self.calendar.plan(seconds, Event::Done { pool, then: Box::new(next) });
                }
                self.handle(*then);
            }
            Event::Checked { api, event } => self.enter_lane(api, &[event]),
            Event::Committed { lane, units } => self.committed(lane, units),
            Event::Gathered { api } => {
                self.gathering[api].1 = false;
                let events = std::mem::take(&mut self.gathering[api].0);
                self.publish(events);
            }
            Event::Published(events) => {
                self.main.extend(events);
                self.feed_routers();
            }
            Event::Routing { router, events } => {
                let seconds = self.cpu("cpu_share_router") * (events.len() * self.scenario.recipients) as f64;
                let pool = self.cpu_pool(self.scenario.api + router);
                self.work(pool, seconds, Event::Evaluated { router, events });
            }
            Event::Evaluated { router, events } => {
                // One statement that looks and one that decides.
                self.books.statements += 2;
                let looks = self.statement.of(events.len()) * self.scenario.inputs.get("read_share");
                let seconds = looks + self.statement.of(events.len() * self.scenario.recipients);
                self.work(DATABASE, seconds, Event::Routed { router, events });
            }
            Event::Routed { router, events } => self.routed(router, &events),
            Event::Queued(units) => {
                self.queue.extend(units);
                self.feed_workers();
            }
            Event::Received { worker, units } => self.received(worker, units),
            Event::Locked { worker, units } => self.enter_lane(self.lane(worker, Kind::Content), &units),
            Event::Composed { worker, units } => units.into_iter().for_each(|unit| self.call(worker, unit)),
            Event::Answered { worker, delivery, answer } => self.answered(worker, delivery, answer),
            Event::Due { delivery } => self.due(delivery),
            Event::Sample => self.sample(),
        }
    }

    fn sample(&mut self) {
        self.books.inside.push(self.books.inside_now());
        let in_use: usize = self.workers.iter().map(Worker::in_use).sum();
        self.books.permit_seconds += in_use as f64;
        let over = match self.scenario.arrivals {
            Arrivals::Open { seconds, .. } => self.calendar.now() >= seconds,
            Arrivals::Closed { .. } => self.posts_left == 0,
        };
        if !over || self.books.inside_now() > 0 {
            self.calendar.plan(1.0, Event::Sample);
        }
    }

    pub(crate) fn lane(&self, worker: usize, kind: Kind) -> usize {
        self.scenario.api + KINDS * worker + kind as usize
    }

    /// Waits for the next statement of its kind and process.
    pub(crate) fn enter_lane(&mut self, lane: usize, units: &[u32]) {
        self.lanes[lane].waiting.extend(units);
        self.start_statement(lane);
    }

    fn start_statement(&mut self, index: usize) {
        let lane = &mut self.lanes[index];
        if lane.busy || lane.waiting.is_empty() {
            return;
        }
        lane.busy = true;
        let rows = lane.waiting.len().min(self.scenario.inputs.count("statement_rows"));
        let units: Vec<u32> = lane.waiting.drain(..rows).collect();
        lane.statements += 1;
        lane.units += rows as u64;
        let kind = index.checked_sub(self.scenario.api).map(|lane| lane % KINDS);
        let reads = kind.is_some_and(|kind| kind <= Kind::Content as usize);
        let share = if reads { self.scenario.inputs.get("read_share") } else { 1.0 };
        let seconds = self.statement.of(rows) * share;
        self.work(DATABASE, seconds, Event::Committed { lane: index, units });
    }

    fn committed(&mut self, lane: usize, units: Vec<u32>) {
        self.lanes[lane].busy = false;
        self.start_statement(lane);
        if lane < self.scenario.api {
            self.answered_posts(lane, units);
            return;
        }
        let worker = (lane - self.scenario.api) / KINDS;
        match (lane - self.scenario.api) % KINDS {
            0 => self.calendar.plan(self.scenario.inputs.ms("redis_ms"), Event::Locked { worker, units }),
            1 => self.enter_lane(self.lane(worker, Kind::Claim), &units),
            2 => self.claimed(worker, units),
            _ => self.recorded(worker, &units),
        }
    }

    /// A job for a pool.
    pub(crate) fn work(&mut self, pool: usize, seconds: f64, then: Event) {
        if let Some((seconds, then)) = self.pools[pool].offer(seconds, then) {
            self.calendar.plan(seconds, Event::Done { pool, then: Box::new(then) });
        }
    }

    /// SQS takes its time and nobody else's; the local queue is a statement of the database.
    pub(crate) fn queue_request(&mut self, name: &str, rows: usize, then: Event) {
        if self.scenario.shared_machine {
            let seconds = self.statement.of(rows);
            self.work(DATABASE, seconds, then);
        } else {
            self.calendar.plan(self.scenario.inputs.ms(name), then);
        }
    }

    /// CPU seconds of one delivery in one role.
    pub(crate) fn cpu(&self, share: &str) -> f64 {
        self.scenario.inputs.ms("cpu_ms_per_delivery") * self.scenario.inputs.get(share)
    }

    /// The CPU of a process; on one machine everything shares the database's.
    pub(crate) fn cpu_pool(&self, process: usize) -> usize {
        if self.scenario.shared_machine { DATABASE } else { 1 + process }
    }
}
