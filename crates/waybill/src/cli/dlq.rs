//! `waybill dlq list|show`: dead letters, by their rows and by what lies on the dead-letter queues.

use super::output::{table, time};
use clap::{Args, Subcommand};
use serde_json::json;
use std::process::ExitCode;
use waybill_core::{
    ids::{DeliveryId, JobId, TenantId},
    state::Reason,
};
use waybill_store::{DeadLetter, DeadLetterFilter};

#[derive(Subcommand)]
pub(crate) enum DlqCommand {
    /// Dead letters, oldest first
    List(ListArgs),
    /// One dead letter with its context, or what lies on the dead-letter queues
    ///
    /// Without a delivery it shows the messages of the local queue as they are. SQS shows a message only to who receives it, so there it
    /// shows how many there are, and the messages with --receive.
    Show {
        /// Without it: the dead-letter queues, with the messages that nobody could read
        delivery: Option<DeliveryId>,
        /// SQS: receives up to 1000 messages of each dead-letter queue, hides them for at most 30 s and puts them back. Counts as one
        /// reception of each; that moves nothing, since a dead-letter queue has no other behind it
        #[arg(long, conflicts_with = "delivery")]
        receive: bool,
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    #[arg(long, default_value_t = 100)]
    limit: u16,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

/// Which dead letters; shared with `waybill redrive`.
#[derive(Args)]
pub(crate) struct FilterArgs {
    #[arg(long)]
    tenant: Option<TenantId>,
    /// Such as providers_exhausted, worker_crashed, document_render_failed, document_deadline
    #[arg(long, value_parser = reason)]
    reason: Option<Reason>,
    /// Dead since, RFC 3339
    #[arg(long)]
    since: Option<chrono::DateTime<chrono::Utc>>,
    /// Dead before, RFC 3339
    #[arg(long)]
    until: Option<chrono::DateTime<chrono::Utc>>,
    #[arg(long)]
    job: Option<JobId>,
    #[arg(long)]
    delivery: Option<DeliveryId>,
}

fn reason(text: &str) -> Result<Reason, String> {
    Reason::parse(text).ok_or_else(|| {
        format!("expected one of {}", Reason::ALL.iter().map(|r| r.as_str()).collect::<Vec<_>>().join(", "))
    })
}

impl FilterArgs {
    pub(super) fn filter(&self) -> DeadLetterFilter {
        DeadLetterFilter {
            tenant: self.tenant,
            reason: self.reason,
            since: self.since,
            until: self.until,
            job: self.job,
            delivery: self.delivery,
        }
    }
}

pub(super) async fn run(command: DlqCommand) -> anyhow::Result<ExitCode> {
    match command {
        DlqCommand::List(args) => {
            let store = super::store().await?;
            let filter = args.filter.filter();
            let dead = store.list_dead_letters(&filter, None, i64::from(args.limit)).await?;
            let total = store.count_dead_letters(&filter).await?;
            print_list(&dead, total, args.json);
        }
        DlqCommand::Show { delivery: Some(delivery), json, .. } => {
            let store = super::store().await?;
            let Some(found) = store.load_deliveries(&[delivery]).await?.pop() else {
                anyhow::bail!("there is no delivery {delivery}")
            };
            return super::jobs::run(super::jobs::JobsCommand::Show { job: found.job, json }).await;
        }
        DlqCommand::Show { delivery: None, receive, json } => {
            super::dlq_messages::show(&super::operator().await?, receive, json).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn print_list(dead: &[DeadLetter], total: i64, as_json: bool) {
    if as_json {
        for d in dead {
            println!(
                "{}",
                json!({"delivery_id": d.delivery, "job_id": d.job, "tenant": d.tenant, "reason": d.reason, "detail": d.detail, "type": d.event_type,
                       "attempts": d.attempts, "crashes": d.crashes, "dead_since": time(d.dead_lettered_at), "already_sent": d.already_sent})
            );
        }
        return;
    }
    let row = |d: &DeadLetter| {
        let note = if d.already_sent { "sent since by another delivery; " } else { "" };
        vec![
            d.delivery.to_string(),
            d.job.to_string(),
            d.reason.map_or("-".into(), |r| r.to_string()),
            d.attempts.to_string(),
            time(d.dead_lettered_at),
            format!("{note}{}", d.detail.as_deref().unwrap_or("")),
        ]
    };
    print!(
        "{}",
        table(
            &["delivery", "job", "reason", "attempts", "dead since", "detail"],
            &dead.iter().map(row).collect::<Vec<_>>()
        )
    );
    println!("{total} dead letter(s) in all{}", if total > 0 { "; next: waybill redrive --dry-run" } else { "" });
}
