//! The processes under test.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use tokio::time::{Instant, sleep};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Role {
    Api,
    Router,
    Worker,
    Scheduler,
}

impl Role {
    pub(crate) const ALL: [Role; 4] = [Role::Api, Role::Router, Role::Worker, Role::Scheduler];

    /// Processes of this role.
    pub(crate) fn count(self) -> usize {
        match self {
            Role::Api | Role::Router | Role::Scheduler => 2,
            Role::Worker => 3,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Role::Api => "api",
            Role::Router => "router",
            Role::Worker => "worker",
            Role::Scheduler => "scheduler",
        }
    }
}

/// One process: the same address and settings over all its lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Member {
    pub(crate) role: Role,
    pub(crate) index: usize,
}

impl Member {
    pub(crate) fn valid(self) -> Member {
        Member { index: self.index % self.role.count(), ..self }
    }

    pub(crate) fn all() -> Vec<Member> {
        Role::ALL.into_iter().flat_map(|role| (0..role.count()).map(move |index| Member { role, index })).collect()
    }
}

impl std::fmt::Display for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.role.word(), self.index)
    }
}

pub(crate) struct Fleet {
    binary: PathBuf,
    folder: PathBuf,
    env: HashMap<String, String>,
    /// What only some processes get: the addresses of the APIs, the wall clock of one worker.
    own: HashMap<Member, Vec<(String, String)>>,
    running: HashMap<Member, Child>,
    pub(crate) kills: u64,
    pub(crate) pauses: u64,
}

impl Fleet {
    pub(crate) fn new(
        binary: PathBuf,
        folder: PathBuf,
        env: HashMap<String, String>,
        own: HashMap<Member, Vec<(String, String)>>,
    ) -> Self {
        Self { binary, folder, env, own, running: HashMap::new(), kills: 0, pauses: 0 }
    }

    fn log(&self, member: Member) -> PathBuf {
        self.folder.join(format!("{member}.log"))
    }

    /// Starts it unless it runs. Must be called on the main thread, whose death ends it.
    pub(crate) fn start(&mut self, member: Member) -> Result<()> {
        if self.runs(member)? {
            return Ok(());
        }
        let log: File = OpenOptions::new().create(true).append(true).open(self.log(member)).context("opening a log")?;
        // `setpriv` (util-linux) asks for SIGKILL at our death and then becomes waybill, with the same process id.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.binary).arg(member.role.word());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).envs(&self.env);
        command.envs(self.own.get(&member).into_iter().flatten().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(log.try_clone().context("sharing a log")?).stderr(log);
        let child = command.spawn().context("starting waybill by setpriv, which util-linux has")?;
        self.running.insert(member, child);
        Ok(())
    }

    /// Whether it runs. A process that ended by itself may be started again: a database that is away is a good reason to end at the start.
    pub(crate) fn runs(&mut self, member: Member) -> Result<bool> {
        let Some(child) = self.running.get_mut(&member) else { return Ok(false) };
        if child.try_wait().context("looking at a process")?.is_some() {
            self.running.remove(&member);
            return Ok(false);
        }
        Ok(true)
    }

    pub(crate) fn kill(&mut self, member: Member) -> Result<()> {
        if let Some(mut child) = self.running.remove(&member) {
            child.kill().context("killing a process")?;
            child.wait().context("waiting for a killed process")?;
            self.kills += 1;
        }
        Ok(())
    }

    /// SIGTERM, STOP or CONT; nothing when it does not run.
    pub(crate) fn signal(&mut self, member: Member, name: &str) -> Result<()> {
        if !self.runs(member)? {
            return Ok(());
        }
        if let Some(child) = self.running.get(&member) {
            signal(child.id(), name)?;
            self.pauses += u64::from(name == "STOP");
        }
        Ok(())
    }

    /// Starts whoever does not run, and wakes whoever is frozen.
    pub(crate) fn heal(&mut self) -> Result<()> {
        for member in Member::all() {
            self.signal(member, "CONT")?;
            self.start(member)?;
        }
        Ok(())
    }

    /// Waits until each process has said that it started.
    pub(crate) async fn up(&mut self, limit: Duration) -> Result<()> {
        let started = Instant::now();
        for member in Member::all() {
            let log = self.log(member);
            while !std::fs::read_to_string(&log).unwrap_or_default().contains("waybill.started") {
                // A busy machine's database may be too slow for a start; a supervisor starts it again.
                self.start(member)?;
                if started.elapsed() > limit {
                    bail!("{member} did not start within {} s, see {}", limit.as_secs(), log.display());
                }
                sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    pub(crate) fn kill_all(&mut self) {
        for (_, mut child) in self.running.drain() {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.kill_all();
    }
}

/// Sends a signal to one process that we started.
pub(crate) fn signal(pid: u32, name: &str) -> Result<()> {
    let done = Command::new("kill")
        .arg(format!("-{name}"))
        .arg(pid.to_string())
        .stderr(Stdio::null())
        .status()
        .context("running kill")?;
    // It may have ended between the look and the signal.
    if !done.success() && std::fs::exists(format!("/proc/{pid}")).unwrap_or(true) {
        bail!("kill -{name} {pid} failed");
    }
    Ok(())
}
