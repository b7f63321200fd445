//! The claim: the one act that makes a worker the only sender of an identity.

use crate::{
    Store, StoreError,
    convert::{seconds, to_u32},
    store::{delivery_state, span},
};
use std::time::Duration;
use uuid::Uuid;
use waybill_core::{
    identity::Identity,
    ids::{AttemptId, DeliveryId, JobId, TenantId},
    state::DeliveryState,
};

/// Asks for the right to send one delivery's identity.
#[derive(Debug, Clone, Copy)]
pub struct ClaimRequest {
    pub delivery: DeliveryId,
    /// Random; names this claim for good.
    pub token: Uuid,
    /// The id of the attempt row that is written with the claim.
    pub attempt: AttemptId,
}

/// The answer to a [`ClaimRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// The caller may send until the claim's expiry; counted from a moment after the call began.
    Granted {
        /// Of the delivery, after the move to SENDING.
        version: i32,
        /// Whole passes before this one.
        attempts: u32,
        /// Index of the provider to start at.
        position: usize,
        /// The identity was claimed before: a late acceptance of an earlier claim may yet end this one ([`Store::holds_claim`]).
        again: bool,
    },
    /// The identity was sent: this delivery is a duplicate of `by`.
    AlreadySent { by: DeliveryId },
    /// Somebody may be sending it, or nobody knows whether it was sent (`unknown`). `by` may be the delivery that asked.
    InProgress {
        /// From now until the claim, or the reconciliation, is over; `None` when the holder moved on at this moment.
        until_in: Option<Duration>,
        by: DeliveryId,
        unknown: bool,
    },
    /// A claim of `by` whose time is over without a result: [`Store::find_expired_claims`] and [`Store::expire_claims`] settle it.
    Expired { by: DeliveryId },
    /// A newer revision of it was sent, by `by`.
    Superseded { by: DeliveryId },
    /// An earlier job of its ordering key, `behind`, is not over. The delivery was put off; the end of that job wakes it.
    NotItsTurn { behind: JobId },
    /// Its job has blocked its ordering key for as long as it may.
    OrderTimedOut,
    /// Another revision of it, that of `by`, is at a provider, or nobody knows whether it was sent.
    RevisionInProgress {
        /// From now until the reconciliation is over; `None`: it is decided soon.
        until_in: Option<Duration>,
        by: DeliveryId,
    },
    /// The delivery is final.
    NotClaimable { state: DeliveryState },
}

/// One row of the claim statement's answer.
struct Answer {
    delivery: Uuid,
    state: String,
    version: i32,
    attempts: i32,
    position: i32,
    granted: bool,
    again: bool,
    own_due: Option<f64>,
    send_state: Option<String>,
    holder: Option<Uuid>,
    claim_left: Option<f64>,
    holder_due: Option<f64>,
    verdict: Option<String>,
    judged: Option<Uuid>,
    verdict_by: Option<Uuid>,
    verdict_wait: Option<f64>,
}

impl Answer {
    fn claim(self) -> Result<(DeliveryId, Claim), StoreError> {
        let id = DeliveryId(self.delivery);
        let state = delivery_state(&self.state)?;
        if let Some(refused) = self.refused_by_gate().filter(|_| state.is_claimable()) {
            return Ok((id, refused));
        }
        let claim = match (state, self.holder.map(DeliveryId)) {
            (DeliveryState::Sending, _) if self.own_due.is_some_and(|due| due <= 0.0) => Claim::Expired { by: id },
            (DeliveryState::Sending | DeliveryState::Unknown, _) => {
                Claim::InProgress { until_in: self.own_due.map(span), by: id, unknown: state == DeliveryState::Unknown }
            }
            (DeliveryState::Pending | DeliveryState::WaitingDocument | DeliveryState::Retrying, Some(by)) => {
                self.refused_or_granted(by)
            }
            (
                DeliveryState::Pending
                | DeliveryState::WaitingDocument
                | DeliveryState::Retrying
                | DeliveryState::Sent
                | DeliveryState::Delivered
                | DeliveryState::Bounced
                | DeliveryState::Complained
                | DeliveryState::Failed
                | DeliveryState::Duplicate
                | DeliveryState::Suppressed
                | DeliveryState::Superseded
                | DeliveryState::Expired
                | DeliveryState::Cancelled,
                _,
            ) => Claim::NotClaimable { state },
        };
        Ok((id, claim))
    }

    /// The words are those of the function `claim_gate`.
    fn refused_by_gate(&self) -> Option<Claim> {
        let by = DeliveryId(self.verdict_by.or(self.judged)?);
        let until_in = self.verdict_wait.map(span);
        match (self.verdict.as_deref()?, self.judged == Some(self.delivery)) {
            ("busy", _) => Some(Claim::RevisionInProgress { until_in, by }),
            ("superseded", true) => Some(Claim::Superseded { by }),
            ("turn", true) => Some(Claim::NotItsTurn { behind: JobId(by.0) }),
            ("timed_out", true) => Some(Claim::OrderTimedOut),
            // The verdict on another delivery of its identity, which asked in the same slice: its own follows at the next look.
            ("superseded" | "turn" | "timed_out", false) => {
                Some(Claim::InProgress { until_in: None, by: DeliveryId(self.judged?), unknown: false })
            }
            _ => None,
        }
    }

