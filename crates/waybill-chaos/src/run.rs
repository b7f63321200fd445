//! The order of it all: load and script side by side, healing, waiting, putting dead letters back, the balance.

use std::{sync::Arc, sync::atomic::Ordering, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    books::{self, Kind},
    faults::{Done, Faults},
    ledger,
    load::Load,
    script::{Profile, Step},
    world::World,
};

const UP_WITHIN: Duration = Duration::from_secs(90);
/// After healing: queue messages that were lost are found after 16 s, an order that is blocked later still.
const END_WITHIN: Duration = Duration::from_secs(180);
const POSTED_WITHIN: Duration = Duration::from_secs(180);
const PROGRESS: Duration = Duration::from_secs(5);

pub(crate) struct Report {
    json: Value,
    kept: bool,
}

impl Report {
    pub(crate) fn to_json(&self) -> String {
        self.json.to_string()
    }

    /// Nothing lost, nothing knowingly doubled, an honest ledger, and something to say so of.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept
    }
}

pub(crate) async fn run(
    profile: Profile,
    seed: u64,
    length: Duration,
    script: &[Step],
    sabotage: bool,
) -> Result<Report> {
    let begun = Instant::now();
    let skew = matches!(profile, Profile::Workers | Profile::Everything);
    let mut world = World::make(skew).await?;
    let mut fleet = world.fleet();
    fleet.heal()?;
    fleet.up(UP_WITHIN).await?;
    eprintln!("== profile {}, seed {seed}, {} s, {} faults", profile.as_str(), length.as_secs(), script.len());
    if skew && !world.skewed {
        eprintln!("   no C compiler: all wall clocks are right");
    }
    let (load, stop) = (Load::new(world.apis.clone(), world.key.clone())?, CancellationToken::new());
    let mut posters = load.start(seed, &stop);
    let watch = watch(&world, &load);
    let done = Faults::new(&mut world, &mut fleet).run(script, Instant::now(), length).await?;
    eprintln!("== everything is healed ({:.0} s)", begun.elapsed().as_secs_f64());
    stop.cancel();
    let posting = Instant::now();
    loop {
        // Whoever could not start while the database was away has to be there for the last posts.
        fleet.heal()?;
        match timeout(Duration::from_secs(1), posters.join_next()).await {
            Ok(Some(ended)) => ended.context("a poster panicked")??,
            Ok(None) => break,
            Err(_) => {
                ensure!(posting.elapsed() < POSTED_WITHIN, "a post is not accepted although everything is healed")
            }
        }
    }
    wait_for_the_end(&world, &mut fleet).await?;
    let dead = ledger::dead_letters(&world.pool).await?;
    if dead > 0 {
        eprintln!("== {dead} dead letters are put back, as an operator would");
        world.operate(&["redrive", "--yes", "--rate", "1000"])?;
        wait_for_the_end(&world, &mut fleet).await?;
    }
    // A doubled mail may come after the last wanted one, and a provider's event after its mail.
    sleep(Duration::from_secs(3)).await;
    let watched = watch.end();
    if sabotage {
        commit_sabotage(&world).await?;
    }
    fleet.kill_all();
    let mut sides = ledger::read(&world.pool, &world.sink, &load.accepted()).await?;
    if sabotage {
        let twice = sides.acceptances.first().cloned().context("nothing to send twice")?;
        sides.acceptances.push(twice);
    }
    let books = books::balance(&sides);
    for story in &books.stories {
        eprintln!("   {story}");
    }
    let known = books.duplicates(Kind::Known);
    let kept =
        books.lost == 0 && known == 0 && books.ledger_faults == 0 && books.misreported == 0 && books.accepted > 0;
    let json = json!({
        "profile": profile.as_str(), "seed": seed, "seconds": length.as_secs(),
        "accepted": books.accepted, "final": books.final_, "lost": books.lost,
        "duplicates_known": known,
        "duplicates_unknown": books.duplicates(Kind::Unknown),
        "duplicates_frozen": books.duplicates(Kind::Frozen),
        "misreported": books.misreported, "ledger_faults": books.ledger_faults,
        "kills": fleet.kills, "pauses": fleet.pauses,
        "lost_answers": world.to_postgres.lost() + world.to_redis.lost(),
        "refused_posts": load.refused.load(Ordering::Relaxed),
        "dead_letters": dead, "clock_skew": world.skewed,
        "max_recovery_s": (watched.longest_recovery(&done) * 10.0).round() / 10.0,
        "faults": done.faults, "run_s": begun.elapsed().as_secs(),
    });
    if kept {
        // What can't be removed is in the target folder and in nobody's way.
        let _ = std::fs::remove_dir_all(&world.folder);
    } else {
        std::fs::write(world.folder.join("stories.txt"), books.stories.join("\n")).context("writing the stories")?;
        eprintln!("   logs and stories: {}", world.folder.display());
    }
    Ok(Report { json, kept })
}

