//! Helpers of the integration tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use waybill_services::{DataDir, Postgres, PostgresOptions};

/// A folder below the target folder that is gone afterwards.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        if path.exists() {
            std::fs::remove_dir_all(&path).unwrap();
        }
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Below a folder that only root can enter, kept data is elsewhere.
        let note = std::fs::read_to_string(self.0.join("pg/MOVED.txt")).unwrap_or_default();
        if let Some(place) = note.lines().next().and_then(|line| line.strip_prefix("The data is in /var/tmp/waybill-"))
        {
            let _ = std::fs::remove_dir_all(format!("/var/tmp/waybill-{place}"));
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The folder of downloaded binaries that `cargo xtask test` uses too.
pub(crate) fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("services/cache")
}

/// Tests of this crate don't measure durability.
pub(crate) fn options(data: DataDir) -> PostgresOptions {
    let mut options = PostgresOptions::new(data, cache());
    options.settings = vec![("fsync".into(), "off".into()), ("shared_buffers".into(), "16MB".into())];
    options
}

pub(crate) fn psql(postgres: &Postgres, url: &str, sql: &str) -> Output {
    let mut command = Command::new(postgres.bin_dir().join("psql"));
    command.env("PGCONNECT_TIMEOUT", "5").args(["-XAtw", "-d", url, "-c", sql]).output().unwrap()
}

/// One value from the server.
pub(crate) fn ask(postgres: &Postgres, sql: &str) -> String {
    let output = psql(postgres, postgres.url(), sql);
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Sends a signal to a process that this test started.
pub(crate) fn signal(name: &str, pid: u32) {
    let status =
        Command::new("/bin/sh").args(["-c", "kill -s \"$1\" \"$2\"", "sh", name]).arg(pid.to_string()).status();
    assert!(status.unwrap().success());
}

/// Running, and not just waiting for its parent to look at it.
pub(crate) fn runs(pid: u32) -> bool {
    let output = Command::new("ps").args(["-o", "stat=", "-p"]).arg(pid.to_string()).output().unwrap();
    let state = String::from_utf8(output.stdout).unwrap();
    !state.trim().is_empty() && !state.trim().starts_with('Z')
}
