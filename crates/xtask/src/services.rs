//! The PostgreSQL and the Redis that tests talk to: the caller's if they answer, else our own.

use std::net::{TcpStream, ToSocketAddrs};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use waybill_services::{DataDir, Postgres, PostgresOptions, Progress, Redis, RedisOptions};

use crate::workspace;

/// Servers that stop when this value is dropped, or when we are killed.
pub(crate) struct Services {
    database_url: String,
    redis_url: String,
    pub(crate) postgres: Option<Postgres>,
    _redis: Option<Redis>,
}

impl Services {
    /// Uses `DATABASE_URL` and `REDIS_URL` where they are set and somebody answers there, and starts what is missing.
    pub(crate) fn find_or_start() -> Result<Self> {
        let (postgres, database_url) = match answering("DATABASE_URL", 5432) {
            Some(url) => (None, url),
            None => {
                let postgres = start_postgres()?;
                let url = postgres.url().to_owned();
                (Some(postgres), url)
            }
        };
        let (redis, redis_url) = match answering("REDIS_URL", 6379) {
            Some(url) => (None, url),
            None => {
                let redis = start_redis()?;
                let url = redis.url();
                (Some(redis), url)
            }
        };
        Ok(Self { database_url, redis_url, postgres, _redis: redis })
    }

    /// Makes `command` use these servers, and the committed query data instead of asking a server while compiling.
    pub(crate) fn apply(&self, command: &mut Command) {
        command.env("DATABASE_URL", &self.database_url).env("REDIS_URL", &self.redis_url).env("SQLX_OFFLINE", "true");
    }

    pub(crate) fn urls(&self) -> [(&'static str, &str); 2] {
        [("DATABASE_URL", &self.database_url), ("REDIS_URL", &self.redis_url)]
    }
}

/// A temporary server for tests. It doesn't wait for the disk, because no test loses the machine's power; a killed
/// server loses nothing.
pub(crate) fn start_postgres() -> Result<Postgres> {
    let folder = workspace::target().join("services");
    let mut options = PostgresOptions::new(DataDir::Temporary(folder.join("data")), folder.join("cache"));
    options.settings = [("fsync", "off"), ("full_page_writes", "off"), ("max_connections", "400")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    options.progress = Progress::new(|step| eprintln!("   {step}"));
    let postgres = Postgres::start(&options).context("starting PostgreSQL")?;
    eprintln!("   PostgreSQL {} started (pid {})", postgres.major(), postgres.pid());
    Ok(postgres)
}

fn start_redis() -> Result<Redis> {
    let mut options = RedisOptions::new(workspace::target().join("services/cache"));
    options.progress = Progress::new(|step| eprintln!("   {step}"));
    let redis = Redis::start(&options).context("starting Redis")?;
    eprintln!("   Redis started (pid {})", redis.pid());
    Ok(redis)
}

/// The URL in `variable` if its server can be reached, or if it is of a form that we can't check.
pub(crate) fn answering(variable: &str, default_port: u16) -> Option<String> {
    let url = std::env::var(variable).ok().filter(|url| !url.is_empty())?;
    let Some((host, port)) = address(&url, default_port) else {
        eprintln!("   using {variable} as it is set");
        return Some(url);
    };
    let addresses = (host.as_str(), port).to_socket_addrs().into_iter().flatten();
    let reached = addresses.into_iter().any(|at| TcpStream::connect_timeout(&at, Duration::from_secs(2)).is_ok());
    if reached {
        eprintln!("   using {variable} ({host}:{port})");
        return Some(url);
    }
    eprintln!("   {variable} is set, but nothing answers at {host}:{port}");
    None
}

/// Host and port of `scheme://user:password@host:port/path?query`; `None` without a host (a Unix socket).
fn address(url: &str, default_port: u16) -> Option<(String, u16)> {
    let rest = url.split_once("://")?.1;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host_port = authority.rsplit_once('@').map_or(authority, |(_, after)| after);
    let (host, port) = match host_port.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (host_port, default_port),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_every_form_of_url() {
        let at = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(address("postgres://u:p@127.0.0.1:5433/db?x=y", 5432), at("127.0.0.1", 5433));
        assert_eq!(address("postgres://db.test/x", 5432), at("db.test", 5432));
        assert_eq!(address("redis://:p@w@[::1]:7000", 6379), at("::1", 7000));
        assert_eq!(address("redis://[::1]", 6379), at("::1", 6379));
        assert_eq!(address("postgres:///db?host=/run/postgresql", 5432), None);
        assert_eq!(address("nonsense", 1), None);
    }
}
