//! Servers don't outlive a killed starter.

#![expect(clippy::unwrap_used, reason = "a test's helpers stop at the first surprise too")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Running, and not just waiting for its parent to look at it.
fn runs(pid: &str) -> bool {
    let output = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap();
    let state = String::from_utf8(output.stdout).unwrap();
    !state.trim().is_empty() && !state.trim().starts_with('Z')
}

/// Starts `xtask up ARGS`, returns what it said, and kills it.
fn up_and_killed(args: &[&str]) -> Vec<String> {
    let mut up = Command::new(env!("CARGO_BIN_EXE_xtask"));
    up.arg("up").args(args).stdout(Stdio::null()).stderr(Stdio::piped());
    for variable in ["DATABASE_URL", "REDIS_URL", "AWS_ENDPOINT_URL"] {
        up.env_remove(variable);
    }
    let mut up = up.spawn().unwrap();
    let lines = BufReader::new(up.stderr.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = lines.take_while(|line| !line.contains("Ctrl-C stops")).collect();
    assert!(!pids(&said).is_empty() && pids(&said).iter().all(|pid| runs(pid)), "{said:?}");
    assert!(folders(&said).iter().all(|folder| Path::new(folder).exists()), "{said:?}");
    up.kill().unwrap();
    up.wait().unwrap();
    said
}

fn pids(said: &[String]) -> Vec<&str> {
    said.iter().filter_map(|line| line.split_once("(pid ")?.1.strip_suffix(')')).collect()
}

fn folders(said: &[String]) -> Vec<&str> {
    let after = |line: &'_ String, words: &str| line.find(words).map(|at| at + words.len());
    let start = |line| after(line, "data are in ").or_else(|| after(line, "it writes to "));
    said.iter().filter_map(|line| Some(&line[start(line)?..])).collect()
}

fn all_gone_soon(said: &[String]) {
    let left =
        || pids(said).iter().any(|pid| runs(pid)) || folders(said).iter().any(|folder| Path::new(folder).exists());
    for _ in 0..150 {
        if !left() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("still there after 15 s: {said:?}");
}

#[test]
fn servers_and_their_folder_are_gone_soon_after_their_starter_was_killed() {
    let said = up_and_killed(&[]);
    assert_eq!((pids(&said).len(), folders(&said).len()), (2, 1), "{said:?}");
    all_gone_soon(&said);
}

#[test]
#[ignore = "needs an emulator: cargo xtask test --aws"]
fn the_emulator_and_its_folder_are_gone_soon_after_their_starter_was_killed() {
    let said = up_and_killed(&["--aws"]);
    assert_eq!((pids(&said).len(), folders(&said).len()), (3, 2), "{said:?}");
    all_gone_soon(&said);
}
