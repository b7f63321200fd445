//! A deployment under load: every process replaced, one after the other.

use crate::support::{Process, World};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

const ROUNDS: usize = 3;
/// Between two events: about 20 a second with the time of the posts.
const PAUSE: Duration = Duration::from_millis(40);
const RECIPIENTS: usize = 2;
/// A reception that a stopping process drops instead of putting it back hides its message for a minute, which shows.
const LONG_VISIBILITY: [(&str, &str); 2] =
    [("WAYBILL_QUEUE_VISIBILITY_MS", "60000"), ("WAYBILL_REQUEUE_AFTER_MS", "120000")];

/// Posts until it is told to stop, as a producer does that comes again after whatever was no answer. Returns the accepted jobs.
async fn post_all_the_time(world: &World, stop: Arc<AtomicBool>) -> Vec<String> {
    let mut jobs = Vec::new();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let event = world.note(&format!("e{number}"), &format!("s{number}"), RECIPIENTS);
        jobs.push(post(world, &event).await);
        tokio::time::sleep(PAUSE).await;
    }
    jobs
}

async fn post(world: &World, event: &serde_json::Value) -> String {
    for _ in 0..600 {
        let request = world.http.post(format!("http://{}/events", world.api)).bearer_auth(&world.key).json(event);
        if let Ok(answer) = request.send().await
            && answer.status().as_u16() == 202
            && let Ok(body) = answer.json::<serde_json::Value>().await
        {
            return body["job_id"].as_str().expect("a job id").to_owned();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the event is not accepted");
}

/// Whether a process could not reach database or queue for a moment, as on a machine that is too busy. What it had in hand comes back when
/// its visibility timeout is over, as it should.
fn had_an_outage(process: &Process) -> bool {
    let log = process.log();
    ["the database is unavailable", "receive_failed"].iter().any(|sign| log.contains(sign))
}

/// SIGTERM, the end with success, and a new one.
async fn replace(world: &World, role: &str, process: &mut Process) -> bool {
    process.signal("TERM");
    let ended = process.wait(Duration::from_secs(10)).await;
    assert!(ended.is_some_and(|status| status.success()), "{role}: {ended:?}\n{}", process.log());
    let outage = had_an_outage(process);
    *process = world.start(role).await;
    outage
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqs_04_a_rolling_restart_under_load_loses_nothing_doubles_nothing_and_dead_letters_nothing() {
    let world = World::with(&LONG_VISIBILITY).await;
    let _scheduler = world.start("scheduler").await;
    let mut processes = Vec::new();
    for role in ["api", "router", "router", "worker", "worker"] {
        processes.push((role, world.start(role).await));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut outages = 0;
    let restarts = async {
        for _ in 0..ROUNDS {
            for (role, process) in &mut processes {
                tokio::time::sleep(Duration::from_millis(300)).await;
                outages += usize::from(replace(&world, role, process).await);
            }
        }
        stop.store(true, Ordering::Relaxed);
    };
    let ((), jobs) = tokio::join!(restarts, post_all_the_time(&world, stop.clone()));
    println!("{} events while {} processes were replaced {ROUNDS} times", jobs.len(), processes.len());
    assert!(jobs.len() > 50, "there was load: {} events", jobs.len());
    let books = world.all_sent_once(&jobs).await;
    assert_eq!(books.deliveries, (jobs.len() * RECIPIENTS) as i64);
    assert_eq!(world.queue.dead_letters().await, 0);
    assert_eq!(world.count("SELECT count(*) FROM attempts WHERE outcome = 'crashed'").await, 0, "no attempt was cut");
    let late = "SELECT count(*) FROM deliveries WHERE sent_at - created_at > interval '45 seconds'";
    let late = world.count(late).await;
    outages += processes.iter().filter(|(_, process)| had_an_outage(process)).count();
    println!("{late} deliveries were late, {outages} processes had an outage");
    assert!(late == 0 || outages > 0, "{late} messages were left invisible");
    world.close().await;
}
