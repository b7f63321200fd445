//! Results of attempts: by the holder of the claim, or too late.

use crate::{
    Store, StoreError,
    convert::{seconds, storable_json, to_i32},
    facts::Acceptance,
    store::detail,
};
use std::time::Duration;
use uuid::Uuid;
use waybill_core::{
    identity::Identity,
    ids::{AttemptId, DeliveryId, TenantId},
    state::Reason,
};

/// What an attempt (or a piece of a pass) ended in.
#[derive(Debug, Clone)]
pub struct AttemptResult {
    pub delivery: DeliveryId,
    pub tenant: TenantId,
    pub identity: Identity,
    /// The claim's.
    pub token: Uuid,
    pub attempt: AttemptId,
    /// `[{provider, outcome, detail, provider_message_id, ms}]`. U+0000 in it is replaced, as in every text here.
    pub calls: serde_json::Value,
    pub result: Recorded,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// SENT.
    Sent { provider: String, provider_message_id: String },
    /// UNKNOWN for `window`; under `hold` until a person decides. The pass goes on at `position`.
    Unknown { position: usize, window: Duration, hold: bool, detail: String },
    /// RETRYING; `attempts` is the new count.
    Retry { delay: Duration, attempts: u32, position: usize, detail: String },
    /// RETRYING without an attempt burnt.
    Hold { delay: Duration, position: usize, detail: String },
    /// FAILED.
    Failed { reason: Reason, dead_letter: bool, attempts: u32, detail: String },
}

/// How long a held UNKNOWN waits before people are reminded of it.
pub(crate) const REMIND_AFTER: Duration = Duration::from_secs(86_400);

impl Recorded {
    pub fn word(&self) -> &'static str {
        match self {
            Self::Sent { .. } => "sent",
            Self::Unknown { .. } => "unknown",
            Self::Retry { .. } => "retry",
            Self::Hold { .. } => "hold",
            Self::Failed { .. } => "failed",
        }
    }
}

/// Results as columns.
#[derive(Default)]
pub(crate) struct Columns {
    pub(crate) words: Vec<String>,
    pub(crate) providers: Vec<Option<String>>,
    pub(crate) messages: Vec<Option<String>>,
    pub(crate) delays: Vec<Option<f64>>,
    pub(crate) attempts: Vec<Option<i32>>,
    pub(crate) positions: Vec<Option<i32>>,
    pub(crate) held: Vec<bool>,
    pub(crate) reasons: Vec<Option<String>>,
    pub(crate) dead: Vec<bool>,
    pub(crate) details: Vec<Option<String>>,
}

impl Columns {
    pub(crate) fn of<'a>(results: impl Iterator<Item = &'a Recorded>) -> Self {
        let mut columns = Self::default();
        for result in results {
            columns.push(result);
        }
        columns
    }

    fn push(&mut self, result: &Recorded) {
        let (mut sent_by, mut message, mut delay, mut attempts_now, mut position_now) = (None, None, None, None, None);
        let (mut held, mut why, mut dead) = (false, None, false);
        let words = match result {
            Recorded::Sent { provider, provider_message_id } => {
                sent_by = Some(detail(provider));
                message = Some(detail(provider_message_id));
                None
            }
            Recorded::Unknown { position, window, hold, detail } => {
                position_now = Some(to_i32(*position));
                delay = Some(seconds(if *hold { REMIND_AFTER } else { *window }));
                held = *hold;
                Some(detail)
            }
            Recorded::Retry { delay: wait, attempts, position, detail } => {
                delay = Some(seconds(*wait));
                attempts_now = Some(to_i32(*attempts));
                position_now = Some(to_i32(*position));
                Some(detail)
            }
            Recorded::Hold { delay: wait, position, detail } => {
                delay = Some(seconds(*wait));
                position_now = Some(to_i32(*position));
                Some(detail)
            }
            Recorded::Failed { reason, dead_letter, attempts, detail } => {
                attempts_now = Some(to_i32(*attempts));
                why = Some(reason.as_str().to_owned());
                dead = *dead_letter;
                Some(detail)
            }
        };
        self.words.push(result.word().into());
        self.providers.push(sent_by);
        self.messages.push(message);
        self.delays.push(delay);
        self.attempts.push(attempts_now);
        self.positions.push(position_now);
        self.held.push(held);
        self.reasons.push(why);
        self.dead.push(dead);
        self.details.push(words.map(|text| detail(text)));
    }
}

