//! `waybill jobs list|show`.

use super::output::{table, time};
use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::json;
use std::process::ExitCode;
use waybill_core::{ids::JobId, state::JobState};
use waybill_store::{DeliveryView, JobFilter, JobView, Store};

#[derive(Subcommand)]
pub(crate) enum JobsCommand {
    /// The newest jobs
    List(ListArgs),
    /// One job with its deliveries, attempts and timeline
    Show {
        job: JobId,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// PENDING, ROUTED, COMPLETED, PARTLY_FAILED, FAILED or CANCELLED
    #[arg(long)]
    status: Option<String>,
    #[arg(long = "type")]
    event_type: Option<String>,
    #[arg(long)]
    subject: Option<String>,
    #[arg(long, default_value_t = 50)]
    limit: u16,
    /// The last job of the page before
    #[arg(long)]
    after: Option<JobId>,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(command: JobsCommand) -> anyhow::Result<ExitCode> {
    let store = super::store().await?;
    match command {
        JobsCommand::List(args) => list(&store, args).await,
        JobsCommand::Show { job, json } => show(&store, job, json).await,
    }
}

async fn list(store: &Store, args: ListArgs) -> anyhow::Result<ExitCode> {
    let status = match args.status.as_deref().map(|s| (s, JobState::parse(s))) {
        Some((word, None)) => bail!(
            "--status {word}: expected one of {}",
            JobState::ALL.iter().map(|s| s.as_str()).collect::<Vec<_>>().join(", ")
        ),
        Some((_, status)) => status,
        None => None,
    };
    let filter = JobFilter { status, event_type: args.event_type, subject: args.subject, ..JobFilter::default() };
    let jobs = store.list_jobs(None, &filter, args.after, i64::from(args.limit)).await?;
    if args.json {
        jobs.iter().for_each(|job| println!("{}", as_json(job)));
    } else {
        let rows: Vec<_> = jobs
            .iter()
            .map(|j| {
                vec![
                    j.id.to_string(),
                    j.status.to_string(),
                    j.event_type.clone(),
                    j.subject.clone().unwrap_or_default(),
                    counts(j),
                    time(j.created_at),
                ]
            })
            .collect();
        print!("{}", table(&["job", "status", "type", "subject", "deliveries", "created"], &rows));
    }
    Ok(ExitCode::SUCCESS)
}

fn counts(job: &JobView) -> String {
    job.deliveries.iter().map(|(state, n)| format!("{n} {state}")).collect::<Vec<_>>().join(", ")
}

fn as_json(job: &JobView) -> serde_json::Value {
    json!({
        "job_id": job.id, "tenant": job.tenant, "status": job.status, "reason": job.reason, "detail": job.detail, "type": job.event_type,
        "subject": job.subject, "event_id": job.event_id, "source": job.source, "created_at": time(job.created_at),
        "deliveries": job.deliveries.iter().map(|(state, n)| (state.to_string(), json!(n))).collect::<serde_json::Map<_, _>>(),
    })
}

async fn show(store: &Store, id: JobId, as_one_json: bool) -> anyhow::Result<ExitCode> {
    let Some(job) = store.find_job(None, id).await? else { bail!("there is no job {id}") };
    let deliveries = store.list_deliveries(id, None, 1_000).await?;
    let ids: Vec<_> = deliveries.iter().map(|d| d.id).collect();
    let ledger = store.list_ledger(&ids).await?;
    let attempts = store.list_attempts(&ids).await?;
    if as_one_json {
        let mut out = as_json(&job);
        out["deliveries"] = deliveries.iter().map(|d| {
            let timeline: Vec<_> = ledger.iter().filter(|l| l.delivery == d.id).map(|l| json!({"version": l.version, "state": l.state, "reason": l.reason, "detail": l.detail, "at": time(l.at)})).collect();
            let attempts: Vec<_> = attempts.iter().filter(|a| a.delivery == d.id).map(|a| json!({"number": a.number, "outcome": a.outcome, "calls": a.calls, "started_at": time(a.started_at)})).collect();
            json!({"delivery_id": d.id, "state": d.state, "reason": d.reason, "detail": d.detail, "attempts": attempts, "timeline": timeline})
        }).collect();
        println!("{out}");
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} {} {} {}", job.id, job.status, job.event_type, job.subject.as_deref().unwrap_or("-"));
    println!(
        "accepted {}{}",
        time(job.created_at),
        job.reason.map(|r| format!(", {r}: {}", job.detail.as_deref().unwrap_or(""))).unwrap_or_default()
    );
    for delivery in &deliveries {
        println!("\n{}", headline(delivery));
        for entry in ledger.iter().filter(|l| l.delivery == delivery.id) {
            let why = entry.reason.map(|r| format!(" {r}")).unwrap_or_default();
            println!("  {} {}{why} {}", time(entry.at), entry.state, entry.detail.as_deref().unwrap_or(""));
        }
        for attempt in attempts.iter().filter(|a| a.delivery == delivery.id) {
            for call in attempt.calls.as_array().into_iter().flatten() {
                println!(
                    "  attempt {}: {} {} {}",
                    attempt.number,
                    call["provider"].as_str().unwrap_or("?"),
                    call["outcome"].as_str().unwrap_or("?"),
                    call["detail"].as_str().unwrap_or("")
                );
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Without the address: it belongs to the tenant, who sees it in the API.
fn headline(d: &DeliveryView) -> String {
    let document =
        d.document.as_ref().map(|doc| format!(", document {} {}", doc.document_type, doc.state)).unwrap_or_default();
    format!("{} {} by {}{document}", d.id, d.state, d.provider.as_deref().unwrap_or("nobody yet"))
}