/// What happened when, seen from the sink.
struct Watch {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
    seen: Arc<std::sync::Mutex<Vec<Instant>>>,
}

/// Notes when mails arrive, tells the load how much is open, and says every five seconds how things stand.
fn watch(world: &World, load: &Arc<Load>) -> Watch {
    let (sink, pool, load) = (world.sink.clone(), world.pool.clone(), load.clone());
    let (stop, seen) = (CancellationToken::new(), Arc::new(std::sync::Mutex::new(Vec::new())));
    let (stopped, noted) = (stop.clone(), seen.clone());
    let task = tokio::spawn(async move {
        let (begun, mut told, mut last) = (Instant::now(), Instant::now(), 0);
        while !stopped.is_cancelled() {
            sleep(Duration::from_millis(100)).await;
            let accepted = sink.accepted();
            if accepted > last {
                last = accepted;
                noted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(Instant::now());
            }
            if told.elapsed() >= PROGRESS {
                told = Instant::now();
                let open = timeout(Duration::from_secs(2), ledger::open(&pool)).await.ok().and_then(Result::ok);
                load.open.store(open.unwrap_or(0).unsigned_abs(), Ordering::Relaxed);
                let open = open.map_or("?".to_owned(), |open| open.to_string());
                let posted = load.deliveries();
                eprintln!(
                    "   {:5.0} s: {posted} deliveries accepted, {accepted} mails, {open} open",
                    begun.elapsed().as_secs_f64()
                );
            }
        }
    });
    Watch { stop, task, seen }
}

struct Watched(Vec<Instant>);

impl Watch {
    fn end(self) -> Watched {
        self.stop.cancel();
        self.task.abort();
        Watched(std::mem::take(&mut *self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner)))
    }
}

impl Watched {
    /// The longest time from the end of a fault to the next mail, in seconds. A fault after whose end no mail was wanted any more has none.
    fn longest_recovery(&self, done: &Done) -> f64 {
        let next = |end: &Instant| self.0.iter().find(|mail| *mail >= end).map(|mail| (*mail - *end).as_secs_f64());
        done.ends.iter().filter_map(next).fold(0.0, f64::max)
    }
}

/// Until nothing is open, or the time is over; then the books say what is lost.
async fn wait_for_the_end(world: &World, fleet: &mut crate::fleet::Fleet) -> Result<()> {
    let started = Instant::now();
    while started.elapsed() < END_WITHIN {
        // A process may have ended because the database was away when it started.
        fleet.heal()?;
        if ledger::open(&world.pool).await.unwrap_or(1) == 0 {
            return Ok(());
        }
        sleep(Duration::from_millis(200)).await;
    }
    eprintln!("== not everything is final after {} s", END_WITHIN.as_secs());
    for line in ledger::describe_open(&world.pool).await? {
        eprintln!("   {line}");
    }
    Ok(())
}

/// What no fault of a script does: a delivery is gone, and nobody wrote it down.
async fn commit_sabotage(world: &World) -> Result<()> {
    let found: Option<uuid::Uuid> = sqlx::query_scalar("SELECT id FROM deliveries ORDER BY id LIMIT 1")
        .fetch_optional(&world.pool)
        .await
        .context("looking for a delivery")?;
    let id = found.context("nothing was accepted that could be taken away")?;
    for sql in ["DELETE FROM attempts WHERE delivery_id = $1", "DELETE FROM deliveries WHERE id = $1"] {
        sqlx::query(sql).bind(id).execute(&world.pool).await.context("taking a delivery away")?;
    }
    Ok(())
}
