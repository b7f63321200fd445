//! UNKNOWN deliveries: a provider may have them. Events settle them, else the end of their window, else a person.

use crate::{
    Store, StoreError,
    convert::{identity, seconds, to_u32, uuids},
    facts::Acceptance,
    results::{Columns, REMIND_AFTER, Recorded},
};
use std::time::Duration;
use waybill_core::{
    identity::Identity,
    ids::{DeliveryId, TenantId},
    state::DeliveryState,
};

/// An UNKNOWN delivery whose window is over.
#[derive(Debug, Clone)]
pub struct DueUnknown {
    pub delivery: DeliveryId,
    pub tenant: TenantId,
    pub identity: Identity,
    pub version: i32,
    pub attempts: u32,
    pub crashes: u32,
    pub position: usize,
    pub cancelled: bool,
    pub expired: bool,
    /// `unknown`: a provider call's outcome; `crashed`: the worker's.
    pub last_outcome: Option<String>,
}

/// What becomes of an UNKNOWN that no event settled.
#[derive(Debug, Clone)]
pub struct ResolveUnknown {
    pub delivery: DeliveryId,
    pub version: i32,
    /// [`Recorded::Retry`], [`Recorded::Hold`] or [`Recorded::Failed`]; others don't move anything.
    pub to: Recorded,
}

/// What a person found out about an UNKNOWN delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleByHand {
    /// The provider has it.
    Sent { provider: String, provider_message_id: Option<String> },
    /// The provider does not have it, or sending twice is wanted.
    Resend,
}

