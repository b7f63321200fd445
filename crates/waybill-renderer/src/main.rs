//! The program that the runtime `provided.al2023` starts. Settings: `WAYBILL_BUCKET`, and those of the AWS SDK.

use anyhow::{Context, Result, anyhow};
use lambda_runtime::{LambdaEvent, service_fn};
use serde_json::value::RawValue;
use waybill_aws::S3Objects;

#[tokio::main]
async fn main() -> Result<()> {
    // Not to be lowered: at DEBUG and TRACE the libraries below print payloads.
    tracing_subscriber::fmt().json().with_max_level(tracing::Level::INFO).with_ansi(false).init();
    // The default one prints the panic's message, which may hold what was being typeset.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "renderer.panicked");
    }));
    let bucket = std::env::var("WAYBILL_BUCKET").ok().filter(|bucket| !bucket.is_empty());
    let bucket = bucket.context("WAYBILL_BUCKET has to name the bucket of the documents")?;
    let objects = S3Objects::new(&waybill_aws::load(None).await, bucket);
    let objects = &objects;
    lambda_runtime::run(service_fn(async |event: LambdaEvent<Box<RawValue>>| {
        Ok::<_, lambda_runtime::Error>(waybill_renderer::handle(event.payload.get(), objects).await)
    }))
    .await
    .map_err(|error| anyhow!("the Lambda runtime ended: {error}"))
}
