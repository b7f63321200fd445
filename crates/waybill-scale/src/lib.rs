//! What happens at rates that no test machine can play: a discrete-event simulation of the service, fed by measured service times.
//!
//! - [`calendar`], [`pool`], [`rng`], [`stats`] are the simulator: time, servers with a queue, chance from a seed, percentiles;
//! - [`inputs`] reads `measured.json`: every number with where it comes from. An assumption says that it is one;
//! - [`system`] is the service: API processes with group commits, queues, routers, workers with permits and pollers, the database as a pool of
//!   servers; [`accept`] the way to its queues, [`deliver`] the worker's side, [`providers`] the providers with their quotas and outages;
//! - [`scenario`] are the questions, [`cost`] the prices, [`report`] the answers, [`check`] holds the model against a real bench.
//!
//! Invariants: the same seed gives the same result; every delivery that came in is accepted, dead, or still inside. It knows no other
//! crate of ours: what it needs of them are numbers in `measured.json`, and prices.
//!
//! To ask another question: a [`scenario::Scenario`].

pub mod accept;
pub mod calendar;
pub mod check;
pub mod cost;
pub mod deliver;
pub mod inputs;
pub mod pool;
pub mod providers;
pub mod report;
pub mod rng;
pub mod scenario;
pub mod stats;
pub mod system;
