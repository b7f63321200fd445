//! The same load on Waybill and on a peer, in turns, in one run on one machine: ratios travel, seconds don't.
//!
//! Both use one PostgreSQL server (a database each) with `fsync` and `synchronous_commit` on, one Redis, and this driver. One delivery is one
//! POST to this process: Waybill's through its SendGrid adapter, without a document; the peer's to a plain [`receiver`].
//!
//! Invariants: the books of a round balance before its time is looked at; sides take turns A B B A, so that a machine that becomes slower
//! is slower for both; what is compared is the median over pairs, with the least and the most beside it.
//!
//! [`side`] one service under load, [`peer`] the BullMQ service, [`receiver`] its recipients, [`limits`] what the machine could do, [`result`] JSON,
//! Markdown and the goals. `WAYBILL_BENCH_RIVAL` names another build of Waybill that then stands in the peer's place.

mod limits;
mod peer;
mod receiver;
mod result;
mod servers;
mod side;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use waybill_sink::{Fault, FaultKind, Provider};

use crate::{
    books::Books,
    load::{self, percentile},
    phases::say,
    world::World,
};
use peer::Peer;
use side::{Ours, Round, Side};

pub(crate) use result::Versus;
use result::{Pair, Times};

/// Recipients of an event.
const RECIPIENTS: [usize; 3] = [1, 10, 100];
/// Events posted per second in the latency rounds, with one recipient each.
const RATE: u32 = 50;
/// The share of requests that a provider refuses with a 5xx, in percent.
const FAULTS: u8 = 5;
/// Events per second of the tenant that sends little.
const QUIET_RATE: u32 = 5;

/// Deliveries of one round.
fn deliveries(quick: bool, recipients: usize) -> usize {
    if quick && recipients == 1 { 1_500 } else { 6_000 }
}

/// The whole part. All rounds of Waybill are entered into `books`, also when one of them ends the run.
pub(crate) async fn run(world: &Arc<World>, quick: bool, pairs: usize, books: &mut Books) -> Result<Versus> {
    let mut run = Run { pairs, quick, round: 0, books, versus: Versus::default() };
    let limits = limits::measure(world).await?;
    say(&format!("the machine's limit: {:.0} rows/s, a commit takes {:.2} ms", limits.rows_per_s, limits.commit_ms));
    run.versus.limits = limits;
    let mut ours = Side::Ours(Box::new(Ours::start(world.clone()).await?));
    let mut other = other_side(world).await?;
    run.warm_up(&mut ours).await?;
    if let Some(other) = &mut other {
        run.warm_up(other).await?;
    }
    for recipients in RECIPIENTS {
        run.throughput(&mut ours, &mut other, recipients).await?;
    }
    run.latency(world, &mut ours, &mut other).await?;
    run.versus.memory_mb = (ours.memory_mb(), other.as_ref().map(Side::memory_mb));
    drop(other);
    run.faults(world, &mut ours).await?;
    run.neighbour(world, &mut ours).await?;
    Ok(run.versus)
}

async fn other_side(world: &Arc<World>) -> Result<Option<Side>> {
    if let Some(binary) = std::env::var_os("WAYBILL_BENCH_RIVAL") {
        let beside = world.beside("rival", PathBuf::from(binary)).await?;
        return Ok(Some(Side::Ours(Box::new(Ours::start(Arc::new(beside)).await?))));
    }
    let Some(folder) = std::env::var_os("WAYBILL_BENCH_PEER") else {
        say("no peer (see above): its ratios are left out");
        return Ok(None);
    };
    Ok(Some(Side::Peer(Box::new(Peer::start(world, &PathBuf::from(folder)).await?))))
}

struct Run<'a> {
    pairs: usize,
    quick: bool,
    /// Makes the ids of each round its own.
    round: usize,
    books: &'a mut Books,
    versus: Versus,
}

