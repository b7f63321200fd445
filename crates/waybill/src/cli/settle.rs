//! `waybill settle`: what a person found out about a delivery whose outcome nobody could know.

use anyhow::bail;
use clap::Args;
use std::process::ExitCode;
use waybill_core::ids::DeliveryId;
use waybill_store::SettleByHand;

#[derive(Args)]
#[command(group(clap::ArgGroup::new("word").required(true).args(["sent_by", "resend"])))]
pub(crate) struct SettleArgs {
    delivery: DeliveryId,
    /// The provider has it (its own log or console says so): counts as sent, nothing goes out again
    #[arg(long, value_name = "PROVIDER")]
    sent_by: Option<String>,
    /// The provider's id of the mail, if known
    #[arg(long, requires = "sent_by")]
    message_id: Option<String>,
    /// The provider does not have it, or a second copy is wanted: it is sent again
    #[arg(long)]
    resend: bool,
}

pub(super) async fn run(args: SettleArgs) -> anyhow::Result<ExitCode> {
    let store = super::store().await?;
    let settle = match args.sent_by {
        Some(provider) => SettleByHand::Sent { provider, provider_message_id: args.message_id },
        None => SettleByHand::Resend,
    };
    if !store.settle_by_hand(args.delivery, &settle).await? {
        bail!("{} is not UNKNOWN: see `waybill dlq show {}`", args.delivery, args.delivery);
    }
    println!("{}", if args.resend { "goes out with the scheduler's next round" } else { "counts as sent" });
    Ok(ExitCode::SUCCESS)
}
