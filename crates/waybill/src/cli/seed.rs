//! `waybill seed`: what somebody needs who tries a deployment out.

use crate::dev;
use anyhow::Context as _;
use clap::Args;
use std::{path::PathBuf, process::ExitCode};

#[derive(Args)]
pub(crate) struct SeedArgs {
    /// Folder that keeps the key, so that seeding again prints the same one
    #[arg(long, default_value = ".waybill")]
    dir: PathBuf,
    /// Address of the API as people reach it
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    api: String,
    /// Address of the provider sink as people reach it
    #[arg(long, default_value = "http://127.0.0.1:8025")]
    mailbox: String,
}

pub(super) async fn run(args: SeedArgs) -> anyhow::Result<ExitCode> {
    let store = super::store().await?;
    std::fs::create_dir_all(&args.dir).with_context(|| format!("creating {}", args.dir.display()))?;
    let key = dev::seed(&store, &args.dir).await?;
    println!("{}", text(&args, &key));
    Ok(ExitCode::SUCCESS)
}

fn text(SeedArgs { api, mailbox, .. }: &SeedArgs, key: &str) -> String {
    format!(
        "
Waybill runs.

  API       {api}            (OpenAPI: /openapi.json)
  Mailbox   {mailbox}/mailbox    <- open this in a browser
  Key       {key}

Post a purchase order for three recipients:

  curl -X POST {api}/events -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' -d @examples/purchase-order.json

Then see its story with the job's id from the answer:

  curl {api}/jobs/JOB_ID -H 'Authorization: Bearer {key}'
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_name_key_and_addresses() {
        let args = SeedArgs { dir: PathBuf::new(), api: "http://a:1".into(), mailbox: "http://m:2".into() };
        let text = text(&args, "wb_live_x");
        assert!(text.contains("\n  Key       wb_live_x\n") && text.contains("http://m:2/mailbox"), "{text}");
        assert!(text.contains("curl -X POST http://a:1/events -H 'Authorization: Bearer wb_live_x'"), "{text}");
    }
}
