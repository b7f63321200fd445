//! Claims whose time is over without a result: their worker died, or is frozen.

use crate::{
    Store, StoreError,
    convert::{identity, seconds, to_i32, to_u32, uuids},
    results::REMIND_AFTER,
    store::on_unknown,
};
use std::time::Duration;
use uuid::Uuid;
use waybill_core::{
    identity::Identity,
    ids::{DeliveryId, TenantId},
    outcome::OnUnknown,
};

/// A SENDING delivery whose claim is over: its worker died, or is frozen.
#[derive(Debug, Clone)]
pub struct ExpiredClaim {
    pub delivery: DeliveryId,
    pub tenant: TenantId,
    pub identity: Identity,
    /// Of the claim; nil where the identity was taken away by a fact (then nothing is unknown: see [`Store::expire_claims`]).
    pub token: Uuid,
    /// Whole passes done.
    pub attempts: u32,
    /// Attempts that started and never ended, without this one.
    pub crashes: u32,
    pub position: usize,
    pub tenant_on_unknown: Option<OnUnknown>,
    pub route_on_unknown: Option<OnUnknown>,
}

/// What to do about one [`ExpiredClaim`].
#[derive(Debug, Clone, Copy)]
pub struct ExpireDecision {
    pub delivery: DeliveryId,
    pub token: Uuid,
    /// [`OnUnknown::effective`].
    pub policy: OnUnknown,
    /// How long `reconcile` waits for a provider event.
    pub window: Duration,
}

