//! `cargo xtask bench`: what a delivery costs, counted against the promises.
//!
//! Servers and build are here; the load, the counting and the promises are in `waybill-bench`, which drives the released binary.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use waybill_services::{DataDir, Postgres, PostgresOptions, Progress, Redis, RedisOptions};

use crate::args::Args;
use crate::aws::Aws;
use crate::peer;
use crate::workspace::{self, Stopwatch};

pub(crate) const HELP: &str = "\
bench [--quick] [--rate N] [--sqs] [--peer] [--compare] [--pairs N] [--rival PATH]
                          builds the release, counts what a delivery costs (queue, PostgreSQL and Redis round trips, memory), measures
                          speed, and ends with one line of JSON; fails when a promise is broken (see docs/benchmarks.md)
    --quick               under three minutes after the build, without the peer
    --rate N              events per second of the latency phase
    --sqs                 with the queues on an emulator of SQS instead of PostgreSQL: the counts are those of the
                          adapter, the speed is the emulator's
    --peer                then the same load on a BullMQ service in turns with Waybill (bench/peers/bullmq, needs Node.js 20),
                          and the machine's limits beside; part of every run that is not quick
    --compare             nothing but that
    --pairs N             rounds of each side, 5, or 2 when quick
    --rival PATH          with the waybill at PATH, another build, in the peer's place";

pub(crate) fn run(mut args: Args) -> Result<ExitCode> {
    let quick = args.flag("--quick");
    let rate = args.value("--rate")?;
    let sqs = args.flag("--sqs");
    let pairs = args.value("--pairs")?;
    let rival = args.value("--rival")?;
    let compare = args.flag("--compare");
    let peer = args.flag("--peer") || compare || pairs.is_some() || rival.is_some() || !(quick || sqs);
    args.finish()?;
    let watch = Stopwatch::start();
    release_build(&watch)?;
    let node = if peer && rival.is_none() { peer::install(&watch)? } else { None };
    watch.heading("PostgreSQL and Redis");
    let folder = workspace::target().join("services");
    let postgres = start_postgres(&folder)?;
    let redis = Redis::start(&RedisOptions::new(folder.join("cache"))).context("starting Redis")?;
    let aws = if sqs { Some(Aws::find_or_start()?) } else { None };
    watch.heading("load");
    let mut driver = driver(&postgres, &redis);
    driver.args(quick.then_some("--quick")).args(rate.map(|rate| format!("--rate={rate}")));
    driver.args(compare.then_some("--compare"));
    driver.args(peer.then_some("--peer")).args(pairs.map(|pairs| format!("--pairs={pairs}")));
    if let Some(peer) = node {
        driver.env("WAYBILL_BENCH_PEER", peer.folder).env("WAYBILL_BENCH_NODE", peer.node);
    }
    if let Some(rival) = rival {
        driver.env("WAYBILL_BENCH_RIVAL", std::path::absolute(rival)?);
    }
    if let Some(aws) = &aws {
        aws.apply(&mut driver);
        driver.env("WAYBILL_BENCH_SQS", "1");
    }
    let status = driver.status().context("running waybill-bench")?;
    eprintln!("\n== done ({:.0} s)", watch.seconds());
    Ok(workspace::exit_code(status))
}

pub(crate) const SOAK_HELP: &str = "\
soak [--minutes M] [--percent P]
                          builds the release, measures what it can carry, then loads it with P percent of that (70) for M minutes (30) while
                          a provider refuses one request in a hundred, and ends with one line of JSON; fails when memory, files,
                          connections, passing tables or latency grew, or a mail was lost or doubled";

/// `cargo xtask soak`: the same driver and the same servers, for longer and below capacity.
pub(crate) fn soak(mut args: Args) -> Result<ExitCode> {
    let minutes: u32 =
        args.value("--minutes")?.map_or(Ok(30), |n| n.parse()).context("--minutes takes a whole number")?;
    ensure!((1..=1_440).contains(&minutes), "--minutes takes 1 to 1440");
    let percent: u32 =
        args.value("--percent")?.map_or(Ok(70), |n| n.parse()).context("--percent takes a whole number")?;
    ensure!((1..=100).contains(&percent), "--percent takes 1 to 100");
    args.finish()?;
    let watch = Stopwatch::start();
    release_build(&watch)?;
    watch.heading("PostgreSQL and Redis");
    let folder = workspace::target().join("services");
    let postgres = start_postgres(&folder)?;
    let redis = Redis::start(&RedisOptions::new(folder.join("cache"))).context("starting Redis")?;
    watch.heading("load");
    let mut driver = driver(&postgres, &redis);
    driver.arg(format!("--soak={minutes}")).arg(format!("--percent={percent}"));
    let status = driver.status().context("running waybill-bench")?;
    eprintln!("\n== done ({:.0} s)", watch.seconds());
    Ok(workspace::exit_code(status))
}

fn release_build(watch: &Stopwatch) -> Result<()> {
    watch.heading("the release build");
    let built = workspace::cargo(["build", "--release", "--locked", "-p", "waybill", "-p", "waybill-bench"])
        .env("SQLX_OFFLINE", "true")
        .status()
        .context("running cargo build")?;
    ensure!(built.success(), "the release build failed");
    Ok(())
}

/// The driver with what it has to know of the servers and of the binary.
fn driver(postgres: &Postgres, redis: &Redis) -> Command {
    let binaries = workspace::target().join("release");
    let mut driver = Command::new(binaries.join("waybill-bench"));
    driver.env("DATABASE_URL", postgres.url()).env("REDIS_URL", redis.url());
    // Whose CPU is shown beside.
    driver.env("WAYBILL_BENCH_POSTGRES_PID", postgres.pid().to_string());
    driver.env("WAYBILL_BENCH_REDIS_PID", redis.pid().to_string());
    driver.env("WAYBILL_BIN", binaries.join("waybill")).env("WAYBILL_BENCH_DIR", workspace::target().join("bench"));
    driver
}

/// A server of our own, whatever the environment names: its durability is that of production (`fsync` and `synchronous_commit` are on
/// by default), and nobody else's load is in the numbers. Its view of statements is a check of our counters, and it can do without.
fn start_postgres(folder: &std::path::Path) -> Result<Postgres> {
    let start = |libraries: &str| {
        let mut options = PostgresOptions::new(DataDir::Temporary(folder.join("data")), folder.join("cache"));
        options.settings = vec![("shared_preload_libraries".to_owned(), libraries.to_owned())];
        options.progress = Progress::new(|step| eprintln!("   {step}"));
        Postgres::start(&options)
    };
    let postgres = start("pg_stat_statements").or_else(|_| start("")).context("starting PostgreSQL")?;
    eprintln!("   PostgreSQL {} started (pid {}), fsync on", postgres.major(), postgres.pid());
    Ok(postgres)
}
