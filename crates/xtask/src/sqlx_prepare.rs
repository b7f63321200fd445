//! `cargo xtask sqlx-prepare`: the committed query data that lets everybody build without a database.
//!
//! The checked query macros ask a database while compiling, unless they find what it would say in `.sqlx/` at the root.
//! This command asks a database of its own, with the migrations applied by `psql`: our migrator is of no use here,
//! because the crate that holds it does not compile while its query data is out of date. sqlx-cli would do the same,
//! but has to be installed first.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use waybill_services::Postgres;

use crate::args::Args;
use crate::services::start_postgres;
use crate::workspace::{self, Stopwatch};

pub(crate) const HELP: &str = "\
sqlx-prepare [--check]    writes .sqlx/, the query data for builds without a database, from the migrations
                          and the checked queries
    --check               writes nothing, and fails with the queries whose data is out of date";

const MACROS: [&str; 4] = ["query!(", "query_as!(", "query_scalar!(", "query_file"];

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let check = args.flag("--check");
    args.finish()?;
    let watch = Stopwatch::start();
    let committed = workspace::root().join(".sqlx");
    let new = workspace::target().join(format!("sqlx-prepare-{}", std::process::id()));
    fs::create_dir_all(&new).with_context(|| format!("making {}", new.display()))?;
    let result = prepare(&new, &watch).and_then(|()| {
        let (old, new) = (read(&committed)?, read(&new)?);
        if check { compare(&old, &new) } else { replace(&committed, &old, &new) }
    });
    fs::remove_dir_all(&new).with_context(|| format!("removing {}", new.display()))?;
    result
}

/// Compiles every crate with checked queries against a migrated database; the macros write their data into `folder`.
fn prepare(folder: &Path, watch: &Stopwatch) -> Result<()> {
    let crates = crates_with_queries()?;
    if crates.is_empty() {
        return Ok(());
    }
    watch.heading("PostgreSQL with the migrations");
    let postgres = start_postgres()?;
    migrate(&postgres)?;
    watch.heading("compiling the queries");
    let mut command = workspace::cargo(["check", "--locked", "--all-targets"]);
    for folder in &crates {
        touch(&folder.join("src/lib.rs"))?;
        let name = folder.file_name().context("a crate's folder has a name")?;
        command.arg("-p").arg(name);
    }
    command.env("DATABASE_URL", postgres.url()).env("SQLX_OFFLINE", "false").env("SQLX_OFFLINE_DIR", folder);
    ensure!(
        command.status().context("running cargo check")?.success(),
        "the queries do not compile against the migrations"
    );
    Ok(())
}

/// The folders in `crates/` whose sources use a checked query macro.
fn crates_with_queries() -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in entries(&workspace::root().join("crates"))? {
        // This file holds the macros' names without using them.
        if folder.join("src/lib.rs").is_file() && uses_queries(&folder)? {
            found.push(folder);
        }
    }
    Ok(found)
}

fn uses_queries(folder: &Path) -> Result<bool> {
    for path in entries(folder)? {
        let hit = if path.is_dir() {
            uses_queries(&path)?
        } else {
            path.extension().is_some_and(|extension| extension == "rs") && {
                let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
                MACROS.iter().any(|name| text.contains(name))
            }
        };
        if hit {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What is in a folder, in order.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths = read.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Cargo compiles a crate again when a source is newer than what was made from it, but knows nothing of the database.
#[expect(clippy::disallowed_methods, reason = "a file's time of change is the machine's time")]
fn touch(path: &Path) -> Result<()> {
    let file = File::options().append(true).open(path);
    file.and_then(|file| file.set_modified(SystemTime::now())).with_context(|| format!("touching {}", path.display()))
}

/// Applies the migrations in the order of their names, each in a transaction unless it says, as for sqlx, `--
/// no-transaction`.
fn migrate(postgres: &Postgres) -> Result<()> {
    for file in entries(&workspace::root().join("migrations"))? {
        if file.extension().is_none_or(|extension| extension != "sql") {
            continue;
        }
        let text = fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let mut command = Command::new(postgres.bin_dir().join("psql"));
        command
            .args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", postgres.url(), "--file"])
            .arg(&file);
        if !text.starts_with("-- no-transaction") {
            command.arg("--single-transaction");
        }
        let status = command.env("PGOPTIONS", "--client-min-messages=warning").status().context("running psql")?;
        if !status.success() {
            bail!("{} failed", file.display());
        }
    }
    Ok(())
}

/// File name to content, for the query data of a folder that may not exist.
fn read(folder: &Path) -> Result<BTreeMap<String, String>> {
    if !folder.exists() {
        return Ok(BTreeMap::new());
    }
    let mut files = BTreeMap::new();
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("query-") {
            files.insert(name, fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?);
        }
    }
    Ok(files)
}

fn replace(folder: &Path, old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Result<ExitCode> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        fs::remove_file(folder.join(name)).with_context(|| format!("removing {name}"))?;
    }
    for (name, text) in new.iter().filter(|(name, text)| old.get(*name) != Some(*text)) {
        fs::write(folder.join(name), text).with_context(|| format!("writing {name}"))?;
    }
    println!("{} queries in {}, {} changed", new.len(), folder.display(), drift(old, new).len());
    Ok(ExitCode::SUCCESS)
}

fn compare(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Result<ExitCode> {
    let drift = drift(old, new);
    if drift.is_empty() {
        println!("the query data of {} queries is up to date", new.len());
        return Ok(ExitCode::SUCCESS);
    }
    for line in &drift {
        eprintln!("{line}");
    }
    eprintln!("the query data is out of date: run cargo xtask sqlx-prepare and commit .sqlx");
    Ok(ExitCode::FAILURE)
}

/// One line for each query whose data is missing, left over or different. Different spacing of the same data is no
/// difference.
fn drift(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Vec<String> {
    let parse = |text: &String| serde_json::from_str::<Value>(text).ok();
    let mut lines = Vec::new();
    for (name, text) in new {
        match old.get(name) {
            None => lines.push(format!("missing:  {}", sql(text))),
            Some(committed) if parse(committed).is_none() || parse(committed) != parse(text) => {
                lines.push(format!("changed:  {}", sql(text)));
            }
            Some(_) => {}
        }
    }
    let left = old.iter().filter(|(name, _)| !new.contains_key(*name));
    lines.extend(left.map(|(_, text)| format!("left over: {}", sql(text))));
    lines
}

/// The beginning of a query's text on one line.
fn sql(data: &str) -> String {
    let value: Value = serde_json::from_str(data).unwrap_or_default();
    let words: Vec<&str> = value["query"].as_str().unwrap_or("(unreadable)").split_whitespace().collect();
    let line = words.join(" ");
    line.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        entries.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect()
    }

    #[test]
    fn drift_names_missing_changed_and_left_over_queries() {
        let old = data(&[("a", r#"{"query":"SELECT\n  1","n":1}"#), ("b", r#"{"query":"B"}"#), ("d", "{broken")]);
        let new =
            data(&[("a", r#"{"query":"SELECT\n  1","n":2}"#), ("c", r#"{"query":"C"}"#), ("d", r#"{"query":"D"}"#)]);
        assert_eq!(drift(&old, &new), ["changed:  SELECT 1", "missing:  C", "changed:  D", "left over: B"]);
    }

    #[test]
    fn the_same_data_in_another_spelling_is_no_drift() {
        let old = data(&[("a", "{\"query\": \"A\",\n \"n\": 1}\n")]);
        assert_eq!(drift(&old, &data(&[("a", r#"{"n":1,"query":"A"}"#)])), Vec::<String>::new());
    }
}
