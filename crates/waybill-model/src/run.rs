//! Checks the protocol within all bounds, and that every mutant is refused.

use crate::{
    bounds::Bounds,
    mutant::Mutant,
    properties,
    protocol::Protocol,
    walk::{Walked, walk},
    words,
};
use serde_json::{Value, json};
use stateright::{Checker, Expectation, Model};

/// What one run of the protocol came to.
#[derive(Debug)]
pub struct Checked {
    pub bounds: Bounds,
    /// Moves made, each from a state that was reached for the first time.
    pub states: usize,
    pub unique_states: usize,
    pub max_depth: usize,
    /// Broken promises, each with the moves that break it.
    pub violations: Vec<(&'static str, Vec<String>)>,
    /// What should be possible and was not reached.
    pub unreached: Vec<&'static str>,
    pub walked: Walked,
}

/// What became of one mutant and one promise.
#[derive(Debug)]
pub struct Tried {
    pub mutant: Mutant,
    pub promise: &'static str,
    /// The shortest way to break it; empty if the promise held, which is a fault of the model.
    pub counterexample: Vec<String>,
}

/// Everything, with what it took.
#[derive(Debug)]
pub struct Report {
    pub checked: Vec<Checked>,
    pub tried: Vec<Tried>,
}

impl Checked {
    /// Broken promises, and ways to go on for ever, to end with something open, or to disagree with the second walk.
    pub fn faults(&self) -> usize {
        self.violations.len()
            + usize::from(!self.walked.circle.is_empty())
            + self.walked.open_ends
            + usize::from(self.walked.states != self.unique_states)
    }
}

impl Report {
    pub fn violations(&self) -> usize {
        self.checked.iter().map(Checked::faults).sum()
    }

    /// Mutants of which each promise that they should break is broken.
    pub fn rejected(&self) -> usize {
        let holds = |mutant: &Mutant| self.tried.iter().any(|t| t.mutant == *mutant && t.counterexample.is_empty());
        Mutant::ALL.iter().filter(|mutant| !holds(mutant)).count()
    }

    pub fn passed(&self) -> bool {
        self.violations() == 0
            && self.rejected() == Mutant::ALL.len()
            && self.checked.iter().all(|run| run.unreached.is_empty())
    }

    pub fn json(&self, seconds: f64) -> Value {
        let sum = |count: fn(&Checked) -> usize| self.checked.iter().map(count).sum::<usize>();
        json!({
            "states": sum(|run| run.states),
            "unique_states": sum(|run| run.unique_states),
            "violations": self.violations(),
            "not_reached": self.checked.iter().flat_map(|run| &run.unreached).collect::<Vec<_>>(),
            "mutants": Mutant::ALL.len(),
            "mutants_rejected": self.rejected(),
            "max_depth": self.checked.iter().map(|run| run.max_depth).max(),
            "seconds": (seconds * 10.0).round() / 10.0,
            "bounds": self.checked.iter().map(|run| run.bounds.json()).collect::<Vec<_>>(),
        })
    }
}

/// All runs, then all mutants. `progress` is told what is done.
pub fn all(runs: &[Bounds], threads: usize, progress: &mut dyn FnMut(&str)) -> Report {
    let mut report = Report { checked: Vec::new(), tried: Vec::new() };
    for bounds in runs {
        progress(&format!("{}, at most {} faults", bounds.name, bounds.faults.together));
        let checked = check(*bounds, threads);
        progress(&format!(
            "   {} states, {} moves, {} deep, {} ends; violations {}",
            checked.unique_states,
            checked.states,
            checked.max_depth,
            checked.walked.ends,
            checked.faults()
        ));
        report.checked.push(checked);
    }
    for mutant in Mutant::ALL {
        for promise in mutant.breaks() {
            let tried = try_mutant(mutant, promise);
            progress(&match tried.counterexample.len() {
                0 => format!("{}: {promise} HOLDS", mutant.name()),
                moves => format!("{}: {promise} is broken in {moves} moves", mutant.name()),
            });
            report.tried.push(tried);
        }
    }
    report
}

/// The right protocol within `bounds`.
pub fn check(bounds: Bounds, threads: usize) -> Checked {
    let protocol = Protocol::new(bounds);
    std::thread::scope(|scope| {
        let second = scope.spawn(|| walk(&protocol));
        let checker = protocol.clone().checker().threads(threads).spawn_bfs().join();
        let found = checker.discoveries();
        let mut violations = Vec::new();
        let mut unreached = Vec::new();
        for property in properties::all() {
            match (property.expectation, found.contains_key(property.name)) {
                (Expectation::Always | Expectation::Eventually, true) => {
                    violations.push((property.name, shortest(&protocol, property.name)));
                }
                (Expectation::Sometimes, false) if properties::possible(property.name, &bounds) => {
                    unreached.push(property.name);
                }
                (Expectation::Always | Expectation::Eventually, false) | (Expectation::Sometimes, _) => {}
            }
        }
        Checked {
            bounds,
            states: checker.state_count(),
            unique_states: checker.unique_state_count(),
            max_depth: checker.max_depth(),
            violations,
            unreached,
            walked: second.join().unwrap_or_default(),
        }
    })
}

pub fn try_mutant(mutant: Mutant, promise: &'static str) -> Tried {
    Tried { mutant, promise, counterexample: shortest(&Protocol::mutant(mutant, promise), promise) }
}

/// Looked for alone and by one thread, the first counterexample is one of the shortest.
fn shortest(protocol: &Protocol, promise: &'static str) -> Vec<String> {
    let alone = Protocol { only: Some(promise), exchange: false, ..protocol.clone() };
    let path = alone.clone().checker().threads(1).spawn_bfs().join().discovery(promise);
    path.map(|path| words::lines(&alone, path)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::QUICK;

    #[test]
    fn within_the_quick_bounds_every_promise_holds_every_run_ends_and_every_mutant_is_refused() {
        let report = all(&QUICK, 2, &mut |_| {});
        for run in &report.checked {
            assert_eq!(run.violations, [], "{}", run.bounds.name);
            assert_eq!(run.unreached, [""; 0], "{}", run.bounds.name);
            assert_eq!((run.walked.circle.as_slice(), run.walked.open_ends), (&[][..], 0), "{}", run.bounds.name);
            assert_eq!(run.walked.states, run.unique_states, "{}", run.bounds.name);
            assert!(run.unique_states > 10_000, "{}: {} states prove little", run.bounds.name, run.unique_states);
        }
        for tried in &report.tried {
            assert!(!tried.counterexample.is_empty(), "{:?} keeps {}", tried.mutant, tried.promise);
        }
        assert_eq!(report.rejected(), Mutant::ALL.len());
        assert!(report.passed());
    }

    #[test]
    fn a_mutant_is_refused_by_a_promise_that_exists_and_the_protocol_keeps_it_within_the_same_bounds() {
        for mutant in Mutant::ALL {
            for promise in mutant.breaks() {
                assert!(properties::promises().contains(promise), "{promise}");
                let right = Protocol { only: Some(promise), ..Protocol::new(mutant.bounds()) };
                let found = right.checker().threads(1).spawn_bfs().join().discovery(promise);
                assert!(found.is_none(), "{} is broken without {:?}", promise, mutant);
            }
        }
    }
}
