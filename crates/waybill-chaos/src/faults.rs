//! Carries the script out: starts each fault at its time, ends it at its own.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use sqlx::Connection as _;
use tokio::time::{Instant, sleep_until};
use waybill_sink::{Fault as SinkFault, Provider};

use crate::{
    fleet::{Fleet, Member, signal},
    proxy::{Mode, Proxy},
    script::{Fault, Link, Step, TROUBLES},
    world::World,
};

/// How often fallen processes are looked for.
const LOOK: Duration = Duration::from_millis(500);
/// How long healing may take.
const HEAL: Duration = Duration::from_secs(60);

/// What ends a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Start(Member),
    Continue(Member),
    StartRedis,
    ContinueRedis,
    StartPostgres,
    ContinuePostgres,
    FastDisk,
    Unlock,
    Mend(Link),
    Providers,
}

/// What went wrong, and how often.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) faults: BTreeMap<&'static str, u64>,
    /// When a fault ended: recovery is measured from here.
    pub(crate) ends: Vec<Instant>,
}

pub(crate) struct Faults<'a> {
    world: &'a mut World,
    fleet: &'a mut Fleet,
    ends: Vec<(Instant, End)>,
    /// Held by whoever locks the tables.
    lock: Option<sqlx::PgConnection>,
    /// The backends that were frozen with their server.
    frozen: Vec<u32>,
    done: Done,
}

impl<'a> Faults<'a> {
    pub(crate) fn new(world: &'a mut World, fleet: &'a mut Fleet) -> Self {
        Self { world, fleet, ends: Vec::new(), lock: None, frozen: Vec::new(), done: Done::default() }
    }

    /// Runs the whole script; `begun` is its zero. Then ends what has not ended.
    pub(crate) async fn run(mut self, script: &[Step], begun: Instant, length: Duration) -> Result<Done> {
        let mut steps = script.iter().peekable();
        let end = begun + length;
        while Instant::now() < end {
            let next_step = steps.peek().map(|step| begun + step.at);
            let next_end = self.ends.iter().map(|(at, _)| *at).min();
            let look = Instant::now() + LOOK;
            let next = next_step.into_iter().chain(next_end).fold(look.min(end), Instant::min);
            sleep_until(next).await;
            if next_step.is_some_and(|at| at <= Instant::now())
                && let Some(step) = steps.next()
            {
                eprintln!("   {step}");
                self.begin(step.fault).await.with_context(|| format!("{:?}", step.fault))?;
            }
            self.end_what_is_over().await?;
            self.start_the_fallen()?;
        }
        self.heal().await?;
        Ok(self.done)
    }

    /// Whoever ended by itself is started again, as a supervisor does: a deploy that took its time, or a start without a database.
    fn start_the_fallen(&mut self) -> Result<()> {
        for member in Member::all() {
            if !self.ends.iter().any(|(_, end)| *end == End::Start(member)) {
                self.fleet.start(member)?;
            }
        }
        Ok(())
    }

    fn ends_in(&mut self, after: Duration, end: End) {
        self.ends.push((Instant::now() + after, end));
    }