impl Store {
    /// UNKNOWN deliveries whose window is over and that are not held, oldest first.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn list_due_unknowns(&self, limit: i64) -> Result<Vec<DueUnknown>, StoreError> {
        let rows = sqlx::query!(
            r#"
            SELECT d.id, d.tenant_id, d.identity, d.version, d.attempts, d.crashes, d.provider_position,
                   j.cancel_requested_at IS NOT NULL AS "cancelled!", coalesce(d.expires_at <= now(), false) AS "expired!",
                   (SELECT a.outcome FROM attempts a WHERE a.delivery_id = d.id ORDER BY a.started_at DESC LIMIT 1) AS last_outcome
            FROM deliveries d
            JOIN jobs j ON j.id = d.job_id
            WHERE d.state = 'UNKNOWN' AND d.due_at <= now() AND NOT d.held
            ORDER BY d.due_at
            LIMIT $1
            "#,
            limit
        )
        .fetch_all(self.db())
        .await?;
        rows.into_iter()
            .map(|r| {
                Ok(DueUnknown {
                    delivery: DeliveryId(r.id),
                    tenant: TenantId(r.tenant_id),
                    identity: identity(&r.identity)?,
                    version: r.version,
                    attempts: to_u32(r.attempts),
                    crashes: to_u32(r.crashes),
                    position: to_u32(r.provider_position) as usize,
                    cancelled: r.cancelled,
                    expired: r.expired,
                    last_outcome: r.last_outcome,
                })
            })
            .collect()
    }

    /// Ends unknowns that no event settled. Those that an event did settle become SENT instead. Returns the deliveries that moved as
    /// asked.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn resolve_unknowns(&self, unknowns: &[ResolveUnknown]) -> Result<Vec<DeliveryId>, StoreError> {
        let ids: Vec<DeliveryId> = unknowns.iter().map(|u| u.delivery).collect();
        // Before, so that nothing is re-sent of which an event speaks; an event that comes later finds it RETRYING and settles that.
        self.settle_unknown_by_events(&ids).await?;
        let versions: Vec<i32> = unknowns.iter().map(|u| u.version).collect();
        let c = Columns::of(unknowns.iter().map(|u| &u.to));
        let moved = sqlx::query_scalar!(
            r#"
            WITH input AS (
                SELECT * FROM unnest($1::uuid[], $2::int[], $3::text[], $4::float8[], $5::int[], $6::int[], $7::text[], $8::bool[],
                                     $9::text[])
                    AS i(delivery, version, word, delay, attempts, position, reason, dead, detail)
            ),
            d AS MATERIALIZED (
                SELECT d.id, d.tenant_id, d.identity, i.*
                FROM deliveries d JOIN input i ON i.delivery = d.id
                WHERE d.state = 'UNKNOWN' AND d.version = i.version AND i.word IN ('retry', 'hold', 'failed')
                ORDER BY d.id
                FOR NO KEY UPDATE OF d
            ),
            s AS MATERIALIZED (
                SELECT s.tenant_id, s.identity
                FROM sends s JOIN d ON d.tenant_id = s.tenant_id AND d.identity = s.identity
                -- Not its identity any more: sent by another delivery. Then only the delivery moves, and finds out at its next claim.
                WHERE s.state = 'unknown' AND s.delivery_id = d.id AND (SELECT count(*) FROM d) > 0
                ORDER BY s.tenant_id, s.identity
                FOR NO KEY UPDATE OF s
            ),
            freed AS (
                UPDATE sends SET state = 'released', claim_token = NULL, claim_expires_at = NULL, attempt_id = NULL
                FROM s
                WHERE sends.tenant_id = s.tenant_id AND sends.identity = s.identity
            ),
            moved AS (
                UPDATE deliveries
                SET state = CASE d.word WHEN 'failed' THEN 'FAILED' ELSE 'RETRYING' END,
                    due_at = now() + d.delay * interval '1 second', -- NULL when it failed
                    not_before = now() + d.delay * interval '1 second',
                    held = false, reason = d.reason, detail = d.detail,
                    attempts = coalesce(d.attempts, deliveries.attempts),
                    provider_position = coalesce(d.position, deliveries.provider_position),
                    dead_lettered_at = CASE WHEN d.dead THEN now() END,
                    version = deliveries.version + 1, updated_at = now()
                FROM d WHERE deliveries.id = d.id
                RETURNING deliveries.id, deliveries.version, deliveries.state, deliveries.reason, deliveries.detail
            )
            INSERT INTO ledger (delivery_id, version, state, reason, detail)
            SELECT id, version, state, reason, detail FROM moved
            RETURNING delivery_id
            "#,
            &uuids(&ids),
            &versions,
            &c.words,
            &c.delays as &[Option<f64>],
            &c.attempts as &[Option<i32>],
            &c.positions as &[Option<i32>],
            &c.reasons as &[Option<String>],
            &c.dead,
            &c.details as &[Option<String>]
        )
        .fetch_all(self.db())
        .await?;
        Ok(moved.into_iter().map(DeliveryId).collect())
    }

    /// Held UNKNOWN deliveries that nobody has decided about for a day: for an alert. Each is returned once a day.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn remind_of_held(&self, limit: i64) -> Result<Vec<(DeliveryId, TenantId)>, StoreError> {
        let rows = sqlx::query!(
            r#"
            WITH d AS MATERIALIZED (
                SELECT id FROM deliveries WHERE state = 'UNKNOWN' AND held AND due_at <= now()
                ORDER BY due_at LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED
            )
            UPDATE deliveries SET due_at = now() + $2::float8 * interval '1 second' FROM d WHERE deliveries.id = d.id
            RETURNING deliveries.id, tenant_id
            "#,
            limit,
            seconds(REMIND_AFTER)
        )
        .fetch_all(self.db())
        .await?;
        Ok(rows.into_iter().map(|r| (DeliveryId(r.id), TenantId(r.tenant_id))).collect())
    }

    /// A person's word on an UNKNOWN delivery. Returns whether it was UNKNOWN, and so moved.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn settle_by_hand(&self, delivery: DeliveryId, settle: &SettleByHand) -> Result<bool, StoreError> {
        let Some(unknown) = self.load_deliveries(&[delivery]).await?.pop() else { return Ok(false) };
        if unknown.state != DeliveryState::Unknown {
            return Ok(false);
        }
        match settle {
            SettleByHand::Sent { provider, provider_message_id } => {
                let fact = Acceptance {
                    delivery,
                    provider: provider.clone(),
                    provider_message_id: provider_message_id.clone(),
                    how: "marked as sent by a person",
                    while_sending: false,
                };
                Ok(!self.record_acceptances(&[fact]).await?.is_empty())
            }
            SettleByHand::Resend => {
                let to = Recorded::Hold {
                    delay: Duration::ZERO,
                    position: unknown.provider_position,
                    detail: "to be sent again, decided by a person".into(),
                };
                let request = ResolveUnknown { delivery, version: unknown.version, to };
                let moved = !self.resolve_unknowns(&[request]).await?.is_empty();
                // As with a redrive: it is no longer in anybody's way, and a person wants it sent.
                if moved {
                    sqlx::query!(
                        "UPDATE jobs SET ordering_timed_out = false
                         WHERE id = $1 AND ordering_timed_out AND ordering_due_at IS NULL",
                        unknown.job.0
                    )
                    .execute(self.db())
                    .await?;
                }
                Ok(moved)
            }
        }
    }
}
