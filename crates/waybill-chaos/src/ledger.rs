//! Reads the database's side and the providers' side of the books.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use chrono::{DateTime, Utc};
use sqlx::PgPool;
use uuid::Uuid;
use waybill_core::{
    ids::{AttemptId, DeliveryId, JobId},
    state::DeliveryState,
};
use waybill_sink::Sink;

use crate::{
    books::{Acceptance, Attempt, Delivery, Sides, Wanted},
    load::Accepted,
};

/// What is open, in words: ids, states and times, as they lie in the tables.
pub(crate) async fn describe_open(pool: &PgPool) -> Result<Vec<String>> {
    sqlx::query_scalar(
        "SELECT 'delivery ' || d.id || ' ' || to_jsonb(d) - 'recipient' - 'recipient_name' - 'recipient_key'
                || ' sends ' || coalesce((SELECT to_jsonb(s)::text FROM sends s WHERE s.tenant_id = d.tenant_id AND s.identity = d.identity), 'none')
                || ' job ' || (SELECT (to_jsonb(j) - 'event' - 'data' - 'recipients')::text FROM jobs j WHERE j.id = d.job_id)
         FROM (SELECT * FROM deliveries WHERE due_at IS NOT NULL ORDER BY id LIMIT 20) d
         UNION ALL SELECT 'job ' || id || ' ' || state FROM jobs WHERE state = 'PENDING'
         UNION ALL SELECT 'outbox ' || o::text FROM outbox o
         UNION ALL (SELECT 'message ' || to_jsonb(q)::text FROM queue_messages q LIMIT 20)
         UNION ALL SELECT 'now ' || now()",
    )
    .fetch_all(pool)
    .await
    .context("describing what is open")
}

/// What is not at its end: deliveries, jobs that were never routed, outbox rows.
pub(crate) async fn open(pool: &PgPool) -> Result<i64> {
    sqlx::query_scalar(
        "SELECT (SELECT count(*) FROM deliveries WHERE due_at IS NOT NULL) + (SELECT count(*) FROM jobs WHERE state = 'PENDING')
              + (SELECT count(*) FROM outbox)",
    )
    .fetch_one(pool)
    .await
    .context("counting what is open")
}

pub(crate) async fn dead_letters(pool: &PgPool) -> Result<i64> {
    sqlx::query_scalar("SELECT count(*) FROM deliveries WHERE dead_lettered_at IS NOT NULL")
        .fetch_one(pool)
        .await
        .context("counting dead letters")
}

pub(crate) async fn read(pool: &PgPool, sink: &Sink, accepted: &[Accepted]) -> Result<Sides> {
    let wanted = accepted
        .iter()
        .map(|accepted| {
            let job: JobId = accepted.job.parse().ok().with_context(|| format!("{} is no job", accepted.job))?;
            Ok(Wanted { job: job.0, recipients: accepted.recipients, comes_back: accepted.comes_back })
        })
        .collect::<Result<_>>()?;
    let rows: Vec<(Uuid, Uuid, String, String, i32, Option<Uuid>)> =
        sqlx::query_as("SELECT id, job_id, encode(identity, 'hex'), state, version, other_id FROM deliveries")
            .fetch_all(pool)
            .await
            .context("reading deliveries")?;
    let deliveries = rows
        .into_iter()
        .map(|(id, job, identity, state, version, other)| {
            Ok(Delivery { id, job, identity, state: word(&state)?, version, other })
        })
        .collect::<Result<_>>()?;
    let rows: Vec<(Uuid, DateTime<Utc>, Option<String>, bool)> = sqlx::query_as(
        "SELECT a.id, a.started_at, a.outcome, coalesce(l.frozen, false) FROM attempts a LEFT JOIN late_results l ON l.attempt_id = a.id",
    )
    .fetch_all(pool)
    .await
    .context("reading attempts")?;
    let attempts = rows
        .into_iter()
        .map(|(id, started_at, outcome, frozen)| (id, Attempt { started_at, outcome, frozen }))
        .collect();
    let told: Vec<(Uuid, DateTime<Utc>)> =
        sqlx::query_as("SELECT delivery_id, min(pg_xact_commit_timestamp(xmin)) FROM chaos.told GROUP BY delivery_id")
            .fetch_all(pool)
            .await
            .context("reading provider events")?;
    let rows: Vec<(Uuid, i32, String)> =
        sqlx::query_as("SELECT delivery_id, version, state FROM ledger ORDER BY delivery_id, version")
            .fetch_all(pool)
            .await
            .context("reading the ledger")?;
    let ledger = rows
        .into_iter()
        .map(|(delivery, version, state)| Ok((delivery, version, word(&state)?)))
        .collect::<Result<_>>()?;
    Ok(Sides {
        wanted,
        deliveries,
        attempts,
        told: told.into_iter().collect::<HashMap<_, _>>(),
        ledger,
        acceptances: taken(sink)?,
    })
}

fn word(state: &str) -> Result<DeliveryState> {
    DeliveryState::parse(state).with_context(|| format!("{state} is no state"))
}

/// Each mail carries the ids of the delivery and of the attempt that made it.
fn taken(sink: &Sink) -> Result<Vec<Acceptance>> {
    sink.mails()
        .iter()
        .map(|mail| {
            let tag = |name: &str| mail.tags.get(name).with_context(|| format!("a mail without the tag {name}"));
            let delivery: DeliveryId = tag("delivery_id")?.parse().ok().context("a strange delivery id")?;
            let attempt: AttemptId = tag("attempt_id")?.parse().ok().context("a strange attempt id")?;
            Ok(Acceptance { at: mail.received_at, delivery: delivery.0, attempt: attempt.0 })
        })
        .collect()
}
