//! The data directory: making it, opening it again, and refusing one that is not ours to open.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use super::DataDir;
use super::binaries::Binaries;
use crate::deadline::Deadline;
use crate::error::ServiceError;
use crate::user::{self, User};
use crate::{Progress, place, random, tail};

/// The bootstrap role: tests make and drop databases, and migrations need an owner.
pub(super) const ROLE: &str = "waybill";

/// A server that was orphaned a moment ago is being stopped by its watcher.
const ORPHAN_PATIENCE: Duration = Duration::from_secs(20);

/// One folder: `data/` is PostgreSQL's, `password` is ours, `databases` lists what was made, `lock` is held while a
/// server runs.
pub(super) struct Cluster {
    pub(super) root: PathBuf,
    pub(super) user: Option<User>,
    pub(super) temporary: bool,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A destructor has nobody to tell.
        let _ = self.remove_temporary();
    }
}

impl Cluster {
    /// Makes the folder: the wanted one, its stand-in, or a new one below it.
    pub(super) fn place(data: &DataDir) -> Result<Self, ServiceError> {
        let user = user::unprivileged()?;
        match data {
            DataDir::Keep(path) => {
                let root = place::private(path, user.as_ref())?;
                Ok(Self { root, user, temporary: false })
            }
            DataDir::Temporary(base) => {
                let name = random::hex128().map_err(ServiceError::io("reading random bytes"))?;
                let root = place::private(base, user.as_ref())?.join(format!("tmp-{}", &name[..12]));
                fs::create_dir(&root).map_err(ServiceError::io(format!("making {}", root.display())))?;
                place::set_mode(&root, 0o700)?;
                user::give(&root, user.as_ref())?;
                Ok(Self { root, user, temporary: true })
            }
        }
    }

    pub(super) fn remove_temporary(&self) -> Result<(), ServiceError> {
        if !self.temporary || !self.root.exists() {
            return Ok(());
        }
        fs::remove_dir_all(&self.root).map_err(ServiceError::io(format!("removing {}", self.root.display())))?;
        if let Some(base) = self.root.parent() {
            place::leave(base);
        }
        Ok(())
    }

    pub(super) fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    /// The major version that made the data, or `None` if there is none yet.
    pub(super) fn made_by(&self) -> Option<String> {
        Some(fs::read_to_string(self.data().join("PG_VERSION")).ok()?.trim().to_owned())
    }

