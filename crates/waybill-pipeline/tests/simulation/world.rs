//! One seed: four processes, what is outside of them, and the hand that decides who goes next.

use crate::{
    check::{self, Counts},
    database::Database,
    dice::Dice,
    gate::{Kind, Verdict},
    outside::{Mutant, Outside},
    plan::Plan,
    process::{Process, Timeline},
    roles,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::mpsc;
use uuid::Uuid;
use waybill_core::{
    ids::{DeliveryId, JobId, RouteId, TenantId},
    ports::{FeedbackEvent, QueueName},
};
use waybill_store::{SettleByHand, Store};

/// Processes, by their number at the gate.
pub(crate) const NAMES: [&str; 4] = ["front", "worker-a", "worker-b", "sweeper"];
/// Connections of each.
pub(crate) const CONNECTIONS: [u32; 4] = [3, 3, 3, 1];
pub(crate) const FRONT: usize = 0;
pub(crate) const SWEEPER: usize = 3;
pub(crate) const MAX_RECEIVE_COUNT: u32 = 5;

/// Steps without time going forward: more of them mean that the processes chase each other.
const LIVELOCK: usize = 3_000;
/// Looks at what is due next before the seed counts as stuck.
const PATIENCE: usize = 150;

/// What the front process is asked to do.
pub(crate) enum Ask {
    Post(usize),
    Tell(FeedbackEvent),
}

/// What is known outside of the front process about what it was asked.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) accepted: BTreeMap<usize, JobId>,
    pub(crate) told: Vec<String>,
}

pub(crate) struct World<'a> {
    pub(crate) seed: u64,
    pub(crate) database: &'a Database,
    pub(crate) outside: Arc<Outside>,
    pub(crate) plan: Plan,
    pub(crate) tenant: TenantId,
    pub(crate) answers: Arc<Mutex<Answers>>,
    /// Processes started so far: each has luck of its own.
    pub(crate) started: u64,
    dice: Dice,
    timeline: Timeline,
    processes: [Option<Process>; 4],
    front: Option<mpsc::UnboundedSender<Ask>>,
    /// Milliseconds since the beginning.
    at: u64,
    trace: Vec<String>,
    counts: Counts,
}

/// What a seed ends with.
pub(crate) struct Ended {
    pub(crate) trace: Vec<String>,
    pub(crate) result: Result<Counts, String>,
}

/// Runs one seed.
pub(crate) fn run(database: &Database, seed: u64, mutant: Option<Mutant>) -> Ended {
    let dice = Dice::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let plan = Plan::of(&dice);
    let mut world = World {
        seed,
        database,
        outside: Outside::new(mutant, MAX_RECEIVE_COUNT),
        plan,
        tenant: TenantId(Uuid::from_u128(7)),
        answers: Arc::default(),
        started: 0,
        dice,
        timeline: Timeline::new(),
        processes: [const { None }; 4],
        front: None,
        at: 0,
        trace: Vec::new(),
        counts: Counts { seeds: 1, ..Counts::default() },
    };
    let result = world.play();
    Ended { trace: std::mem::take(&mut world.trace), result }
}

