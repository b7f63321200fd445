//! Servers don't outlive a killed starter.

#![expect(clippy::unwrap_used, reason = "a test's helpers stop at the first surprise too")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Running, and not just waiting for its parent to look at it.
fn runs(pid: &str) -> bool {
    let output = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap();
    let state = String::from_utf8(output.stdout).unwrap();
    !state.trim().is_empty() && !state.trim().starts_with('Z')
}

#[test]
fn servers_and_their_folder_are_gone_soon_after_their_starter_was_killed() {
    let mut up = Command::new(env!("CARGO_BIN_EXE_xtask"));
    up.arg("up").env_remove("DATABASE_URL").env_remove("REDIS_URL").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut up = up.spawn().unwrap();
    let lines = BufReader::new(up.stderr.take().unwrap()).lines().map(Result::unwrap);
    let said: Vec<String> = lines.take_while(|line| !line.contains("Ctrl-C stops")).collect();
    let pids: Vec<&str> = said.iter().filter_map(|line| line.split_once("(pid ")?.1.strip_suffix(')')).collect();
    let folder = said.iter().find_map(|line| line.split_once("data are in ")).unwrap().1;
    assert_eq!(pids.len(), 2, "{said:?}");
    assert!(pids.iter().all(|pid| runs(pid)) && std::path::Path::new(folder).exists(), "{said:?}");

    up.kill().unwrap();
    up.wait().unwrap();
    let left = || pids.iter().any(|pid| runs(pid)) || std::path::Path::new(folder).exists();
    for _ in 0..150 {
        if !left() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("still there after 15 s: {said:?}");
}