    /// Takes the folder for this process. The kernel frees the lock at our death, however we die.
    pub(super) fn lock(&self) -> Result<File, ServiceError> {
        let path = self.root.join("lock");
        let doing = || ServiceError::io(format!("locking {}", path.display()));
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opened.map_err(doing())?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                file.read_to_string(&mut owner).map_err(doing())?;
                return Err(ServiceError::InUse { data: self.data(), pid: owner.trim().parse().unwrap_or(0) });
            }
            Err(TryLockError::Error(error)) => return Err(doing()(error)),
        }
        file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).map_err(doing())?;
        file.write_all(std::process::id().to_string().as_bytes()).map_err(doing())?;
        Ok(file)
    }

    /// Waits until no process works in the data directory, then removes a `postmaster.pid` that a crash left behind.
    ///
    /// PostgreSQL itself refuses to start if the pid in that file was given to another process since. Removing it is
    /// safe only when no backend of the crashed server is left either. Each of them has the data directory as its
    /// current one, which Linux shows.
    pub(super) fn settle(&self) -> Result<(), ServiceError> {
        let data = self.data();
        let pid_file = data.join("postmaster.pid");
        let deadline = Deadline::after(ORPHAN_PATIENCE);
        while let Some(pid) = process_in(&data) {
            if deadline.passed() {
                return Err(ServiceError::InUse { data, pid });
            }
            Deadline::pause();
        }
        if pid_file.exists() && Path::new("/proc/self/cwd").exists() {
            fs::remove_file(&pid_file).map_err(ServiceError::io(format!("removing {}", pid_file.display())))?;
        }
        Ok(())
    }

    /// Runs `initdb` unless it was done. It works in another folder first, so that a killed one leaves no half a
    /// database.
    pub(super) fn make(&self, binaries: &Binaries, progress: &Progress) -> Result<(), ServiceError> {
        if self.made_by().is_some() {
            return Ok(());
        }
        progress.say(&format!("making a PostgreSQL {} database", binaries.major));
        let new = self.root.join("data.new");
        if new.exists() {
            fs::remove_dir_all(&new).map_err(ServiceError::io(format!("removing {}", new.display())))?;
        }
        self.write_password()?;
        let mut command = self.command(&binaries.program("initdb"));
        command.arg("--pgdata").arg(&new).arg("--pwfile").arg(self.password_file());
        command.args(["--username", ROLE, "--encoding=UTF8", "--locale=C", "--auth=scram-sha-256"]);
        if self.temporary {
            command.arg("--no-sync");
        }
        let output = command.stdin(Stdio::null()).output().map_err(ServiceError::io("running initdb"))?;
        if !output.status.success() {
            return Err(failed("initdb", &output));
        }
        fs::rename(&new, self.data()).map_err(ServiceError::io(format!("moving {} into place", new.display())))
    }

    /// Makes a database in PostgreSQL's single-user mode, which needs neither a client program nor a password.
    pub(super) fn make_database(&self, binaries: &Binaries, name: &str) -> Result<(), ServiceError> {
        let list = self.root.join("databases");
        let made = fs::read_to_string(&list).unwrap_or_default();
        if made.lines().any(|line| line == name) {
            return Ok(());
        }
        let mut command = self.command(&binaries.program("postgres"));
        command.args(["--single", "-D"]).arg(self.data()).arg("template1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(ServiceError::io("running postgres --single"))?;
        if let Some(mut stdin) = child.stdin.take() {
            writeln!(stdin, "CREATE DATABASE {name}").map_err(ServiceError::io("writing to postgres --single"))?;
        }
        let output = child.wait_with_output().map_err(ServiceError::io("waiting for postgres --single"))?;
        // Single-user mode ends with 0 after a failed statement, so its words count (in English, as LC_ALL is C).
        let said = String::from_utf8_lossy(&output.stderr);
        let refused = said.contains("ERROR:") || said.contains("FATAL:");
        if !output.status.success() || (refused && !said.contains("already exists")) {
            return Err(failed("making the database", &output));
        }
        fs::write(&list, format!("{made}{name}\n")).map_err(ServiceError::io(format!("writing {}", list.display())))
    }

    fn password_file(&self) -> PathBuf {
        self.root.join("password")
    }

    pub(super) fn password(&self) -> Result<String, ServiceError> {
        let text = fs::read_to_string(self.password_file());
        Ok(text.map_err(|_| ServiceError::PasswordLost { data: self.data() })?.trim().to_owned())
    }

    fn write_password(&self) -> Result<(), ServiceError> {
        let path = self.password_file();
        let password = random::hex128().map_err(ServiceError::io("reading random bytes"))?;
        let doing = || ServiceError::io(format!("writing {}", path.display()));
        // The mode comes before the content.
        File::create(&path).map_err(doing())?;
        place::set_mode(&path, 0o600)?;
        fs::write(&path, password).map_err(doing())?;
        user::give(&path, self.user.as_ref())
    }

    /// A command of this cluster: as the server's user, without the caller's `PG*` settings, speaking English.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG")) {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C").env("TZ", "UTC").current_dir(&self.root);
        user::run_as(&mut command, self.user.as_ref());
        command
    }
}

fn failed(step: &'static str, output: &Output) -> ServiceError {
    let text = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ServiceError::Step { step, detail: format!("{}: {}", output.status, tail::of_text(&text)) }
}

/// A server process whose current directory is `data`; `None` also where there is no `/proc`.
fn process_in(data: &Path) -> Option<u32> {
    let data = data.canonicalize().ok()?;
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let inside = fs::read_link(entry.path().join("cwd")).ok()? == data;
        (inside && fs::read_to_string(entry.path().join("comm")).ok()?.trim() == "postgres").then_some(pid)
    })
}
