//! Chaos: several real `waybill` processes under load, while a script made from a seed kills, freezes, cuts, floods and restarts what they
//! stand on. Then everything is healed, and the books are balanced from three sides: what was answered 202, what the database says, what
//! the providers accepted.
//!
//! What it refuses: to call a doubled mail unknowable without a recorded fact that says so ([`books`]); to end well when nothing was
//! accepted or when a fault of the script could not be made.
//!
//! Invariants:
//! - the script comes from profile, seed and length alone ([`script`]);
//! - everything is bounded: each wait has a limit;
//! - no process outlives this one: children ask the kernel for SIGKILL at our death, servers have a watcher.
//!
//! By concern: [`script`] what goes wrong and when, [`world`] servers, database, sink, [`fleet`] the processes, [`proxy`] cuts between them
//! and their servers, [`faults`] carries the script out, [`load`] posts and remembers, [`ledger`] reads the database's side, [`books`]
//! compares, [`run`] the order of it all. `cargo xtask chaos` starts this program; docs/chaos.md says what the numbers mean.
//!
//! To add a fault: a variant of `script::Fault`, a line in `script::KINDS`, its start and end in `faults`.

mod books;
mod faults;
mod fleet;
mod ledger;
mod load;
mod proxy;
mod run;
mod script;
mod world;

use std::{process::ExitCode, time::Duration};

use anyhow::{Context as _, Result, bail};
use script::Profile;

/// What was asked for.
struct Words {
    profile: Profile,
    seed: u64,
    length: Duration,
    /// Only prints the script.
    script: bool,
    /// Takes one sent delivery away behind Waybill's back, and sends one twice: a run that ends well then is no proof of anything.
    sabotage: bool,
}

fn words(mut words: impl Iterator<Item = String>) -> Result<Words> {
    let mut asked = Words {
        profile: Profile::Everything,
        seed: 1,
        length: Duration::from_secs(60),
        script: false,
        sabotage: false,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} takes a value"));
        match word.as_str() {
            "--profile" => asked.profile = value()?.parse()?,
            "--seed" => asked.seed = value()?.parse().context("--seed takes a whole number")?,
            "--seconds" => {
                let seconds: u64 = value()?.parse().context("--seconds takes a whole number")?;
                if !(5..=86_400).contains(&seconds) {
                    bail!("--seconds takes 5 to 86400");
                }
                asked.length = Duration::from_secs(seconds);
            }
            "--script" => asked.script = true,
            "--sabotage" => asked.sabotage = true,
            _ => bail!("unknown argument {word:?}"),
        }
    }
    Ok(asked)
}

fn main() -> ExitCode {
    match chaos() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("waybill-chaos: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Prints the result; `Ok(false)` when the promise was broken.
fn chaos() -> Result<bool> {
    let words = words(std::env::args().skip(1))?;
    let script = script::script(words.profile, words.seed, words.length);
    if words.script {
        for step in &script {
            println!("{step}");
        }
        return Ok(true);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    // On this thread to its end: children die with the thread that started them.
    let report = runtime.block_on(run::run(words.profile, words.seed, words.length, &script, words.sabotage));
    runtime.shutdown_background();
    let report = report?;
    println!("{}", report.to_json());
    Ok(report.is_kept())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_words_are_refused() {
        let read = |text: &str| words(text.split_whitespace().map(str::to_owned));
        let good = read("--profile redis --seed 7 --seconds 30").unwrap();
        assert_eq!((good.profile, good.seed, good.length.as_secs()), (Profile::Redis, 7, 30));
        for wrong in ["--profile fire", "--seed x", "--seconds 1", "--seconds", "--fast"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
