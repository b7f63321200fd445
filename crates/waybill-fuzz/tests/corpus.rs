//! Every target has its corpus and its program for cargo-fuzz, and holds on the corpus and a few thousand changes of it.

use std::path::PathBuf;
use waybill_fuzz::{TARGETS, run};

/// Of each target. `cargo xtask fuzz` runs for as long as it is told to.
const RUNS: u64 = 4_000;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

#[test]
fn each_target_holds_on_its_corpus_and_on_changes_of_it() {
    for target in TARGETS {
        let corpus = run::corpus(&folder().join("corpus").join(target.name)).unwrap();
        assert!((1..=20).contains(&corpus.len()), "{}: {} files", target.name, corpus.len());
        let runs = run::run(target, &corpus, 1, |runs| runs < RUNS);
        assert_eq!(runs.map_err(|found| format!("{}: {found:?}", target.name)), Ok(RUNS));
    }
}

#[test]
fn each_target_has_a_program_for_cargo_fuzz() {
    let manifest = std::fs::read_to_string(folder().join("Cargo.toml")).unwrap();
    for target in TARGETS {
        let program = std::fs::read_to_string(folder().join(format!("fuzz_targets/{}.rs", target.name))).unwrap();
        assert!(program.contains(&format!("waybill_fuzz::check(\"{}\", input)", target.name)), "{program}");
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{} is not in fuzz/Cargo.toml", target.name);
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}
