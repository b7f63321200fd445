//! What the machine could do at most with the same durability, measured in the same run.

use std::time::Duration;

use anyhow::{Context as _, Result};
use sqlx::PgPool;
use tokio::{task::JoinSet, time::Instant};
use uuid::Uuid;

use crate::{
    load::percentile,
    world::{World, new_id},
};

/// Rows per commit.
const ROWS: usize = 100;
const FOR: Duration = Duration::from_secs(2);
const COMMITS: usize = 100;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Limits {
    /// Rows inserted per second by statements of 100 rows, each its own commit: the best of 2 and of 8 clients.
    pub(crate) rows_per_s: f64,
    /// A commit of one row, one client: the median.
    pub(crate) commit_ms: f64,
}

pub(super) async fn measure(world: &World) -> Result<Limits> {
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(8).connect(&world.database_url).await?;
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS bench_limit (id uuid PRIMARY KEY, owner uuid NOT NULL, state text NOT NULL,
         at timestamptz NOT NULL DEFAULT now())",
    )
    .execute(&pool)
    .await
    .context("making the table of the limit")?;
    let mut best = 0.0_f64;
    for clients in [2, 8] {
        best = best.max(rows_per_s(&pool, clients).await?);
    }
    let limits = Limits { rows_per_s: best, commit_ms: commit_ms_of(&pool).await? };
    sqlx::raw_sql("TRUNCATE bench_limit").execute(&pool).await?;
    pool.close().await;
    Ok(limits)
}

/// The median of a commit of one row, now.
pub(super) async fn commit_ms(world: &World) -> Result<f64> {
    commit_ms_of(world.store.pool()).await
}

async fn rows_per_s(pool: &PgPool, clients: usize) -> Result<f64> {
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..clients {
        let pool = pool.clone();
        tasks.spawn(async move {
            let mut rows = 0;
            while started.elapsed() < FOR {
                insert(&pool, ROWS).await?;
                rows += ROWS;
            }
            Ok::<usize, anyhow::Error>(rows)
        });
    }
    let mut rows = 0;
    while let Some(done) = tasks.join_next().await {
        rows += done.context("a client of the limit panicked")??;
    }
    Ok(rows as f64 / started.elapsed().as_secs_f64())
}

async fn commit_ms_of(pool: &PgPool) -> Result<f64> {
    let mut took = Vec::with_capacity(COMMITS);
    for _ in 0..COMMITS {
        let started = Instant::now();
        insert(pool, 1).await?;
        took.push(started.elapsed().as_secs_f64() * 1_000.0);
    }
    took.sort_unstable_by(f64::total_cmp);
    Ok(percentile(&took, 0.5))
}

async fn insert(pool: &PgPool, rows: usize) -> Result<()> {
    let ids: Vec<Uuid> = (0..rows).map(|_| new_id()).collect();
    sqlx::query(
        "/* bench */ INSERT INTO bench_limit (id, owner, state) SELECT id, id, 'SENT' FROM UNNEST($1::uuid[]) AS t (id)",
    )
    .bind(&ids)
    .execute(pool)
    .await
    .context("inserting for the limit")?;
    Ok(())
}
