//! A PostgreSQL server of our own on loopback.

mod binaries;
mod cluster;
mod options;
mod ready;

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

pub use options::{BinarySource, DataDir, PostgresOptions};

use crate::deadline::Deadline;
use crate::error::ServiceError;
use crate::guard::{StopRule, Supervised};
use crate::{port, tail};
use binaries::Binaries;
use cluster::{Cluster, ROLE};

const SERVICE: &str = "PostgreSQL";
const READY_SECONDS: u64 = 30;
/// A fast shutdown writes a checkpoint, which takes a moment on a slow disk.
const GRACE: Duration = Duration::from_secs(20);
const TRIES: usize = 5;

/// A running PostgreSQL. Dropping it stops it with a fast shutdown and removes a temporary data directory.
pub struct Postgres {
    cluster: Cluster,
    binaries: Binaries,
    settings: Vec<(String, String)>,
    log: PathBuf,
    port: u16,
    url: String,
    server: Supervised,
    // Held while the server runs. Fields are dropped in this order, so the server goes first.
    _lock: File,
}

impl Postgres {
    /// Finds binaries, makes or opens the data directory, starts the server and waits until it answers (30 s at most).
    ///
    /// # Errors
    /// Every step has its own [`ServiceError`]; each message is one line that says what to do, plus the log's end where
    /// there is one.
    pub fn start(options: &PostgresOptions) -> Result<Self, ServiceError> {
        options.check_database()?;
        let cluster = Cluster::place(&options.data)?;
        let lock = cluster.lock()?;
        let made_by = cluster.made_by();
        let binaries = binaries::find(options, cluster.user.as_ref(), &cluster.data(), made_by.as_deref())?;
        cluster.settle()?;
        cluster.make(&binaries, &options.progress)?;
        let password = cluster.password()?;
        cluster.make_database(&binaries, &options.database)?;
        let log = options.log.clone().unwrap_or_else(|| cluster.root.join("postgres.log"));
        for _ in 0..TRIES {
            let port = port::free().map_err(ServiceError::io("looking for a free port"))?;
            let launch = Launch { cluster: &cluster, binaries: &binaries, settings: &options.settings, log: &log };
            if let Some(server) = launch.on(port)? {
                let url = format!("postgres://{ROLE}:{password}@127.0.0.1:{port}/{}", options.database);
                let settings = options.settings.clone();
                return Ok(Self { cluster, binaries, settings, log, port, url, server, _lock: lock });
            }
        }
        Err(ServiceError::NoPort { service: SERVICE })
    }

    /// `postgres://user:password@127.0.0.1:port/database`, the same one for the life of this value.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The postmaster's process id.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Where the data, the password file and the log really are.
    pub fn folder(&self) -> &Path {
        &self.cluster.root
    }

    /// The folder of the programs, such as `psql`.
    pub fn bin_dir(&self) -> &Path {
        &self.binaries.bin
    }

    /// The major version.
    pub fn major(&self) -> u32 {
        self.binaries.major
    }

    /// Stops the server by a fast shutdown, and by SIGKILL after 20 s; a second call does nothing.
    pub fn stop(&mut self) -> Result<(), ServiceError> {
        self.server.stop()?;
        self.cluster.remove_temporary()
    }

    /// Stops the server if it still runs and starts it again with the same data and address: what a test of an outage
    /// needs.
    pub fn restart(&mut self) -> Result<(), ServiceError> {
        self.server.stop()?;
        self.cluster.settle()?;
        let launch =
            Launch { cluster: &self.cluster, binaries: &self.binaries, settings: &self.settings, log: &self.log };
        self.server = launch.on(self.port)?.ok_or(ServiceError::NoPort { service: SERVICE })?;
        Ok(())
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // A destructor has nobody to tell.
        let _ = self.stop();
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Postgres");
        out.field("folder", &self.cluster.root)
            .field("port", &self.port)
            .field("pid", &self.pid())
            .finish_non_exhaustive()
    }
}

struct Launch<'a> {
    cluster: &'a Cluster,
    binaries: &'a Binaries,
    settings: &'a [(String, String)],
    log: &'a Path,
}

impl Launch<'_> {
    /// `None` if another process took the port in between.
    fn on(&self, port: u16) -> Result<Option<Supervised>, ServiceError> {
        let mark = tail::mark(self.log);
        let mut command = self.cluster.command(&self.binaries.program("postgres"));
        command.arg("-D").arg(self.cluster.data()).arg("-p").arg(port.to_string());
        // Loopback only. No Unix socket: its path may be 107 bytes long at most, and a project's folder may be deeper.
        for (name, value) in [
            ("listen_addresses", "127.0.0.1"),
            ("unix_socket_directories", ""),
            ("timezone", "UTC"),
            ("log_timezone", "UTC"),
            ("logging_collector", "off"),
        ] {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        for (name, value) in self.settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        let log = tail::open(self.log)?;
        let log_too = log.try_clone().map_err(ServiceError::io("opening the log"))?;
        command.stdin(Stdio::null()).stdout(log).stderr(log_too);
        let remove = self.cluster.temporary.then(|| self.cluster.root.clone());
        let rule = StopRule { signal: "INT", grace: GRACE, group: false, remove };
        let mut server = Supervised::spawn(command, self.cluster.user.as_ref(), rule)?;
        Ok(self.wait_ready(&mut server, port, mark)?.then_some(server))
    }

    /// `false` if the server ended because the port was taken.
    fn wait_ready(&self, server: &mut Supervised, port: u16, mark: u64) -> Result<bool, ServiceError> {
        let deadline = Deadline::after(Duration::from_secs(READY_SECONDS));
        let mut last = String::from("no answer yet");
        while !deadline.passed() {
            if let Some(status) = server.ended()? {
                if port::taken(port) {
                    return Ok(false);
                }
                let log = tail::of_log(self.log, mark);
                return Err(ServiceError::Ended { service: SERVICE, status: status.to_string(), log });
            }
            match ready::ask(port) {
                Ok(()) if ready::is_ours(&self.cluster.data(), server.pid(), port) => return Ok(true),
                Ok(()) => last = "the server on this port is not ours".to_owned(),
                Err(error) => last = error.to_string(),
            }
            Deadline::pause();
        }
        let log = tail::of_log(self.log, mark);
        Err(ServiceError::NotReady { service: SERVICE, seconds: READY_SECONDS, last, log })
    }
}