    async fn begin(&mut self, fault: Fault) -> Result<()> {
        *self.done.faults.entry(name(fault)).or_default() += 1;
        match fault {
            Fault::Kill { member, after } => {
                self.fleet.kill(member)?;
                self.ends_in(after, End::Start(member));
            }
            Fault::Restart { member } => {
                self.fleet.signal(member, "CONT")?;
                self.fleet.signal(member, "TERM")?;
            }
            Fault::Freeze { member, for_ } => {
                self.fleet.signal(member, "STOP")?;
                self.ends_in(for_, End::Continue(member));
            }
            Fault::RedisFlush => self.flush().await,
            Fault::RedisKill { after } => {
                signal(self.world.redis.pid(), "KILL")?;
                self.ends_in(after, End::StartRedis);
            }
            Fault::RedisFreeze { for_ } => {
                signal(self.world.redis.pid(), "STOP")?;
                self.ends_in(for_, End::ContinueRedis);
            }
            Fault::PostgresRestart { immediate, after } => {
                self.thaw()?;
                // QUIT: no checkpoint, no farewell; the next start recovers from the log as after a crash.
                signal(self.world.postgres.pid(), if immediate { "QUIT" } else { "INT" })?;
                self.lock = None;
                self.ends_in(after, End::StartPostgres);
            }
            Fault::PostgresFreeze { for_ } => {
                self.frozen = with_children(self.world.postgres.pid());
                for pid in &self.frozen {
                    signal(*pid, "STOP")?;
                }
                self.ends_in(for_, End::ContinuePostgres);
            }
            Fault::PostgresSlowDisk { for_ } => {
                let _ = self.set_slow_disk(true).await;
                self.ends_in(for_, End::FastDisk);
            }
            Fault::PostgresLocked { for_ } => {
                self.lock_tables().await;
                self.ends_in(for_, End::Unlock);
            }
            Fault::PostgresBackends => self.end_backends().await,
            Fault::Cut { link, for_ } => self.disturb(link, Mode::Cut, for_),
            Fault::CutAnswers { link, for_ } => self.disturb(link, Mode::LoseAnswers, for_),
            Fault::Lag { link, by, for_ } => self.disturb(link, Mode::Lag(by), for_),
            Fault::Provider { trouble, percent, both, for_ } => {
                let kind = TROUBLES[trouble % TROUBLES.len()];
                let providers = if both { vec![Provider::Ses, Provider::SendGrid] } else { vec![Provider::Ses] };
                let faults = providers.into_iter().map(|provider| SinkFault::new(provider, kind).percent(percent));
                self.world.sink.set_faults(faults.collect());
                self.ends_in(for_, End::Providers);
            }
            Fault::QueueRepeat => {
                self.queue("INSERT INTO queue_messages (queue, body, attributes, group_id) SELECT queue, body, attributes, group_id FROM queue_messages WHERE queue IN ('main', 'delivery')").await;
            }
            Fault::QueueDelay { by } => {
                let delay = format!(
                    "UPDATE queue_messages SET visible_at = greatest(visible_at, now()) + interval '{} milliseconds' WHERE queue IN ('main', 'delivery')",
                    by.as_millis()
                );
                self.queue(&delay).await;
            }
            Fault::QueueShuffle => {
                self.queue("UPDATE queue_messages SET visible_at = now() + random() * interval '1 second' WHERE queue IN ('main', 'delivery')").await;
            }
            Fault::QueueLose => {
                self.queue("DELETE FROM queue_messages WHERE queue IN ('main', 'delivery')").await;
            }
        }
        Ok(())
    }

    async fn end_what_is_over(&mut self) -> Result<()> {
        let now = Instant::now();
        let (over, left) = std::mem::take(&mut self.ends).into_iter().partition(|(at, _)| *at <= now);
        self.ends = left;
        let over: Vec<(Instant, End)> = over;
        for (_, end) in over {
            self.end(end).await.with_context(|| format!("{end:?}"))?;
            self.done.ends.push(Instant::now());
        }
        Ok(())
    }

    async fn end(&mut self, end: End) -> Result<()> {
        match end {
            End::Start(member) => self.fleet.start(member)?,
            End::Continue(member) => self.fleet.signal(member, "CONT")?,
            End::StartRedis => self.world.redis.restart().context("starting Redis")?,
            End::ContinueRedis => signal(self.world.redis.pid(), "CONT")?,
            End::StartPostgres => self.world.postgres.restart().context("starting PostgreSQL")?,
            End::ContinuePostgres => self.thaw()?,
            // If it can't be taken back now, healing does.
            End::FastDisk => drop(self.set_slow_disk(false).await),
            End::Unlock => {
                if let Some(lock) = self.lock.take() {
                    // The server may have ended it already.
                    let _ = lock.close().await;
                }
            }
            End::Mend(link) => self.proxy(link).set(Mode::Pass),
            End::Providers => self.world.sink.set_faults(Vec::new()),
        }
        Ok(())
    }

    /// Ends everything that still goes on.
    async fn heal(&mut self) -> Result<()> {
        for (_, end) in std::mem::take(&mut self.ends) {
            self.end(end).await.with_context(|| format!("{end:?}"))?;
        }
        self.done.ends.push(Instant::now());
        self.world.sink.set_faults(Vec::new());
        // A setting that could not be taken back while the server was away.
        let healing = Instant::now();
        while !self.set_slow_disk(false).await {
            ensure!(healing.elapsed() < HEAL, "PostgreSQL does not answer after it was healed");
        }
        self.fleet.heal()
    }

