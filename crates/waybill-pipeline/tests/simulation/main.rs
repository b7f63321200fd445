//! Deterministic simulation: the real pipeline on a real PostgreSQL, and a seed that decides everything else.
//!
//! Four processes (API and router, two workers, scheduler) run the product's own code. Whatever they do to the outside waits at a gate
//! (`gate`), before each statement too; one step at a time, the seed lets one call go, well, badly or with its answer lost, lets time go
//! on, kills or freezes a process, or lets Redis forget. After so many steps everything heals, and then the books have to balance
//! (`check`): every accepted delivery final, one mail per identity unless an outcome was unknown, a gap-free ledger of legal moves, no
//! message left, none deleted that its row did not remember.
//!
//! - `WAYBILL_SIM_SEEDS=N`: so many seeds. `WAYBILL_SIM_FIRST=N`: from this one on.
//! - `WAYBILL_SIM_SEED=K`: only this one, and its trace is printed.
//!
//! Not simulated: two statements at once (`hammer` in the store's tests does that), and statements that fail on the way.

#![allow(clippy::disallowed_methods, reason = "tests run on the real clock")]
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests; clippy exempts only the functions that are tests themselves"
)]

mod check;
mod database;
mod dice;
mod gate;
mod outside;
mod plan;
mod ports;
mod process;
mod roles;
mod world;

use check::Counts;
use database::Database;
use outside::Mutant;
use std::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// Without a wish in the environment.
const SEEDS: u64 = 200;

fn wish(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}: a number")))
}

/// The last steps are the ones that matter; the file has all of them.
fn report(seed: u64, ended: &world::Ended, problem: &str) -> String {
    format!("seed {seed}: {problem}\n{}\nagain: WAYBILL_SIM_SEED={seed}", ended.trace.join("\n"))
}

/// Runs seeds on `threads` databases until one fails. Returns the sum, or the failure of the lowest seed that failed.
fn run(first: u64, count: u64, threads: usize, mutant: Option<Mutant>) -> Result<Counts, (u64, String)> {
    let (next, stop) = (AtomicU64::new(first), AtomicBool::new(false));
    let sum = Mutex::new(Counts::default());
    let failure: Mutex<Option<(u64, String)>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let database = Database::new(&world::CONNECTIONS);
                while !stop.load(Ordering::SeqCst) {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= first + count {
                        break;
                    }
                    let ended = world::run(&database, seed, mutant);
                    match &ended.result {
                        Ok(counts) => *sum.lock().unwrap() += *counts,
                        Err(problem) => {
                            stop.store(true, Ordering::SeqCst);
                            let mut failure = failure.lock().unwrap();
                            if failure.as_ref().is_none_or(|(before, _)| seed < *before) {
                                *failure = Some((seed, report(seed, &ended, problem)));
                            }
                        }
                    }
                }
                database.close();
            });
        }
    });
    match failure.into_inner().unwrap() {
        Some(failure) => Err(failure),
        None => Ok(sum.into_inner().unwrap()),
    }
}

#[test]
fn whatever_a_seed_brings_nothing_is_lost_and_nothing_is_sent_twice_that_anybody_could_know() {
    if let Some(seed) = wish("WAYBILL_SIM_SEED") {
        let database = Database::new(&world::CONNECTIONS);
        let ended = world::run(&database, seed, None);
        println!("{}", ended.trace.join("\n"));
        println!("{:?}", ended.result);
        database.close();
        assert!(ended.result.is_ok(), "{:?}", ended.result);
        return;
    }
    let seeds = wish("WAYBILL_SIM_SEEDS").unwrap_or(SEEDS);
    let started = std::time::Instant::now();
    let counts = match run(wish("WAYBILL_SIM_FIRST").unwrap_or(1), seeds, 2, None) {
        Ok(counts) => counts,
        Err((_, report)) => panic!("{report}"),
    };
    println!("{counts:?} in {:.1} s", started.elapsed().as_secs_f64());
    assert_eq!(counts.seeds, seeds);
    if seeds >= SEEDS {
        // A simulation in which nothing happens would find nothing either.
        let seen = [
            counts.sent,
            counts.duplicates_stopped,
            counts.duplicates_unknown,
            counts.unknown,
            counts.kills,
            counts.freezes,
            counts.faults,
        ];
        assert!(seen.iter().all(|count| *count > 0), "{counts:?}");
    }
}

#[test]
fn the_same_seed_takes_the_same_steps() {
    let database = Database::new(&world::CONNECTIONS);
    for seed in 1..=wish("WAYBILL_SIM_TWICE").unwrap_or(25) {
        let (one, two) = (world::run(&database, seed, None), world::run(&database, seed, None));
        let differs = one.trace.iter().zip(&two.trace).position(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}: {:?}", differs.map(|at| (&one.trace[at], &two.trace[at])));
        assert_eq!((one.trace.len(), one.result), (two.trace.len(), two.result), "seed {seed}");
    }
    database.close();
}

/// Seeds within which each broken rule has to be found.
const FOUND_WITHIN: u64 = 60;

fn finds(mutant: Mutant, problem: &str) {
    let (seed, report) = run(1, FOUND_WITHIN, 1, Some(mutant)).expect_err("the checks see nothing");
    let first = report.lines().next().unwrap_or_default();
    println!("{mutant:?} was found by seed {seed}: {first}");
    assert!(first.contains(problem), "{first}");
}

#[test]
fn a_queue_that_loses_messages_is_found_when_nobody_sweeps() {
    finds(Mutant::QueueLosesAndNobodySweeps, "still open");
}

#[test]
fn a_provider_that_denies_what_it_accepted_is_found() {
    finds(Mutant::ProviderDenies, "one attempt had it accepted 2 times, 0 unknown");
}

#[test]
fn a_database_that_forgets_what_was_sent_is_found() {
    finds(Mutant::ClaimsAreForgotten, "repeated mails of one identity");
}