impl Store {
    /// Records results of claims that are still held. Returns whose were; the others are late: [`Store::record_late`].
    ///
    /// One statement; one more when something was not sent, for provider events that came before the result and say otherwise.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer. Repeating the call is safe, with one reservation: if the first call did
    /// its work, the second finds the claims gone and calls the results late.
    pub async fn record_results(&self, results: &[AttemptResult]) -> Result<Vec<DeliveryId>, StoreError> {
        let deliveries: Vec<Uuid> = results.iter().map(|r| r.delivery.0).collect();
        let tokens: Vec<Uuid> = results.iter().map(|r| r.token).collect();
        let calls: Vec<serde_json::Value> = results.iter().map(|r| storable_json(&r.calls)).collect();
        let c = Columns::of(results.iter().map(|r| &r.result));
        let recorded = sqlx::query_scalar!(
            r#"
            WITH input AS (
                SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::jsonb[], $4::text[], $5::text[], $6::text[], $7::float8[],
                                     $8::int[], $9::int[], $10::bool[], $11::text[], $12::bool[], $13::text[])
                    AS i(delivery, token, calls, word, provider, message, delay, attempts, position, held, reason, dead, detail)
            ),
            -- Deliveries in the order of ids, then their identities in the order of keys (see the claim).
            d AS MATERIALIZED (
                SELECT id, tenant_id, identity FROM deliveries WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE
            ),
            -- Apart and by one key: the planner knows nothing of the arrays' length, and as a part of the next join it would compare every
            -- row with every other one.
            result AS MATERIALIZED (
                SELECT d.tenant_id AS tenant, d.identity AS ident, i.* FROM d JOIN input i ON i.delivery = d.id
            ),
            -- The fence: whoever lost the claim (expired and taken away, or overtaken by a fact) finds no row here. Looked at after the
            -- lock, so that of a result and an expiry at the same moment exactly one wins.
            held AS MATERIALIZED (
                SELECT s.attempt_id AS attempt, r.*
                FROM result r
                JOIN sends s ON s.tenant_id = r.tenant AND s.identity = r.ident
                WHERE s.state = 'claimed' AND s.delivery_id = r.delivery AND s.claim_token = r.token
                  AND (SELECT count(*) FROM d) > 0 -- all of d is locked before the first of these
                ORDER BY s.tenant_id, s.identity
                FOR NO KEY UPDATE OF s
            ),
            settled AS (
                UPDATE sends
                SET state = CASE h.word WHEN 'sent' THEN 'sent' WHEN 'unknown' THEN 'unknown' ELSE 'released' END,
                    claim_token = NULL, claim_expires_at = NULL, attempt_id = NULL,
                    provider = h.provider, provider_message_id = h.message,
                    sent_at = CASE h.word WHEN 'sent' THEN now() END
                FROM held h WHERE sends.tenant_id = h.tenant AND sends.identity = h.ident
            ),
            ended AS (
                UPDATE attempts SET ended_at = now(), outcome = h.word, calls = h.calls
                FROM held h WHERE attempts.id = h.attempt
            ),
            moved AS (
                UPDATE deliveries
                SET state = CASE h.word WHEN 'sent' THEN 'SENT' WHEN 'unknown' THEN 'UNKNOWN' WHEN 'failed' THEN 'FAILED'
                                        ELSE 'RETRYING' END,
                    reason = h.reason, detail = h.detail, held = h.held,
                    due_at = now() + h.delay * interval '1 second', -- NULL for the final ones
                    not_before = CASE WHEN h.word IN ('retry', 'hold') THEN now() + h.delay * interval '1 second' END,
                    attempts = coalesce(h.attempts, deliveries.attempts + CASE h.word WHEN 'sent' THEN 1 ELSE 0 END),
                    provider_position = coalesce(h.position, deliveries.provider_position),
                    provider = h.provider, provider_message_id = h.message,
                    sent_at = CASE h.word WHEN 'sent' THEN now() END,
                    dead_lettered_at = CASE WHEN h.dead THEN now() END,
                    version = deliveries.version + 1, updated_at = now()
                FROM held h WHERE deliveries.id = h.delivery
                RETURNING deliveries.id, deliveries.version, deliveries.state, deliveries.reason, deliveries.detail
            )
            INSERT INTO ledger (delivery_id, version, state, reason, detail)
            SELECT id, version, state, reason, detail FROM moved
            RETURNING delivery_id
            "#,
            &deliveries,
            &tokens,
            &calls,
            &c.words,
            &c.providers as &[Option<String>],
            &c.messages as &[Option<String>],
            &c.delays as &[Option<f64>],
            &c.attempts as &[Option<i32>],
            &c.positions as &[Option<i32>],
            &c.held,
            &c.reasons as &[Option<String>],
            &c.dead,
            &c.details as &[Option<String>]
        )
        .fetch_all(self.db())
        .await?;
        let recorded: Vec<DeliveryId> = recorded.into_iter().map(DeliveryId).collect();
        let doubtful: Vec<DeliveryId> = results
            .iter()
            .filter(|r| !matches!(r.result, Recorded::Sent { .. }) && recorded.contains(&r.delivery))
            .map(|r| r.delivery)
            .collect();
        self.settle_if_possible(&doubtful).await;
        Ok(recorded)
    }

    /// Keeps results whose claim was lost. An acceptance among them is a fact all the same: it makes the identity `sent` unless it
    /// already is, and its delivery SENT where that move is legal; every other late result changes nothing. `frozen`: the worker's own
    /// clock had let it call a provider after its claim's end. Two statements when something was accepted, else one.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer. Repeating the call is safe.
    pub async fn record_late(&self, results: &[AttemptResult], frozen: bool) -> Result<(), StoreError> {
        let attempts: Vec<Uuid> = results.iter().map(|r| r.attempt.0).collect();
        let deliveries: Vec<Uuid> = results.iter().map(|r| r.delivery.0).collect();
        let tenants: Vec<Uuid> = results.iter().map(|r| r.tenant.0).collect();
        let identities: Vec<Vec<u8>> = results.iter().map(|r| r.identity.0.to_vec()).collect();
        let words: Vec<String> = results.iter().map(|r| r.result.word().into()).collect();
        let calls: Vec<serde_json::Value> = results.iter().map(|r| storable_json(&r.calls)).collect();
        // The fact first: what must not get lost is that it was sent.
        let facts: Vec<Acceptance> = results.iter().filter_map(acceptance).collect();
        self.record_acceptances(&facts).await?;
        sqlx::query!(
            r#"
            WITH input AS (
                SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bytea[], $5::text[], $6::jsonb[])
                    AS i(attempt, delivery, tenant, identity, word, calls)
            ),
            -- The same locks as whoever else writes attempts: deliveries, then identities.
            d AS MATERIALIZED (
                SELECT id, tenant_id, identity FROM deliveries WHERE id = ANY($2) ORDER BY id FOR NO KEY UPDATE
            ),
            s AS MATERIALIZED (
                SELECT s.identity
                FROM sends s JOIN d ON d.tenant_id = s.tenant_id AND d.identity = s.identity
                WHERE (SELECT count(*) FROM d) > 0
                ORDER BY s.tenant_id, s.identity
                FOR NO KEY UPDATE OF s
            ),
            late AS (
                INSERT INTO late_results (attempt_id, delivery_id, tenant_id, identity, outcome, calls, frozen)
                SELECT i.attempt, i.delivery, i.tenant, i.identity, i.word, i.calls, $7
                FROM input i LEFT JOIN attempts a ON a.id = i.attempt
                -- A result that was recorded after all (its answer got lost, the call was repeated) is not late.
                WHERE (a.outcome IS NULL OR a.outcome IN ('crashed', 'overtaken', 'late'))
                  AND (SELECT count(*) FROM s) >= 0
                ORDER BY i.attempt
                ON CONFLICT (attempt_id) DO NOTHING
                RETURNING attempt_id, calls
            )
            UPDATE attempts SET ended_at = coalesce(ended_at, now()), outcome = 'late', calls = late.calls
            FROM late WHERE attempts.id = late.attempt_id
            "#,
            &attempts,
            &deliveries,
            &tenants,
            &identities,
            &words,
            &calls,
            frozen
        )
        .execute(self.db())
        .await?;
        Ok(())
    }
}

fn acceptance(result: &AttemptResult) -> Option<Acceptance> {
    match &result.result {
        Recorded::Sent { provider, provider_message_id } => Some(Acceptance {
            delivery: result.delivery,
            provider: provider.clone(),
            provider_message_id: Some(provider_message_id.clone()),
            how: "accepted, recorded after the claim was lost",
            while_sending: true,
        }),
        Recorded::Unknown { .. } | Recorded::Retry { .. } | Recorded::Hold { .. } | Recorded::Failed { .. } => None,
    }
}
