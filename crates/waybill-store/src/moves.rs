//! Moves of deliveries that need no claim.

use crate::{Store, StoreError, convert::seconds, store::detail};
use std::time::Duration;
use uuid::Uuid;
use waybill_core::{
    ids::DeliveryId,
    state::{DeliveryState, Reason},
};

/// A move to a final state by a worker that holds no claim.
#[derive(Debug, Clone)]
pub struct MoveRequest {
    pub delivery: DeliveryId,
    /// The version that the decision was made on.
    pub version: i32,
    pub to: FinalMove,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FinalMove {
    Duplicate { of: DeliveryId },
    Superseded { by: DeliveryId },
    Expired,
    Cancelled,
    Suppressed,
    Failed { reason: Reason, detail: String, dead_letter: bool },
}

impl FinalMove {
    pub fn state(&self) -> DeliveryState {
        match self {
            Self::Duplicate { .. } => DeliveryState::Duplicate,
            Self::Superseded { .. } => DeliveryState::Superseded,
            Self::Expired => DeliveryState::Expired,
            Self::Cancelled => DeliveryState::Cancelled,
            Self::Suppressed => DeliveryState::Suppressed,
            Self::Failed { .. } => DeliveryState::Failed,
        }
    }

    pub fn reason(&self) -> Reason {
        match self {
            Self::Duplicate { .. } => Reason::AlreadySent,
            Self::Superseded { .. } => Reason::NewerRevision,
            Self::Expired => Reason::Expired,
            Self::Cancelled => Reason::Cancelled,
            Self::Suppressed => Reason::Suppressed,
            Self::Failed { reason, .. } => *reason,
        }
    }

    fn other(&self) -> Option<Uuid> {
        match self {
            Self::Duplicate { of } => Some(of.0),
            Self::Superseded { by } => Some(by.0),
            Self::Expired | Self::Cancelled | Self::Suppressed | Self::Failed { .. } => None,
        }
    }

    fn detail(&self) -> Option<String> {
        match self {
            Self::Failed { detail: text, .. } => Some(detail(text)),
            Self::Duplicate { .. } | Self::Superseded { .. } | Self::Expired | Self::Cancelled | Self::Suppressed => {
                None
            }
        }
    }

    fn dead_letter(&self) -> bool {
        matches!(self, Self::Failed { dead_letter: true, .. })
    }
}

impl Store {
    /// Moves deliveries that nobody has claimed to a final state. Those whose version is another by now, or that are not claimable,
    /// don't move. Returns those that did.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn finish(&self, moves: &[MoveRequest]) -> Result<Vec<DeliveryId>, StoreError> {
        let ids: Vec<Uuid> = moves.iter().map(|m| m.delivery.0).collect();
        let versions: Vec<i32> = moves.iter().map(|m| m.version).collect();
        let states: Vec<String> = moves.iter().map(|m| m.to.state().as_str().into()).collect();
        let reasons: Vec<String> = moves.iter().map(|m| m.to.reason().as_str().into()).collect();
        let details: Vec<Option<String>> = moves.iter().map(|m| m.to.detail()).collect();
        let others: Vec<Option<Uuid>> = moves.iter().map(|m| m.to.other()).collect();
        let dead: Vec<bool> = moves.iter().map(|m| m.to.dead_letter()).collect();
        let moved = sqlx::query_scalar!(
            r#"
            WITH input AS (
                SELECT * FROM unnest($1::uuid[], $2::int[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::bool[])
                    AS i(delivery, version, state, reason, detail, other, dead)
            ),
            -- Locked in the order of ids, as everywhere: two slices never wait for each other in a circle.
            d AS MATERIALIZED (
                SELECT d.id, i.state, i.reason, i.detail, i.other, i.dead
                FROM deliveries d JOIN input i ON i.delivery = d.id
                WHERE d.version = i.version AND d.state IN ('PENDING', 'WAITING_DOCUMENT', 'RETRYING')
                ORDER BY d.id
                FOR NO KEY UPDATE OF d
            ),
            moved AS (
                UPDATE deliveries
                SET state = d.state, reason = d.reason, detail = d.detail, other_id = d.other, due_at = NULL,
                    dead_lettered_at = CASE WHEN d.dead THEN now() END,
                    version = deliveries.version + 1, updated_at = now()
                FROM d WHERE deliveries.id = d.id
                RETURNING deliveries.id, deliveries.version, deliveries.state, deliveries.reason, deliveries.detail
            )
            INSERT INTO ledger (delivery_id, version, state, reason, detail)
            SELECT id, version, state, reason, detail FROM moved
            RETURNING delivery_id
            "#,
            &ids,
            &versions,
            &states,
            &reasons,
            &details as &[Option<String>],
            &others as &[Option<Uuid>],
            &dead
        )
        .fetch_all(self.db())
        .await?;
        Ok(moved.into_iter().map(DeliveryId).collect())
    }

    /// Puts off when the scheduler looks at claimable deliveries. No move: state and version stay.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn defer(&self, items: &[(DeliveryId, i32, Duration)]) -> Result<(), StoreError> {
        let ids: Vec<Uuid> = items.iter().map(|i| i.0.0).collect();
        let versions: Vec<i32> = items.iter().map(|i| i.1).collect();
        let delays: Vec<f64> = items.iter().map(|i| seconds(i.2)).collect();
        sqlx::query!(
            r#"
            WITH d AS MATERIALIZED (
                SELECT d.id, i.delay
                FROM deliveries d
                JOIN unnest($1::uuid[], $2::int[], $3::float8[]) AS i(delivery, version, delay) ON i.delivery = d.id
                WHERE d.version = i.version AND d.state IN ('PENDING', 'WAITING_DOCUMENT', 'RETRYING')
                ORDER BY d.id
                FOR NO KEY UPDATE OF d
            )
            UPDATE deliveries SET due_at = now() + d.delay * interval '1 second' FROM d WHERE deliveries.id = d.id
            "#,
            &ids,
            &versions,
            &delays
        )
        .execute(self.db())
        .await?;
        Ok(())
    }
}
