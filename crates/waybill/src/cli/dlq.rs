//! `waybill dlq list|show`: dead letters, by their rows and by what lies on the dead-letter queues.

use super::output::{table, time};
use clap::{Args, Subcommand};
use serde_json::json;
use std::process::ExitCode;
use waybill_core::{
    ids::{DeliveryId, JobId, TenantId},
    ports::QueueName,
    state::Reason,
};
use waybill_local::{LocalQueue, LocalQueueConfig};
use waybill_store::{DeadLetter, DeadLetterFilter};

#[derive(Subcommand)]
pub(crate) enum DlqCommand {
    /// Dead letters, oldest first
    List(ListArgs),
    /// One dead letter with its context, or the messages on the dead-letter queues that could not be read
    Show {
        /// Without it: poison messages
        delivery: Option<DeliveryId>,
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
    let store = super::store().await?;
    match command {
        DlqCommand::List(args) => {
            let filter = args.filter.filter();
            let dead = store.list_dead_letters(&filter, None, i64::from(args.limit)).await?;
            let total = store.count_dead_letters(&filter).await?;
            print_list(&dead, total, args.json);
        }
        DlqCommand::Show { delivery: Some(delivery), json } => {
            let Some(found) = store.load_deliveries(&[delivery]).await?.pop() else {
                anyhow::bail!("there is no delivery {delivery}")
            };
            return super::jobs::run(super::jobs::JobsCommand::Show { job: found.job, json }).await;
        }
        DlqCommand::Show { delivery: None, json } => {
            let queue = LocalQueue::new(store.pool().clone(), LocalQueueConfig { max_receive_count: 5 });
            for name in QueueName::ALL.into_iter().filter(|name| name.dead_letter().is_none()) {
                for message in queue.peek(name, 1_000).await? {
                    let why = message
                        .attributes
                        .iter()
                        .find(|(name, _)| name == "reason")
                        .map_or("moved by the queue", |(_, value)| value.as_str());
                    if json {
                        println!(
                            "{}",
                            json!({"queue": name.as_str(), "id": message.id, "reason": why, "receive_count": message.receive_count, "sent_at": time(message.sent_at), "body": message.body})
                        );
                    } else {
                        println!("{} {} {why}: {}", name.as_str(), time(message.sent_at), message.body);
                    }
                }
            }
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
