//! Acceptances that we learn of otherwise than by the result of a claim that is still held: a late result, a provider event, a person.
//!
//! A fact outranks whatever we believed: it makes the identity `sent` unless it already is, whoever holds its claim, and the delivery
//! SENT from every state that core's `may_become` lets become SENT.

use crate::{Store, StoreError, store::detail};
use uuid::Uuid;
use waybill_core::ids::DeliveryId;

/// A provider has accepted this delivery.
#[derive(Debug, Clone)]
pub(crate) struct Acceptance {
    pub(crate) delivery: DeliveryId,
    pub(crate) provider: String,
    pub(crate) provider_message_id: Option<String>,
    /// How we know, for the ledger.
    pub(crate) how: &'static str,
    /// Whether it counts while an attempt of the delivery is under way. An event does not: the attempt's own result is near.
    pub(crate) while_sending: bool,
}

impl Store {
    /// Records acceptances. Returns the deliveries that became SENT. One statement.
    pub(crate) async fn record_acceptances(&self, facts: &[Acceptance]) -> Result<Vec<DeliveryId>, StoreError> {
        if facts.is_empty() {
            return Ok(Vec::new());
        }
        let deliveries: Vec<Uuid> = facts.iter().map(|f| f.delivery.0).collect();
        let providers: Vec<String> = facts.iter().map(|f| detail(&f.provider)).collect();
        let messages: Vec<Option<String>> =
            facts.iter().map(|f| f.provider_message_id.as_deref().map(detail)).collect();
        let hows: Vec<String> = facts.iter().map(|f| f.how.into()).collect();
        let while_sending: Vec<bool> = facts.iter().map(|f| f.while_sending).collect();
        let sent = sqlx::query_scalar!(
            r#"
            WITH input AS (
                SELECT DISTINCT ON (delivery) *
                FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bool[]) WITH ORDINALITY
                    AS i(delivery, provider, message, how, while_sending, ord)
                ORDER BY delivery, ord
            ),
            -- Deliveries first, in the order of ids (see the claim). The state is looked at after the lock: the snapshot's may be old.
            d AS MATERIALIZED (
                SELECT id, tenant_id, job_id, identity, lineage, state
                FROM deliveries WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE
            ),
            fact AS MATERIALIZED (
                SELECT d.*, i.provider, i.message, i.how, j.revision_number, j.created_at, j.seq
                FROM d
                JOIN input i ON i.delivery = d.id
                JOIN jobs j ON j.id = d.job_id
                WHERE d.state IN ('PENDING', 'WAITING_DOCUMENT', 'RETRYING', 'UNKNOWN', 'FAILED', 'CANCELLED', 'EXPIRED', 'SUPERSEDED')
                   OR (d.state = 'SENDING' AND i.while_sending)
            ),
            -- An insert, so that a row that the snapshot does not show is found too. What is sent already stays as it is.
            sent AS (
                INSERT INTO sends AS s (tenant_id, identity, state, delivery_id, lineage, revision_number, job_created_at, job_seq,
                                        provider, provider_message_id, sent_at)
                SELECT DISTINCT ON (tenant_id, identity)
                       tenant_id, identity, 'sent', id, lineage, revision_number, created_at, seq, provider, message, now()
                FROM fact
                ORDER BY tenant_id, identity, id
                ON CONFLICT (tenant_id, identity) DO UPDATE
                SET state = 'sent', delivery_id = EXCLUDED.delivery_id, claim_token = NULL, claim_expires_at = NULL,
                    attempt_id = NULL, lineage = EXCLUDED.lineage, revision_number = EXCLUDED.revision_number,
                    job_created_at = EXCLUDED.job_created_at, job_seq = EXCLUDED.job_seq, provider = EXCLUDED.provider,
                    provider_message_id = EXCLUDED.provider_message_id, sent_at = now()
                WHERE s.state <> 'sent'
                RETURNING s.tenant_id, s.identity
            ),
            -- The attempt whose claim this takes away. For people who read the history only, so the snapshot's row is good enough.
            overtaken AS (
                UPDATE attempts
                SET ended_at = now(), outcome = 'overtaken'
                FROM sent JOIN sends s ON s.tenant_id = sent.tenant_id AND s.identity = sent.identity
                WHERE attempts.id = s.attempt_id AND attempts.ended_at IS NULL
            ),
            moved AS (
                UPDATE deliveries
                SET state = 'SENT', reason = NULL, detail = NULL, held = false, due_at = NULL, other_id = NULL,
                    dead_lettered_at = NULL, provider = f.provider, provider_message_id = f.message, sent_at = now(),
                    version = deliveries.version + 1, updated_at = now()
                FROM fact f WHERE deliveries.id = f.id
                RETURNING deliveries.id, deliveries.version, deliveries.state, f.how
            )
            INSERT INTO ledger (delivery_id, version, state, detail)
            SELECT id, version, state, how FROM moved
            RETURNING delivery_id
            "#,
            &deliveries,
            &providers,
            &messages as &[Option<String>],
            &hows,
            &while_sending
        )
        .fetch_all(self.db())
        .await?;
        Ok(sent.into_iter().map(DeliveryId).collect())
    }

    /// [`Store::settle_unknown_by_events`] after a commit. Its failure must not pass for a failure of what was committed: the caller would
    /// try again, find its claims gone and take its own results for late ones. Nothing is lost: the events are still unsettled, and
    /// [`Store::settle_feedback`] finds them.
    pub(crate) async fn settle_if_possible(&self, deliveries: &[DeliveryId]) {
        if let Err(error) = self.settle_unknown_by_events(deliveries).await {
            tracing::warn!(
                rows = deliveries.len(),
                error = &error as &dyn std::error::Error,
                "store.settle_left_to_sweeper"
            );
        }
    }

    /// Makes deliveries SENT of which a provider event says that the provider has them: those in UNKNOWN, and every other one that
    /// we believe not to be sent and that is not under way at this moment. Returns them.
    ///
    /// # Errors
    /// [`StoreError`] when the database could not answer.
    pub async fn settle_unknown_by_events(&self, deliveries: &[DeliveryId]) -> Result<Vec<DeliveryId>, StoreError> {
        if deliveries.is_empty() {
            return Ok(Vec::new());
        }
        let told = sqlx::query!(
            r#"
            SELECT DISTINCT ON (e.delivery_id) e.delivery_id AS "delivery!", e.provider, e.provider_message_id
            FROM provider_events e
            JOIN deliveries d ON d.id = e.delivery_id
            WHERE e.delivery_id = ANY($1) AND e.kind IN ('accepted', 'delivered', 'bounced', 'complained')
              AND d.state IN ('PENDING', 'WAITING_DOCUMENT', 'RETRYING', 'UNKNOWN', 'FAILED', 'CANCELLED', 'EXPIRED', 'SUPERSEDED')
            ORDER BY e.delivery_id, e.received_at
            "#,
            &crate::convert::uuids(deliveries)
        )
        .fetch_all(self.db())
        .await?;
        let facts: Vec<Acceptance> = told
            .into_iter()
            .map(|e| Acceptance {
                delivery: DeliveryId(e.delivery),
                provider: e.provider,
                provider_message_id: e.provider_message_id,
                how: "a provider event says that it was accepted",
                while_sending: false,
            })
            .collect();
        self.record_acceptances(&facts).await
    }
}
