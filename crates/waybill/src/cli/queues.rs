//! `waybill queues`: one look at where everything stands.

use super::output::{age, table};
use crate::wiring::Operator;
use clap::Args;
use serde_json::json;
use std::{process::ExitCode, time::Duration};
use waybill_core::ports::QueueName;
use waybill_store::{StateCount, Store};

#[derive(Args)]
pub(crate) struct QueuesArgs {
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Overdue by more than this is stuck.
const STUCK: Duration = Duration::from_secs(120);

pub(super) async fn run(args: QueuesArgs) -> anyhow::Result<ExitCode> {
    let Operator { store, queue, .. } = super::operator().await?;
    let mut queues = Vec::new();
    for name in QueueName::ALL {
        let depth = queue.port.depth(name).await?;
        queues.push((name, depth));
    }
    let outbox = (store.outbox_count().await?, store.outbox_lag().await?);
    let rows = rows(&store).await?;
    if args.json {
        let queues: Vec<_> = queues
            .iter()
            .map(|(name, d)| json!({"queue": name.as_str(), "depth": d.visible, "in_flight": d.in_flight, "delayed": d.delayed, "oldest_age_seconds": d.oldest_age.map(|a| a.as_secs())}))
            .collect();
        let rows: Vec<_> = rows.iter().map(|(what, r)| json!({"rows": what, "state": r.state, "count": r.count, "oldest_age_seconds": r.oldest_age.as_secs()})).collect();
        println!(
            "{}",
            json!({"queues": queues, "outbox": {"count": outbox.0, "oldest_age_seconds": outbox.1.map(|a| a.as_secs())}, "rows": rows})
        );
        return Ok(ExitCode::SUCCESS);
    }
    let lines: Vec<_> = queues
        .iter()
        .map(|(name, d)| {
            vec![
                name.as_str().into(),
                d.visible.to_string(),
                d.in_flight.to_string(),
                d.delayed.to_string(),
                d.oldest_age.map_or("-".into(), age),
            ]
        })
        .collect();
    print!("{}", table(&["queue", "depth", "in flight", "delayed", "oldest"], &lines));
    println!("\noutbox: {} unpublished, oldest {}\n", outbox.0, outbox.1.map_or("-".into(), age));
    let lines: Vec<_> = rows
        .iter()
        .map(|(what, r)| vec![(*what).into(), r.state.clone(), r.count.to_string(), age(r.oldest_age)])
        .collect();
    print!("{}", table(&["rows", "state", "count", "oldest"], &lines));
    Ok(ExitCode::SUCCESS)
}

/// What is open, what is dead and what is stuck.
async fn rows(store: &Store) -> anyhow::Result<Vec<(&'static str, StateCount)>> {
    let mut rows = vec![("jobs", store.pending_job_count().await?)];
    rows.extend(store.open_delivery_counts().await?.into_iter().map(|r| ("deliveries", r)));
    rows.extend(store.open_document_counts().await?.into_iter().map(|r| ("documents", r)));
    let dead = store.count_dead_letters(&waybill_store::DeadLetterFilter::default()).await?;
    rows.push((
        "dead letters",
        StateCount { state: "FAILED".into(), count: dead, oldest_age: oldest_dead(store).await? },
    ));
    rows.extend(store.stuck_counts(STUCK).await?.into_iter().map(|r| ("STUCK", r)));
    rows.retain(|(_, r)| r.count > 0);
    Ok(rows)
}

async fn oldest_dead(store: &Store) -> anyhow::Result<Duration> {
    use waybill_core::clock::Clock as _;
    let first = store.list_dead_letters(&waybill_store::DeadLetterFilter::default(), None, 1).await?;
    let now = crate::system::SystemClock::new().now();
    Ok(first.first().and_then(|d| (now - d.dead_lettered_at).to_std().ok()).unwrap_or_default())
}