impl Store {
    /// SENDING deliveries whose claim is over, oldest first.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn list_expired_claims(&self, limit: i64) -> Result<Vec<ExpiredClaim>, StoreError> {
        self.expired_claims(None, limit).await
    }

    /// Those of the given deliveries whose claim is over.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn find_expired_claims(&self, deliveries: &[DeliveryId]) -> Result<Vec<ExpiredClaim>, StoreError> {
        self.expired_claims(Some(uuids(deliveries)), i64::MAX).await
    }

    async fn expired_claims(&self, ids: Option<Vec<Uuid>>, limit: i64) -> Result<Vec<ExpiredClaim>, StoreError> {
        let rows = sqlx::query!(
            r#"
            SELECT d.id, d.tenant_id, d.identity, d.attempts, d.crashes, d.provider_position, t.on_unknown,
                   r.spec ->> 'on_unknown' AS route_on_unknown, s.claim_token AS "token?"
            FROM deliveries d
            JOIN tenants t ON t.id = d.tenant_id
            LEFT JOIN routes r ON r.id = d.route_id AND r.version = d.route_version
            LEFT JOIN sends s ON s.tenant_id = d.tenant_id AND s.identity = d.identity
                             AND s.state = 'claimed' AND s.delivery_id = d.id
            WHERE d.state = 'SENDING' AND d.due_at <= now() AND ($1::uuid[] IS NULL OR d.id = ANY($1))
            ORDER BY d.due_at
            LIMIT $2
            "#,
            ids as Option<Vec<Uuid>>,
            limit
        )
        .fetch_all(self.db())
        .await?;
        rows.into_iter()
            .map(|r| {
                Ok(ExpiredClaim {
                    delivery: DeliveryId(r.id),
                    tenant: TenantId(r.tenant_id),
                    identity: identity(&r.identity)?,
                    token: r.token.unwrap_or_default(),
                    attempts: to_u32(r.attempts),
                    crashes: to_u32(r.crashes),
                    position: to_u32(r.provider_position) as usize,
                    tenant_on_unknown: on_unknown(r.on_unknown.as_deref())?,
                    route_on_unknown: on_unknown(r.route_on_unknown.as_deref())?,
                })
            })
            .collect()
    }

    /// Takes claims away whose time is over. The outcome of such an attempt is unknown:
    /// - `reconcile`: UNKNOWN for `window`; `hold`: UNKNOWN until a person decides;
    /// - `failover`: RETRYING, due now; FAILED `worker_crashed` (a dead letter) when this is crash number `max_crashes`.
    ///
    /// A delivery whose identity was meanwhile made `sent` by a fact about another one is RETRYING and due now: its next claim says
    /// [`crate::Claim::AlreadySent`]. Returns the deliveries that moved. One statement, and one more to look for provider events that
    /// settle them.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn expire_claims(
        &self,
        decisions: &[ExpireDecision],
        max_crashes: u32,
    ) -> Result<Vec<DeliveryId>, StoreError> {
        let deliveries: Vec<Uuid> = decisions.iter().map(|d| d.delivery.0).collect();
        let tokens: Vec<Uuid> = decisions.iter().map(|d| d.token).collect();
        let policies: Vec<String> = decisions.iter().map(|d| d.policy.as_str().into()).collect();
        let windows: Vec<f64> = decisions
            .iter()
            .map(|d| seconds(if d.policy == OnUnknown::Hold { REMIND_AFTER } else { d.window }))
            .collect();
        let moved = sqlx::query_scalar!(
            r#"
            WITH input AS (
                SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::float8[]) AS i(delivery, token, policy, wait)
            ),
            -- Deliveries, then identities, each in their order (see the claim). After both locks the rows are what they are: a result
            -- that came first has ended the claim, and one that comes later finds its token gone.
            d AS MATERIALIZED (
                SELECT id, tenant_id, identity, state, due_at, crashes
                FROM deliveries WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE
            ),
            s AS MATERIALIZED (
                SELECT s.tenant_id, s.identity, s.state, s.delivery_id, s.claim_token, s.claim_expires_at, s.attempt_id
                FROM sends s JOIN d ON d.tenant_id = s.tenant_id AND d.identity = s.identity
                WHERE (SELECT count(*) FROM d) > 0 -- all of d is locked before the first of these
                ORDER BY s.tenant_id, s.identity
                FOR NO KEY UPDATE OF s
            ),
            mine AS MATERIALIZED (
                SELECT DISTINCT ON (d.id) d.id, d.tenant_id, d.identity, s.attempt_id, i.wait,
                       CASE WHEN s.state = 'claimed' AND s.delivery_id = d.id THEN
                                CASE WHEN s.claim_token = i.token AND s.claim_expires_at <= now() THEN
                                         CASE WHEN i.policy <> 'failover' THEN i.policy
                                              WHEN d.crashes + 1 >= $5 THEN 'failed'
                                              ELSE 'retry' END
                                END
                            -- Not its claim any more, although it is SENDING: overtaken.
                            WHEN d.due_at <= now() THEN 'overtaken' END AS becomes
                FROM d
                JOIN s ON s.tenant_id = d.tenant_id AND s.identity = d.identity
                JOIN input i ON i.delivery = d.id
                WHERE d.state = 'SENDING'
                ORDER BY d.id
            ),
            freed AS (
                UPDATE sends
                SET state = CASE WHEN m.becomes IN ('reconcile', 'hold') THEN 'unknown' ELSE 'released' END,
                    claim_token = NULL, claim_expires_at = NULL, attempt_id = NULL
                FROM mine m
                WHERE sends.tenant_id = m.tenant_id AND sends.identity = m.identity
                  AND m.becomes IN ('reconcile', 'hold', 'retry', 'failed')
            ),
            ended AS (
                UPDATE attempts SET ended_at = now(), outcome = CASE m.becomes WHEN 'overtaken' THEN 'overtaken' ELSE 'crashed' END
                FROM mine m
                WHERE attempts.delivery_id = m.id AND attempts.ended_at IS NULL AND m.becomes IS NOT NULL
            ),
            moved AS (
                UPDATE deliveries
                SET state = CASE WHEN m.becomes IN ('reconcile', 'hold') THEN 'UNKNOWN' WHEN m.becomes = 'failed' THEN 'FAILED'
                                 ELSE 'RETRYING' END,
                    due_at = CASE WHEN m.becomes IN ('reconcile', 'hold') THEN now() + m.wait * interval '1 second'
                                  WHEN m.becomes = 'failed' THEN NULL
                                  ELSE now() END,
                    held = m.becomes = 'hold',
                    crashes = deliveries.crashes + CASE m.becomes WHEN 'overtaken' THEN 0 ELSE 1 END,
                    reason = CASE m.becomes WHEN 'failed' THEN 'worker_crashed' END,
                    detail = CASE m.becomes WHEN 'overtaken' THEN 'its identity was sent meanwhile'
                                            ELSE 'the attempt started and never ended' END,
                    dead_lettered_at = CASE m.becomes WHEN 'failed' THEN now() END,
                    version = deliveries.version + 1, updated_at = now()
                FROM mine m WHERE deliveries.id = m.id AND m.becomes IS NOT NULL
                RETURNING deliveries.id, deliveries.version, deliveries.state, deliveries.reason, deliveries.detail
            )
            INSERT INTO ledger (delivery_id, version, state, reason, detail)
            SELECT id, version, state, reason, detail FROM moved
            RETURNING delivery_id
            "#,
            &deliveries,
            &tokens,
            &policies,
            &windows,
            to_i32(max_crashes)
        )
        .fetch_all(self.db())
        .await?;
        let moved: Vec<DeliveryId> = moved.into_iter().map(DeliveryId).collect();
        self.settle_if_possible(&moved).await;
        Ok(moved)
    }
}
