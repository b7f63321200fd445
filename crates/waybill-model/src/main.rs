//! `cargo xtask model`: progress on stderr, one line of JSON on stdout, exit code 0 when every promise holds and every mutant is refused.

use std::process::ExitCode;
use std::time::Instant;
use waybill_model::{bounds, run};

#[expect(clippy::disallowed_methods, reason = "a developer's stopwatch")]
fn main() -> ExitCode {
    let (mut runs, mut show) = (&bounds::FULL, false);
    for word in std::env::args().skip(1) {
        match word.as_str() {
            "--quick" => runs = &bounds::QUICK,
            "--show" => show = true,
            _ => {
                eprintln!("waybill-model [--quick] [--show]");
                return ExitCode::from(2);
            }
        }
    }
    let started = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let report = run::all(runs, threads, &mut |line| eprintln!("[{:>4.0} s] {line}", started.elapsed().as_secs_f64()));
    for checked in &report.checked {
        for (promise, moves) in &checked.violations {
            tell(&format!("{}: {promise} is broken", checked.bounds.name), moves);
        }
        if !checked.walked.circle.is_empty() {
            eprintln!("\n{}: a run without end: {:?}", checked.bounds.name, checked.walked.circle);
        }
        for name in &checked.unreached {
            eprintln!("\n{}: not {name}", checked.bounds.name);
        }
    }
    if show {
        for tried in &report.tried {
            tell(&format!("{}: {} is broken", tried.mutant.name(), tried.promise), &tried.counterexample);
        }
    }
    println!("{}", report.json(started.elapsed().as_secs_f64()));
    if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell(title: &str, moves: &[String]) {
    eprintln!("\n{title}");
    for (number, line) in moves.iter().enumerate() {
        eprintln!("  {:>2}. {line}", number + 1);
    }
}