    fn proxy(&self, link: Link) -> &Proxy {
        match link {
            Link::Postgres => &self.world.to_postgres,
            Link::Redis => &self.world.to_redis,
        }
    }

    fn disturb(&mut self, link: Link, mode: Mode, for_: Duration) {
        self.proxy(link).set(mode);
        self.ends_in(for_, End::Mend(link));
    }

    fn thaw(&mut self) -> Result<()> {
        for pid in std::mem::take(&mut self.frozen) {
            signal(pid, "CONT")?;
        }
        Ok(())
    }

    /// Changes the queue's table behind everybody's back. A database that is away has trouble enough.
    async fn queue(&self, sql: &str) {
        self.quietly(sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&self.world.pool)).await;
    }

    /// `commit_delay` makes each flush of the log wait: a slow disk as its users see it.
    async fn set_slow_disk(&self, slow: bool) -> bool {
        let (delay, siblings) = if slow { (100_000, 0) } else { (0, 5) };
        for sql in [
            format!("ALTER SYSTEM SET commit_delay = {delay}"),
            format!("ALTER SYSTEM SET commit_siblings = {siblings}"),
            "SELECT pg_reload_conf()".to_owned(),
        ] {
            if self.quietly(sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&self.world.pool)).await.is_none() {
                return false;
            }
        }
        true
    }

    async fn lock_tables(&mut self) {
        let lock = async {
            let mut connection = self.world.connect().await?;
            sqlx::raw_sql("BEGIN; SET LOCAL lock_timeout = '2s'; LOCK TABLE deliveries, sends IN EXCLUSIVE MODE")
                .execute(&mut connection)
                .await?;
            Ok::<_, anyhow::Error>(connection)
        };
        self.lock = self.quietly(lock).await;
    }

    /// A third of the service's connections, whatever they do.
    async fn end_backends(&self) {
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND pid % 3 = 0";
        self.quietly(sqlx::query(sql).execute(&self.world.pool)).await;
    }

    async fn flush(&self) {
        let flush = async {
            let client = redis::Client::open(self.world.redis.url())?;
            let mut connection = client.get_multiplexed_async_connection().await?;
            redis::cmd("FLUSHALL").query_async::<()>(&mut connection).await
        };
        self.quietly(flush).await;
    }

    /// Bounded; a failure is no news while another fault has the server away.
    async fn quietly<T, E: std::fmt::Display>(&self, doing: impl Future<Output = Result<T, E>>) -> Option<T> {
        match tokio::time::timeout(Duration::from_secs(3), doing).await {
            Ok(Ok(done)) => Some(done),
            Ok(Err(error)) => {
                eprintln!("            not done: {error}");
                None
            }
            Err(_) => {
                eprintln!("            not done within 3 s");
                None
            }
        }
    }
}

fn name(fault: Fault) -> &'static str {
    match fault {
        Fault::Kill { .. } => "kill",
        Fault::Restart { .. } => "restart",
        Fault::Freeze { .. } => "freeze",
        Fault::RedisFlush => "redis_flush",
        Fault::RedisKill { .. } => "redis_kill",
        Fault::RedisFreeze { .. } => "redis_freeze",
        Fault::PostgresRestart { .. } => "postgres_restart",
        Fault::PostgresFreeze { .. } => "postgres_freeze",
        Fault::PostgresSlowDisk { .. } => "postgres_slow_disk",
        Fault::PostgresLocked { .. } => "postgres_locked",
        Fault::PostgresBackends => "postgres_backends",
        Fault::Cut { .. } => "cut",
        Fault::CutAnswers { .. } => "cut_answers",
        Fault::Lag { .. } => "lag",
        Fault::Provider { .. } => "provider",
        Fault::QueueRepeat => "queue_repeat",
        Fault::QueueDelay { .. } => "queue_delay",
        Fault::QueueShuffle => "queue_shuffle",
        Fault::QueueLose => "queue_lose",
    }
}

/// A process and its children: PostgreSQL's backends are in groups of their own.
fn with_children(parent: u32) -> Vec<u32> {
    let mut found = vec![parent];
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Field 4 of proc(5); the name in field 2 may hold anything.
        let of = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        if of == Some(parent) {
            found.push(pid);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_found() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let found = with_children(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&child.id()), "{found:?}");
    }
}