impl World<'_> {
    fn play(&mut self) -> Result<Counts, String> {
        self.database.reset();
        let store = Store::from_pool(self.database.pool().clone());
        self.database.run(async {
            store.create_tenant(self.tenant, "acme", None).await.unwrap();
            let route = RouteId(Uuid::from_u128(8));
            store.put_route(self.tenant, route, "order.created", &self.plan.route).await.unwrap();
        });
        (0..NAMES.len()).for_each(|number| self.start(number));
        for _ in 0..self.plan.steps {
            self.step()?;
        }
        self.heal()?;
        let mut counts = check::end(self.database, &self.outside)?;
        counts += self.counts;
        Ok(counts)
    }

    fn note(&mut self, line: String) {
        self.trace.push(format!("{:>9} {line}", self.at));
    }

    fn start(&mut self, number: usize) {
        if number == SWEEPER && self.outside.mutant == Some(Mutant::QueueLosesAndNobodySweeps) {
            return;
        }
        self.database.refill(number);
        let process = Process::start(number, &self.outside.gate, &self.database.slots[number], &self.timeline);
        self.started += 1;
        {
            let _entered = process.enter();
            if let Some(front) = roles::start(self, &process, number) {
                self.front = Some(front);
            }
        }
        process.drive();
        self.processes[number] = Some(process);
        self.note(format!("{} starts", NAMES[number]));
    }

    /// One thing happens.
    fn step(&mut self) -> Result<(), String> {
        let open = self.grantable();
        let dead = self.which(|p| p.is_none());
        let frozen = self.which(|p| p.as_ref().is_some_and(|p| p.missed.is_some()));
        let running = self.which(|p| p.as_ref().is_some_and(|p| p.missed.is_none()));
        let left = |n: usize, weight: usize| if n > 0 { weight } else { 0 };
        let unposted = self.unposted();
        let untold = self.outside.feedback().len();
        let weights = [
            left(open.len(), 140),
            24,
            left(unposted.len(), 12),
            left(untold, 8),
            left(dead.len(), 16),
            left(frozen.len(), 10),
            if running.is_empty() { 0 } else { left(self.plan.kills, 3) },
            if running.is_empty() { 0 } else { left(self.plan.freezes, 3) },
            left(self.plan.flushes, 2),
        ];
        self.counts.steps += 1;
        match self.dice.weighted(&weights) {
            Some(0) => {
                let (number, process, kind) = *self.dice.pick(&open);
                let verdict = self.plan.verdict(&self.dice, kind);
                self.grant(number, process, verdict);
            }
            Some(2) => self.ask(Ask::Post(*self.dice.pick(&unposted))),
            Some(3) => self.tell(),
            Some(4) => self.start(*self.dice.pick(&dead)),
            Some(5) => self.thaw(*self.dice.pick(&frozen)),
            Some(6) => self.kill(*self.dice.pick(&running)),
            Some(7) => self.freeze(*self.dice.pick(&running)),
            Some(8) => {
                self.plan.flushes -= 1;
                self.outside.lock.lose_all();
                self.note("redis forgets its locks".into());
            }
            _ => {
                let by = *self
                    .dice
                    .pick(&[50, 50, 50, 250, 250, 250, 1_000, 3_000, 11_000, 16_000, 65_000, 185_000, 310_000]);
                self.advance(Duration::from_millis(by));
            }
        }
        self.forget_claims();
        check::remembered(self.database, &self.outside, self.plan.holds())
    }

    /// The calls that may go on: their number at the gate, and their process.
    fn grantable(&self) -> Vec<(u64, usize, Kind)> {
        let _entered = self.timeline.enter();
        let now = self.timeline.now();
        let there = |queue: QueueName| self.outside.queue.peek(queue).iter().any(|shown| !shown.hidden);
        let awake = |process: usize| self.processes[process].as_ref().is_some_and(|p| p.missed.is_none());
        self.outside.gate.look(|w| {
            let ready = match w.kind {
                Kind::Receive { queue, until } => now >= until || there(queue),
                Kind::Statement
                | Kind::Send
                | Kind::Delete
                | Kind::Extend
                | Kind::Lock
                | Kind::Provider
                | Kind::Object
                | Kind::Render
                | Kind::Answer => true,
            };
            (ready && awake(w.process)).then_some((w.number, w.process, w.kind))
        })
    }

    fn grant(&mut self, number: u64, process: usize, verdict: Verdict) {
        let label = self.outside.gate.look(|w| (w.number == number).then(|| w.label.clone()));
        let fault = verdict.fault.map_or(String::new(), |fault| {
            self.counts.faults += 1;
            format!(": {fault:?}")
        });
        self.note(format!("{} {}{fault}", NAMES[process], label.concat()));
        if let Some(act) = self.outside.gate.open(number, verdict) {
            self.timeline.run(act);
        }
        if let Some(process) = &self.processes[process] {
            process.drive();
        }
    }

    fn which(&self, test: impl Fn(&Option<Process>) -> bool) -> Vec<usize> {
        (0..NAMES.len()).filter(|number| test(&self.processes[*number])).collect()
    }

    fn unposted(&self) -> Vec<usize> {
        let answers = self.answers.lock().unwrap();
        (0..self.plan.events.len()).filter(|event| !answers.accepted.contains_key(event)).collect()
    }

    /// A caller posts, and posts again until it hears an answer.
    fn ask(&mut self, ask: Ask) {
        let what = match &ask {
            Ask::Post(event) => format!("post {event}"),
            Ask::Tell(event) => format!("{} tells {}", event.provider, event.kind.as_str()),
        };
        let heard = self.front.as_ref().is_some_and(|front| front.send(ask).is_ok());
        self.note(format!("{what}{}", if heard { "" } else { " to nobody" }));
        if let Some(process) = self.processes[FRONT].as_ref().filter(|p| p.missed.is_none()) {
            process.drive();
        }
    }

    fn tell(&mut self) {
        let told = self.answers.lock().unwrap().told.clone();
        let event = {
            let mut events = self.outside.feedback();
            events.retain(|event| !told.contains(&event.event_id));
            if events.is_empty() { None } else { Some(self.dice.pick(&events).clone()) }
        };
        if let Some(event) = event {
            self.ask(Ask::Tell(event));
        }
    }

    fn kill(&mut self, number: usize) {
        self.plan.kills -= 1;
        self.counts.kills += 1;
        self.note(format!("{} is killed", NAMES[number]));
        self.processes[number] = None;
        if number == FRONT {
            self.front = None;
        }
    }

    fn freeze(&mut self, number: usize) {
        self.plan.freezes -= 1;
        self.counts.freezes += 1;
        self.note(format!("{} is frozen", NAMES[number]));
        if let Some(process) = &mut self.processes[number] {
            process.missed = Some(Duration::ZERO);
        }
    }

    fn thaw(&mut self, number: usize) {
        self.note(format!("{} goes on", NAMES[number]));
        if let Some(process) = &mut self.processes[number]
            && let Some(missed) = process.missed.take()
        {
            process.advance(missed);
        }
    }

    fn advance(&mut self, by: Duration) {
        self.at += by.as_millis() as u64;
        self.note("time goes on".into());
        self.timeline.advance(by);
        self.database.advance(by);
        self.outside.clock.advance(by);
        for process in self.processes.iter_mut().flatten() {
            match &mut process.missed {
                Some(missed) => *missed += by,
                None => process.advance(by),
            }
        }
    }

    /// The mutant of the database and of Redis.
    fn forget_claims(&self) {
        if self.outside.mutant == Some(Mutant::ClaimsAreForgotten) {
            self.database
                .run(sqlx::query("DELETE FROM sends WHERE state = 'sent'").execute(self.database.pool()))
                .unwrap();
            self.outside.lock.lose_all();
        }
    }

    /// Nothing fails any more. Ends when all that was accepted is final and no message is left.
    fn heal(&mut self) -> Result<(), String> {
        self.note("everything heals".into());
        for number in 0..NAMES.len() {
            self.thaw(number);
            if self.processes[number].is_none() {
                self.start(number);
            }
        }
        for _ in 0..PATIENCE {
            for event in self.unposted() {
                self.ask(Ask::Post(event));
            }
            self.work_off()?;
            while !self.outside.feedback().is_empty() {
                self.tell();
                self.work_off()?;
            }
            self.decide_by_hand();
            let (open, due_in) = self.database.open();
            let messages = self.messages();
            if open == 0 && messages == 0 && self.unposted().is_empty() {
                return Ok(());
            }
            let wait = match due_in {
                Some(seconds) if open > 0 => seconds.clamp(0.0, 86_400.0) + 5.5,
                _ => 60.0,
            };
            self.advance(Duration::from_millis((wait * 1_000.0) as u64));
        }
        let open = self.database.show_open();
        Err(format!(
            "{} row(s) are still open: {}; unanswered posts: {:?}",
            open.len(),
            open.join(", "),
            self.unposted()
        ))
    }

    fn messages(&self) -> usize {
        let _entered = self.timeline.enter();
        [QueueName::Main, QueueName::Delivery].iter().map(|queue| self.outside.queue.peek(*queue).len()).sum()
    }

    /// A person looks at the provider's log and settles what is held.
    fn decide_by_hand(&mut self) {
        let held = sqlx::query_scalar("SELECT id FROM deliveries WHERE held ORDER BY id");
        let held: Vec<Uuid> = self.database.run(held.fetch_all(self.database.pool())).unwrap();
        let store = Store::from_pool(self.database.pool().clone());
        for id in held.into_iter().map(DeliveryId) {
            let settle = match self.outside.accepted().iter().any(|mail| mail.delivery == id) {
                true => SettleByHand::Sent { provider: "ses".into(), provider_message_id: None },
                false => SettleByHand::Resend,
            };
            self.note(format!("{} is settled by hand", &id.to_string()[24..]));
            self.database.run(store.settle_by_hand(id, &settle)).unwrap();
        }
    }

    /// Until nothing goes on without time.
    fn work_off(&mut self) -> Result<(), String> {
        for _ in 0..LIVELOCK {
            let open = self.grantable();
            if open.is_empty() {
                return Ok(());
            }
            self.counts.steps += 1;
            let (number, process, _) = *self.dice.pick(&open);
            self.grant(number, process, Verdict::default());
            self.forget_claims();
            check::remembered(self.database, &self.outside, self.plan.holds())?;
        }
        Err("the processes chase each other and time does not go on".into())
    }
}
