//! The outbox relay: publishes the jobs whose API process died, or whose queue was away, between the commit and the publication.

use crate::{
    context::Context,
    publish::{Job, publish},
};
use std::time::Duration;
use tracing::info;
use waybill_store::StoreError;

/// Rows taken at a time.
const LIMIT: i64 = 500;
/// A claimed row that was not published is taken again after this.
const NEXT_TRY: Duration = Duration::from_secs(10);

/// Publishes what is due. Returns how many jobs the queue confirmed.
///
/// # Errors
/// [`StoreError`] when the outbox could not be read.
pub async fn run_once(context: &Context) -> Result<usize, StoreError> {
    let mut published = 0;
    loop {
        let rows = context.store.claim_outbox(LIMIT, NEXT_TRY).await?;
        let jobs: Vec<_> = rows.iter().map(|row| Job::new(row.tenant, row.job)).collect();
        let confirmed = if jobs.is_empty() { 0 } else { publish(context, &jobs).await };
        published += confirmed;
        if confirmed > 0 {
            metrics::counter!("waybill_outbox_relayed_total").increment(confirmed as u64);
            info!(jobs = confirmed, "outbox.relayed");
        }
        if rows.len() < LIMIT as usize || confirmed < jobs.len() {
            return Ok(published);
        }
    }
}
