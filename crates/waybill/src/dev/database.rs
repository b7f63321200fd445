//! A PostgreSQL for local mode: the one that `DATABASE_URL` names when it answers, else one of our own below `.waybill/`.

use anyhow::Context as _;
use std::{path::Path, time::Duration};
use waybill_core::ports::{Lock as _, LockRequest};
use waybill_services::{DataDir, Postgres, PostgresOptions, Progress};
use waybill_store::Store;

/// A database to work with; [`Database::stop`] ends what was started.
pub(super) struct Database {
    pub(super) url: String,
    own: Option<Postgres>,
}

pub(super) async fn find_or_start(dir: &Path) -> anyhow::Result<Database> {
    if let Ok(url) = std::env::var("DATABASE_URL") {
        match Store::connect(&url, 1, Duration::from_secs(3)).await {
            Ok(store) => {
                store.pool().close().await;
                println!("PostgreSQL: the one of DATABASE_URL");
                return Ok(Database { url, own: None });
            }
            Err(error) => {
                println!("PostgreSQL: DATABASE_URL is set but does not answer ({error}); starting one of our own")
            }
        }
    }
    let (data, cache) = (dir.join("postgres"), dir.join("cache"));
    let own = tokio::task::spawn_blocking(move || {
        let mut options = PostgresOptions::new(DataDir::Keep(data), cache);
        options.progress = Progress::new(|step| println!("PostgreSQL: {step}"));
        Postgres::start(&options)
    })
    .await
    .context("starting PostgreSQL")??;
    println!("PostgreSQL: our own, in {}", own.folder().display());
    Ok(Database { url: own.url().to_owned(), own: Some(own) })
}

impl Database {
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        if let Some(mut own) = self.own {
            tokio::task::spawn_blocking(move || own.stop()).await.context("stopping PostgreSQL")??;
        }
        Ok(())
    }
}

/// The address in `REDIS_URL` when something answers there; without it the lock of the process is used.
pub(super) async fn reachable_redis() -> Option<String> {
    let url = std::env::var("REDIS_URL").ok()?;
    // A release of nothing that exists is the cheapest question.
    let nothing = LockRequest { key: "notif:is-anybody-there".into(), owner: String::new() };
    let answer = match waybill_redis::RedisLock::connect(&url) {
        Ok(lock) => lock.release(&[nothing]).await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(_) => {
            println!("Redis: the one of REDIS_URL");
            Some(url)
        }
        Err(error) => {
            println!("Redis: REDIS_URL is set but does not answer ({error}); using the lock inside the process");
            None
        }
    }
}