impl Run<'_> {
    async fn round(&mut self, side: &mut Side, events: usize, recipients: usize) -> Result<Round> {
        self.round += 1;
        let round = side.round(self.round, events, recipients).await?;
        self.enter(side, &round.books)?;
        Ok(round)
    }

    /// Ours into the run's books. Books that don't balance end the run, whoever's they are: such a side has no speed.
    fn enter(&mut self, side: &Side, books: &Books) -> Result<()> {
        if matches!(side, Side::Ours(_)) {
            self.books.add(books);
        }
        ensure!(books.good(), "the books of round {} don't balance: {books:?}", self.round);
        Ok(())
    }

    async fn warm_up(&mut self, side: &mut Side) -> Result<()> {
        for recipients in RECIPIENTS {
            self.round(side, 1_000 / recipients, recipients).await?;
        }
        Ok(())
    }

    async fn throughput(&mut self, ours: &mut Side, other: &mut Option<Side>, recipients: usize) -> Result<()> {
        let events = deliveries(self.quick, recipients) / recipients;
        for n in 0..self.pairs {
            let (mut mine, mut theirs) = (None, None);
            for turn in 0..2 {
                if (turn == 0) == (n % 2 == 0) {
                    mine = Some(self.round(ours, events, recipients).await?);
                } else if let Some(other) = other {
                    theirs = Some(self.round(other, events, recipients).await?);
                }
            }
            let pair = Pair { ours: mine.context("no round of ours")?, other: theirs };
            say(&pair.line(recipients));
            self.versus.pairs.entry(recipients).or_default().push(pair);
        }
        Ok(())
    }

    /// At a fixed rate, far below what either can do, A B B A. Two commits of the same minute stand beside it.
    async fn latency(&mut self, world: &World, ours: &mut Side, other: &mut Option<Side>) -> Result<()> {
        let events = (if self.quick { 8 } else { 30 }) * RATE as usize;
        let (mut mine, mut theirs, mut commits) = (Vec::new(), Vec::new(), Vec::new());
        for turn in [true, false, false, true] {
            self.round += 1;
            if turn {
                commits.push(limits::commit_ms(world).await?);
                let (found, books) = ours.latencies(self.round, events, RATE).await?;
                self.enter(ours, &books)?;
                mine.extend(found);
            } else if let Some(other) = other {
                let (found, books) = other.latencies(self.round, events, RATE).await?;
                self.enter(other, &books)?;
                theirs.extend(found);
            }
        }
        commits.sort_unstable_by(f64::total_cmp);
        let times = |mut found: Vec<f64>| {
            found.sort_unstable_by(f64::total_cmp);
            Times { p50_ms: percentile(&found, 0.5), p95_ms: percentile(&found, 0.95) }
        };
        self.versus.two_commits_ms = 2.0 * percentile(&commits, 0.5);
        self.versus.latency = (times(mine), (!theirs.is_empty()).then(|| times(theirs)));
        say(&self.versus.latency_line());
        Ok(())
    }

    /// The same load while a provider refuses some requests, in turns with one that refuses none.
    async fn faults(&mut self, world: &World, ours: &mut Side) -> Result<()> {
        let fault = Fault::new(Provider::SendGrid, FaultKind::Http500).percent(FAULTS);
        for n in 0..self.pairs {
            let (mut good, mut bad) = (0.0, 0.0);
            for turn in 0..2 {
                let clean = (turn == 0) == (n % 2 == 0);
                world.sink.set_faults(if clean { Vec::new() } else { vec![fault.clone()] });
                let round = self.round(ours, deliveries(self.quick, 10) / 10, 10).await?;
                *(if clean { &mut good } else { &mut bad }) = round.per_s;
            }
            self.versus.faults.push(bad / good);
        }
        world.sink.set_faults(Vec::new());
        say(&format!("with {FAULTS} % faults: {:?} of the rate without", self.versus.faults));
        Ok(())
    }

    /// One tenant posts all that it has at once, another one a little at a steady rate.
    async fn neighbour(&mut self, world: &Arc<World>, ours: &mut Side) -> Result<()> {
        let events = if self.quick { 1_000 } else { 3_000 };
        self.round += 1;
        world.forget();
        let flood = side::notes(self.round, events, 10);
        let mut posts = flood.posts(world);
        posts.backlog = usize::MAX;
        let sink = world.sink.clone();
        let flooding = tokio::spawn(load::closed_posts(posts, move || sink.accepted()));
        tokio::time::sleep(Duration::from_millis(300)).await;
        self.round += 1;
        let quiet = side::notes(self.round, 10 * QUIET_RATE as usize, 1);
        let mut posts = quiet.posts(world);
        posts.key.clone_from(&world.neighbour_key);
        let open = load::open_posts(posts, QUIET_RATE).await?;
        let waiting = flood.deliveries().saturating_sub(world.sink.accepted());
        flooding.await.context("the flood panicked")??;
        let books = ours.balance(flood.deliveries() + quiet.deliveries()).await?;
        self.enter(ours, &books)?;
        let found = open.latencies(world, &quiet.phase);
        self.versus.neighbour = Times { p50_ms: percentile(&found, 0.5), p95_ms: percentile(&found, 0.95) };
        say(&format!(
            "beside a flood of another tenant ({waiting} deliveries waiting at the end): p50 {:.0} ms, p95 {:.0} ms",
            self.versus.neighbour.p50_ms, self.versus.neighbour.p95_ms
        ));
        Ok(())
    }
}
