//! One service under load: Waybill, or the peer.

use std::sync::Arc;

use anyhow::{Result, ensure};

use super::{
    peer::Peer,
    servers::{self, Servers},
};
use crate::{
    books::{self, Books},
    counters::Counters,
    load::{self, Load},
    process::{MemoryWatch, Waybill},
    report::per_second,
    world::{Kind, World},
};

/// What a round of the closed loop came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Round {
    pub(crate) books: Books,
    pub(crate) per_s: f64,
    /// CPU seconds of the service's own processes.
    pub(crate) cpu_s: f64,
    /// What PostgreSQL and Redis used, and what was flushed.
    pub(crate) servers: Servers,
    /// What Waybill counted itself.
    pub(crate) counters: Option<Counters>,
}

pub(crate) enum Side {
    Ours(Box<Ours>),
    Peer(Box<Peer>),
}

/// A running `waybill all`, SendGrid first.
pub(crate) struct Ours {
    world: Arc<World>,
    process: Waybill,
    memory: MemoryWatch,
}

/// Plain mails of round number `round`.
pub(super) fn notes(round: usize, events: usize, recipients: usize) -> Load {
    Load { kind: Kind::Note, phase: format!("v{round}"), events, recipients }
}

impl Ours {
    pub(super) async fn start(world: Arc<World>) -> Result<Ours> {
        let process = Waybill::start(&world, "sendgrid,ses").await?;
        let memory = process.watch_memory();
        Ok(Ours { world, process, memory })
    }

    async fn round(&mut self, round: usize, events: usize, recipients: usize) -> Result<Round> {
        self.world.forget();
        let load = notes(round, events, recipients);
        let (before, servers) = (Counters::read(&self.world, &self.process).await?, servers::read(&self.world).await?);
        let started = load::closed(&self.world, &load).await?;
        let (books, last) = books::balance(&self.world, &mut self.process, load.deliveries()).await?;
        let counters = Counters::read(&self.world, &self.process).await? - before;
        Ok(Round {
            books,
            per_s: per_second(books.wanted, last - started),
            cpu_s: counters.cpu,
            servers: servers::read(&self.world).await? - servers,
            counters: Some(counters),
        })
    }

    async fn latencies(&mut self, round: usize, events: usize, rate: u32) -> Result<(Vec<f64>, Books)> {
        self.world.forget();
        let load = notes(round, events, 1);
        let open = load::open(&self.world, &load, rate).await?;
        let (books, _) = books::balance(&self.world, &mut self.process, load.deliveries()).await?;
        Ok((open.latencies(&self.world, &load.phase), books))
    }
}

impl Side {
    pub(super) async fn round(&mut self, round: usize, events: usize, recipients: usize) -> Result<Round> {
        match self {
            Side::Ours(ours) => ours.round(round, events, recipients).await,
            Side::Peer(peer) => peer.round(round, events, recipients).await,
        }
    }

    /// From the moment an event was meant to be posted to the arrival of each of its deliveries, in milliseconds.
    pub(super) async fn latencies(&mut self, round: usize, events: usize, rate: u32) -> Result<(Vec<f64>, Books)> {
        let (found, books) = match self {
            Side::Ours(ours) => ours.latencies(round, events, rate).await?,
            Side::Peer(peer) => peer.latencies(round, events, rate).await?,
        };
        ensure!(!books.good() || found.len() == events, "{} of {events} deliveries have a known post", found.len());
        Ok((found, books))
    }

    /// Waits for the end of what was posted by the caller.
    pub(super) async fn balance(&mut self, wanted: u64) -> Result<Books> {
        match self {
            Side::Ours(ours) => Ok(books::balance(&ours.world, &mut ours.process, wanted).await?.0),
            Side::Peer(peer) => Ok(peer.balance(wanted).await?.0),
        }
    }

    /// The most resident memory so far, of all of its processes.
    pub(super) fn memory_mb(&self) -> f64 {
        match self {
            Side::Ours(ours) => ours.memory.so_far_mb(),
            Side::Peer(peer) => peer.memory_mb(),
        }
    }
}
