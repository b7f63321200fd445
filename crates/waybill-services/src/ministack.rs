//! A throw-away emulator of AWS on loopback: queues, objects, topics, rules, functions and stacks, without an account.
//!
//! It keeps everything in memory. What it writes besides (the code of functions, its pid file) goes to a folder of its own, which is gone
//! afterwards. Functions are processes of its process group, so they go with it.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::ServiceError;
use crate::guard::{StopRule, Supervised};
use crate::{Progress, place, port, random, tail, wheel};

const SERVICE: &str = "MiniStack";
/// The first start compiles it to bytecode, which takes some seconds on a busy machine.
const READY_SECONDS: u64 = 60;
const GRACE: Duration = Duration::from_secs(5);
const TRIES: usize = 5;

/// How to start a MiniStack.
#[derive(Debug)]
pub struct MinistackOptions {
    /// A new folder below this one (which is used for nothing else) holds what it writes.
    pub data: PathBuf,
    /// Where the downloaded program is kept.
    pub cache: PathBuf,
    /// Where its log goes; `None` is a file beside the data, which is shown when the start fails.
    pub log: Option<PathBuf>,
    /// Told about slow steps.
    pub progress: Progress,
}

impl MinistackOptions {
    pub fn new(data: impl Into<PathBuf>, cache: impl Into<PathBuf>) -> Self {
        Self { data: data.into(), cache: cache.into(), log: None, progress: Progress::silent() }
    }
}

/// A running MiniStack. Dropping it stops it and removes what it wrote.
pub struct Ministack {
    program: Program,
    port: u16,
    server: Supervised,
}

impl Ministack {
    /// Installs it on the first use, starts it on a free port of 127.0.0.1 and waits until it answers.
    ///
    /// # Errors
    /// No Python 3.10 with pip, no way to PyPI, or a server that doesn't start; the message has the end of its log.
    pub fn start(options: &MinistackOptions) -> Result<Self, ServiceError> {
        let packages = wheel::MINISTACK.get(&options.cache, &options.progress)?;
        let packages = place::absolute(packages.parent().unwrap_or(&options.cache))?;
        let name = random::hex128().map_err(ServiceError::io("reading random bytes"))?;
        let folder = place::absolute(&options.data)?.join(format!("ministack-{name}"));
        let log = options.log.clone().unwrap_or_else(|| folder.join("ministack.log"));
        let program = Program { python: python()?, packages, folder, log, name };
        for _ in 0..TRIES {
            let port = port::free().map_err(ServiceError::io("looking for a free port"))?;
            match program.launch(port) {
                Ok(Some(server)) => return Ok(Self { program, port, server }),
                Ok(None) => {}
                Err(error) => {
                    program.remove_folder()?;
                    return Err(error);
                }
            }
        }
        program.remove_folder()?;
        Err(ServiceError::NoPort { service: SERVICE })
    }

    /// `http://127.0.0.1:port`, for `AWS_ENDPOINT_URL`.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The server's process id.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Where it writes.
    pub fn folder(&self) -> &Path {
        &self.program.folder
    }

    /// Stops it and removes what it wrote; a second call does nothing.
    pub fn stop(&mut self) -> Result<(), ServiceError> {
        self.server.stop()?;
        self.program.remove_folder()
    }

    /// Stops it if it runs and starts an empty one at the same address.
    pub fn restart(&mut self) -> Result<(), ServiceError> {
        self.stop()?;
        self.server = self.program.launch(self.port)?.ok_or(ServiceError::NoPort { service: SERVICE })?;
        Ok(())
    }
}

impl Drop for Ministack {
    fn drop(&mut self) {
        // A destructor has nobody to tell.
        let _ = self.stop();
    }
}

impl fmt::Debug for Ministack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ministack").field("port", &self.port).field("pid", &self.pid()).finish_non_exhaustive()
    }
}

/// What is the same at each start.
struct Program {
    python: PathBuf,
    packages: PathBuf,
    folder: PathBuf,
    log: PathBuf,
    /// Its answer to a health check holds this, which nobody else on the same port can know.
    name: String,
}

impl Program {
    fn remove_folder(&self) -> Result<(), ServiceError> {
        match std::fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(ServiceError::io(format!("removing {}", self.folder.display()))(error))
            }
            _ => Ok(()),
        }
    }

    /// Nothing of our environment but `PATH`: its functions inherit what it has, and none of them may see our database or keys.
    fn command(&self, port: u16) -> Command {
        let mut command = Command::new(&self.python);
        command.args(["-m", "ministack"]).current_dir(&self.folder).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("PYTHONPATH", &self.packages).env("PYTHONUNBUFFERED", "1");
        command.env("BIND_HOST", "127.0.0.1").env("GATEWAY_PORT", port.to_string());
        command.env("HOME", &self.folder).env("TMPDIR", &self.folder);
        command.env("STATE_DIR", self.folder.join("state")).env("S3_DATA_DIR", self.folder.join("s3"));
        command.env("PERSIST_STATE", "0").env("S3_PERSIST", "0");
        // These two would listen on ports of their own.
        command.env("IOT_MTLS_ENABLED", "0").env("SFTP_ENABLED", "0");
        command.env("MINISTACK_EDITION", &self.name);
        command
    }

    /// `None` if another process took the port in between.
    fn launch(&self, port: u16) -> Result<Option<Supervised>, ServiceError> {
        std::fs::create_dir_all(&self.folder).map_err(ServiceError::io(format!("making {}", self.folder.display())))?;
        place::set_mode(&self.folder, 0o700)?;
        let log = tail::open(&self.log)?;
        let mark = tail::mark(&self.log);
        let log_too = log.try_clone().map_err(ServiceError::io("opening the log"))?;
        let mut command = self.command(port);
        command.stdin(Stdio::null()).stdout(log).stderr(log_too);
        let rule = StopRule { signal: "TERM", grace: GRACE, group: true, remove: Some(self.folder.clone()) };
        let mut server = Supervised::spawn(command, None, rule)?;
        let deadline = Deadline::after(Duration::from_secs(READY_SECONDS));
        let mut last = String::from("no answer yet");
        while !deadline.passed() {
            if let Some(status) = server.ended()? {
                if port::taken(port) {
                    return Ok(None);
                }
                let log = tail::of_log(&self.log, mark);
                return Err(ServiceError::Ended { service: SERVICE, status: status.to_string(), log });
            }
            match health(port) {
                Ok(answer) if answer.starts_with("HTTP/1.1 200 ") && answer.contains(&self.name) => {
                    return Ok(Some(server));
                }
                Ok(_) => last = "the server on this port is not ours".to_owned(),
                Err(error) => last = error.to_string(),
            }
            Deadline::pause();
        }
        let log = tail::of_log(&self.log, mark);
        Err(ServiceError::NotReady { service: SERVICE, seconds: READY_SECONDS, last, log })
    }
}

fn health(port: u16) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(b"GET /_ministack/health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The interpreter behind `python3`, which may be a script of a version manager: that one needs an environment, and has a pid of its own.
fn python() -> Result<PathBuf, ServiceError> {
    let refused =
        |detail: String| ServiceError::NoBinaries { service: SERVICE, install: wheel::MINISTACK.install, detail };
    let asked = "import sys; print(sys.executable if sys.version_info >= (3, 10) else '')";
    let output = Command::new("python3").args(["-c", asked]).output().map_err(|error| refused(error.to_string()))?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if path.is_empty() {
        return Err(refused("python3 is older than 3.10".to_owned()));
    }
    Ok(PathBuf::from(path))
}
