//! The bench's peer: its packages, installed from the lock file into the target folder. No Node.js: there is no peer, and that is said.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::workspace::{self, Stopwatch};

const FILES: [&str; 3] = ["package.json", "package-lock.json", "peer.js"];
/// What the peer's packages ask for.
const NODE: u32 = 20;

/// A peer that can be started.
pub(crate) struct Peer {
    /// Where it lives, with its packages.
    pub(crate) folder: PathBuf,
    /// The program that runs it.
    pub(crate) node: String,
}

/// `None`, with a line that says why, where there is no Node.js or where its packages can't be had: the bench goes on without the peer.
pub(crate) fn install(watch: &Stopwatch) -> Result<Option<Peer>> {
    watch.heading("the peer");
    if node_version().is_none_or(|version| version < NODE) {
        eprintln!("   no Node.js {NODE} on PATH: without the peer");
        return Ok(None);
    }
    let folder = workspace::target().join("peers/bullmq");
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let source = workspace::root().join("bench/peers/bullmq");
    let installed = folder.join("node_modules/.package-lock.json").exists() && same_lock(&source, &folder);
    for file in FILES {
        fs::copy(source.join(file), folder.join(file)).with_context(|| format!("copying {file}"))?;
    }
    if !installed {
        // Scripts of packages are not run: the only one compiles an extension that has a fallback.
        let mut npm = Command::new("npm");
        npm.args(["ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder);
        let installed = npm.stdin(Stdio::null()).stdout(std::io::stderr()).status();
        if !installed.is_ok_and(|status| status.success()) {
            eprintln!("   npm ci failed: without the peer");
            // So that the next run tries again.
            fs::remove_file(folder.join(FILES[1])).context("removing the copy of the lock file")?;
            return Ok(None);
        }
    }
    Ok(Some(Peer { folder, node: "node".to_owned() }))
}

fn same_lock(source: &std::path::Path, folder: &std::path::Path) -> bool {
    let read = |folder: &std::path::Path| fs::read(folder.join(FILES[1])).ok();
    read(source).is_some_and(|lock| read(folder) == Some(lock))
}

fn node_version() -> Option<u32> {
    let output = Command::new("node").arg("--version").output().ok()?;
    major(&String::from_utf8_lossy(&output.stdout))
}

/// Of `v20.20.2`.
fn major(version: &str) -> Option<u32> {
    version.trim().strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_as_node_writes_it() {
        assert_eq!(major("v20.20.2\n"), Some(20));
        assert_eq!(major("node 20"), None);
    }
}