    fn refused_or_granted(&self, by: DeliveryId) -> Claim {
        if self.granted {
            return Claim::Granted {
                version: self.version + 1,
                attempts: to_u32(self.attempts),
                position: to_u32(self.position) as usize,
                again: self.again,
            };
        }
        match self.send_state.as_deref() {
            Some("sent") => Claim::AlreadySent { by },
            Some("unknown") => Claim::InProgress { until_in: self.holder_due.map(span), by, unknown: true },
            _ if self.claim_left.is_some_and(|left| left <= 0.0) => Claim::Expired { by },
            _ => Claim::InProgress { until_in: self.claim_left.map(span), by, unknown: false },
        }
    }
}

impl Store {
    /// Claims identities: at most one request per identity, and per lineage (its revisions), is granted, whoever else asks at the same
    /// time. With a claim its delivery becomes SENDING and the attempt row is written, before the first byte goes to a provider. One
    /// statement; one answer per request whose delivery exists, in the order of the requests.
    ///
    /// The claim lasts `ttl` from the statement's start: the caller's own clock has to be read before the call.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer. The claims may have been granted all the same; they expire.
    pub async fn claim(
        &self,
        requests: &[ClaimRequest],
        ttl: Duration,
    ) -> Result<Vec<(DeliveryId, Claim)>, StoreError> {
        let deliveries: Vec<Uuid> = requests.iter().map(|r| r.delivery.0).collect();
        let tokens: Vec<Uuid> = requests.iter().map(|r| r.token).collect();
        let attempts: Vec<Uuid> = requests.iter().map(|r| r.attempt.0).collect();
        let answers = sqlx::query_as!(
            Answer,
            r#"
            WITH input AS (
                SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) WITH ORDINALITY AS i(delivery, token, attempt, ord)
            ),
            -- 1. The deliveries, locked in the order of their ids. Every statement that moves deliveries locks them first and in this
            --    order, and the rows of `sends` after that in the order of their keys: so there is no circle of waiting. What this
            --    returns are the rows as they are once the lock is ours, not as the statement's snapshot saw them.
            d AS MATERIALIZED (
                SELECT d.id, d.tenant_id, d.job_id, d.identity, d.lineage, d.state, d.version, d.attempts, d.provider_position,
                       d.due_at
                FROM deliveries d
                WHERE d.id = ANY($1)
                ORDER BY d.id
                FOR NO KEY UPDATE
            ),
            -- 2. One candidate per identity: ON CONFLICT can't touch a row twice, and only one may win anyway.
            candidate AS MATERIALIZED (
                SELECT DISTINCT ON (d.tenant_id, d.identity) d.*, i.token, i.attempt, j.revision_number, j.created_at, j.seq,
                       j.ordering_key
                FROM d
                JOIN input i ON i.delivery = d.id
                JOIN jobs j ON j.id = d.job_id
                WHERE d.state IN ('PENDING', 'WAITING_DOCUMENT', 'RETRYING')
                ORDER BY d.tenant_id, d.identity, i.ord
            ),
            -- 3. What its other revisions and the jobs before it say. The function locks the lineages, and sees what was committed before it got the locks.
            gate AS MATERIALIZED (
                SELECT g.*
                FROM (SELECT array_agg(id) FILTER (WHERE lineage IS NOT NULL OR ordering_key IS NOT NULL) AS ids FROM candidate) c,
                     claim_gate(c.ids) g
            ),
            -- Whoever has to wait for its turn does so in its row, from this commit on: the end of the job before it can't slip in
            -- between the look and the wait. It wakes it; an hour is for the case that it does not.
            put_off AS (
                UPDATE deliveries SET due_at = now() + interval '1 hour'
                FROM gate g WHERE deliveries.id = g.delivery_id AND g.verdict = 'turn'
            ),
            -- 4. Take the identity if it is free, else write its row as it was: only so RETURNING shows the row that is really there,
            --    one that was committed after our snapshot included, and says exactly why the claim was refused.
            taken AS (
                INSERT INTO sends AS s (tenant_id, identity, state, delivery_id, claim_token, claim_expires_at, attempt_id,
                                        lineage, revision_number, job_created_at, job_seq)
                SELECT c.tenant_id, c.identity, 'claimed', c.id, c.token, now() + $4::float8 * interval '1 second', c.attempt,
                       c.lineage, c.revision_number, c.created_at, c.seq
                FROM candidate c
                LEFT JOIN gate g ON g.delivery_id = c.id
                WHERE g.verdict IS NULL OR g.verdict IN ('again', 'current')
                ORDER BY c.tenant_id, c.identity
                ON CONFLICT (tenant_id, identity) DO UPDATE SET
                    (state, delivery_id, claim_token, claim_expires_at, attempt_id, lineage, revision_number, job_created_at,
                     job_seq) = (
                    SELECT x.state, x.delivery_id, x.claim_token, x.claim_expires_at, x.attempt_id, x.lineage,
                           x.revision_number, x.job_created_at, x.job_seq
                    FROM (VALUES
                        (true, EXCLUDED.state, EXCLUDED.delivery_id, EXCLUDED.claim_token, EXCLUDED.claim_expires_at,
                         EXCLUDED.attempt_id, EXCLUDED.lineage, EXCLUDED.revision_number, EXCLUDED.job_created_at, EXCLUDED.job_seq),
                        (false, s.state, s.delivery_id, s.claim_token, s.claim_expires_at,
                         s.attempt_id, s.lineage, s.revision_number, s.job_created_at,
                         -- A repeat of what was sent last makes everything that was accepted in between older than it.
                         CASE WHEN s.state = 'sent' AND EXISTS (
                                  SELECT FROM gate g WHERE g.delivery_id = EXCLUDED.delivery_id AND g.verdict = 'current')
                              THEN greatest(s.job_seq, EXCLUDED.job_seq) ELSE s.job_seq END)
                    ) AS x(free, state, delivery_id, claim_token, claim_expires_at, attempt_id, lineage, revision_number,
                           job_created_at, job_seq)
                    WHERE x.free = (s.state = 'released' OR (s.state = 'sent' AND EXISTS (
                        SELECT FROM gate g WHERE g.delivery_id = EXCLUDED.delivery_id AND g.verdict = 'again'))))
                RETURNING s.tenant_id, s.identity, s.state, s.delivery_id, s.claim_token, s.claim_expires_at, s.attempt_id,
                          -- Of a row that was there before this statement: the lock of the conflict stands in it.
                          s.xmax::text <> '0' AS again
            ),
            -- 5. Whose row is ours: inserted here, or there before and now with a token of this call. Told from the row alone, because the
            --    planner would join these rows with the candidates by comparing each with each.
            moved AS (
                UPDATE deliveries
                SET state = 'SENDING', reason = NULL, detail = NULL, due_at = t.claim_expires_at, dead_lettered_at = NULL,
                    version = deliveries.version + 1, updated_at = now()
                FROM taken t
                WHERE deliveries.id = t.delivery_id AND (NOT t.again OR t.claim_token = ANY($2))
                RETURNING deliveries.id, deliveries.version, deliveries.state, deliveries.attempts, t.attempt_id, t.claim_token
            ),
            attempt AS (
                INSERT INTO attempts (id, delivery_id, number, claim_token)
                SELECT attempt_id, id, attempts + 1, claim_token FROM moved
            ),
            logged AS (
                INSERT INTO ledger (delivery_id, version, state) SELECT id, version, state FROM moved
            )
            SELECT d.id AS "delivery!", d.state AS "state!", d.version AS "version!", d.attempts AS "attempts!",
                   d.provider_position AS "position!",
                   coalesce(t.claim_token = i.token AND t.delivery_id = d.id, false) AS "granted!",
                   coalesce(t.again, false) AS "again!",
                   extract(epoch FROM d.due_at - now())::float8 AS own_due,
                   t.state AS "send_state?", t.delivery_id AS "holder?",
                   extract(epoch FROM t.claim_expires_at - now())::float8 AS claim_left,
                   extract(epoch FROM holder.due_at - now())::float8 AS holder_due,
                   g.verdict AS "verdict?", g.delivery_id AS "judged?", g.by_id AS "verdict_by?", g.wait AS "verdict_wait?"
            FROM input i
            JOIN d ON d.id = i.delivery
            LEFT JOIN candidate c ON c.tenant_id = d.tenant_id AND c.identity = d.identity
            LEFT JOIN gate g ON g.delivery_id = c.id
            LEFT JOIN taken t ON t.tenant_id = d.tenant_id AND t.identity = d.identity
            LEFT JOIN deliveries holder ON holder.id = t.delivery_id AND t.state = 'unknown'
            ORDER BY i.ord
            "#,
            &deliveries,
            &tokens,
            &attempts,
            seconds(ttl)
        )
        .fetch_all(self.db())
        .await?;
        answers.into_iter().map(Answer::claim).collect()
    }

    /// Whether a claim still stands: nothing took it away (a late acceptance, a person's word), and no provider's event that is here, taken
    /// into account or not yet, says that the delivery was accepted.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn holds_claim(
        &self,
        tenant: TenantId,
        identity: Identity,
        delivery: DeliveryId,
        token: Uuid,
    ) -> Result<bool, StoreError> {
        let held = sqlx::query_scalar!(
            r#"
            SELECT EXISTS (SELECT FROM sends WHERE tenant_id = $1 AND identity = $2 AND state = 'claimed' AND claim_token = $3)
               -- An event is kept in one commit and has its effect in another. In between it is a fact all the same.
               AND NOT EXISTS (SELECT FROM provider_events
                               WHERE delivery_id = $4 AND kind IN ('accepted', 'delivered', 'bounced', 'complained')) AS "held!"
            "#,
            tenant.0,
            &identity.0[..],
            token,
            delivery.0
        )
        .fetch_one(self.db())
        .await?;
        Ok(held)
    }
}
