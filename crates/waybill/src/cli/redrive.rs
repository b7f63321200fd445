//! `waybill redrive`: dead letters back onto the delivery queue, by filter, at a rate, with a dry run and progress.

use super::dlq::{FilterArgs, print_list};
use anyhow::bail;
use clap::Args;
use std::{
    io::{IsTerminal as _, Write as _},
    process::ExitCode,
};
use waybill_pipeline::redrive::{self, RedriveSummary};

#[derive(Args)]
pub(crate) struct RedriveArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Only lists what would be put back
    #[arg(long)]
    dry_run: bool,
    /// Deliveries a second
    #[arg(long, default_value_t = 50)]
    rate: u32,
    /// Does not ask
    #[arg(long)]
    yes: bool,
    /// The summary as one JSON object in the last line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: RedriveArgs) -> anyhow::Result<ExitCode> {
    if args.rate == 0 {
        bail!("--rate: at least 1 delivery a second");
    }
    let filter = args.filter.filter();
    let operator = super::operator().await?;
    let store = &operator.store;
    let total = store.count_dead_letters(&filter).await?;
    if args.dry_run {
        let listed = store.list_dead_letters(&filter, None, 1_000).await?;
        let already_sent = listed.iter().filter(|d| d.already_sent).count() as u64;
        if args.json {
            let summary = RedriveSummary { matched: total.unsigned_abs(), already_sent, ..RedriveSummary::default() };
            println!("{}", serde_json::to_string(&summary)?);
        } else {
            print_list(&listed, total, false);
            println!(
                "{} would be put back, {already_sent} skipped; nothing was changed",
                total.unsigned_abs().saturating_sub(already_sent)
            );
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !args.yes && !confirmed(total)? {
        println!("nothing was changed");
        return Ok(ExitCode::FAILURE);
    }
    let summary = redrive::run(&operator.context().await?, &filter, args.rate, |now| progress(now, total)).await?;
    eprintln!();
    if args.json {
        println!("{}", serde_json::to_string(&summary)?);
    } else {
        println!(
            "{} of {} put back, {} skipped (sent since), {} no longer dead, {} entries taken off the dead-letter queue",
            summary.queued, summary.matched, summary.already_sent, summary.not_dead, summary.entries_removed
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn confirmed(total: i64) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("{total} dead letter(s) match; say --yes to put them back, or --dry-run to see them");
    }
    print!("put {total} dead letter(s) back? [y/N] ");
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(answer.trim().eq_ignore_ascii_case("y"))
}

fn progress(now: &RedriveSummary, total: i64) {
    const WIDTH: u64 = 30;
    let total = total.unsigned_abs().max(now.matched).max(1);
    let done = (now.matched * WIDTH / total) as usize;
    eprint!("\r[{}{}] {} of {total}", "#".repeat(done), " ".repeat(WIDTH as usize - done), now.matched);
    let _ = std::io::stderr().flush();
}
