//! Whether every delivery that was accepted was sent, and sent once.

use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

use crate::{process::Waybill, world::World};

/// The balance of one phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Books {
    /// Deliveries of the events that were answered 202.
    pub(crate) wanted: u64,
    /// Wanted and not accepted by a provider, or not recorded as sent.
    pub(crate) lost: u64,
    /// Acceptances beyond the first of a delivery or of an identity.
    pub(crate) duplicates: u64,
}

impl Books {
    pub(crate) fn good(&self) -> bool {
        self.lost + self.duplicates == 0
    }

    pub(crate) fn add(&mut self, other: &Books) {
        self.wanted += other.wanted;
        self.lost += other.lost;
        self.duplicates += other.duplicates;
    }
}

/// How long nothing may be accepted, or recorded, before what is missing counts as lost. A slow machine loses nothing.
const END_WITHIN: Duration = Duration::from_secs(40);

/// Waits until the providers have accepted `wanted` mails of this phase and the database says so too, then compares. Returns the moment of
/// the last acceptance, seen to within a few milliseconds, beside the balance.
pub(crate) async fn balance(world: &World, process: &mut Waybill, wanted: u64) -> Result<(Books, Instant)> {
    let (mut accepted, mut progress) = (0, Instant::now());
    while accepted < wanted && progress.elapsed() < END_WITHIN {
        process.still_runs()?;
        tokio::time::sleep(Duration::from_millis(2)).await;
        let now = world.sink.accepted();
        if now > accepted {
            (accepted, progress) = (now, Instant::now());
        }
    }
    let last = Instant::now();
    let mut open = unsent(world).await?;
    let mut progress = Instant::now();
    while open > 0 && progress.elapsed() < END_WITHIN {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = unsent(world).await?;
        if now < open {
            progress = Instant::now();
        }
        open = now;
    }
    // A doubled mail may come after the last wanted one.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let deliveries = world.sink.acceptances_by_delivery();
    Ok((compare(wanted, open, deliveries.values(), same_identity(world).await?), last))
}

fn compare<'a>(wanted: u64, open: u64, deliveries: impl Iterator<Item = &'a u64>, same_identity: u64) -> Books {
    let (mut distinct, mut repeats) = (0, 0);
    for count in deliveries {
        distinct += 1;
        repeats += count - 1;
    }
    Books { wanted, lost: wanted.saturating_sub(distinct).max(open), duplicates: repeats + same_identity }
}

/// Deliveries of the whole database that were sent although another one of the same identity was.
async fn same_identity(world: &World) -> Result<u64> {
    let more: i64 = sqlx::query_scalar(
        "/* bench */ SELECT count(*) - count(DISTINCT (tenant_id, identity)) FROM deliveries WHERE state = 'SENT'",
    )
    .fetch_one(world.store.pool())
    .await?;
    Ok(more.unsigned_abs())
}

/// Deliveries, jobs and outbox rows of the whole database that are not where they should end.
async fn unsent(world: &World) -> Result<u64> {
    let open: i64 = sqlx::query_scalar(
        "/* bench */ SELECT (SELECT count(*) FROM deliveries WHERE state <> 'SENT') + (SELECT count(*) FROM jobs WHERE state = 'PENDING')
         + (SELECT count(*) FROM outbox)",
    )
    .fetch_one(world.store.pool())
    .await?;
    Ok(open.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_and_doubled_are_told_apart() {
        let good = compare(3, 0, [1, 1, 1].iter(), 0);
        assert_eq!(good, Books { wanted: 3, lost: 0, duplicates: 0 });
        let one_lost_one_doubled = compare(3, 0, [1, 2].iter(), 0);
        assert_eq!(one_lost_one_doubled, Books { wanted: 3, lost: 1, duplicates: 1 });
    }

    #[test]
    fn two_deliveries_of_one_identity_are_a_duplicate_and_an_unrecorded_one_is_lost() {
        assert_eq!(compare(2, 0, [1, 1].iter(), 1).duplicates, 1);
        assert_eq!(compare(2, 1, [1, 1].iter(), 0).lost, 1);
    }
}
