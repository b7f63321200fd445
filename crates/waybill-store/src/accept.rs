//! Accepting events: job, outbox row and idempotency keys, all or nothing, in one statement for a whole slice of requests.

use crate::{Store, StoreError, ordering::HEAD_LOOK, store::secs};
use chrono::{DateTime, Utc};
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};
use waybill_core::{
    ids::{JobId, TenantId},
    trace::Traceparent,
};

/// How often a slice is tried again after another transaction took one of its keys in between.
const MAX_TRIES: usize = 4;

/// An event that was checked and is about to become durable.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// New and unique; a repeat of the same call with the same id is recognised.
    pub id: JobId,
    pub tenant: TenantId,
    pub event_id: String,
    pub source: String,
    pub event_type: String,
    pub subject: Option<String>,
    pub event_time: Option<DateTime<Utc>>,
    pub revision: String,
    pub revision_number: Option<i64>,
    /// The event named no revision; `revision` is made of its data.
    pub revision_by_content: bool,
    pub ordering_key: Option<String>,
    /// JSON text.
    pub recipients: String,
    /// JSON text, numbers as received.
    pub data: String,
    pub expires_at: Option<DateTime<Utc>>,
    pub trace: Option<Traceparent>,
    /// One or two hashes; each is unique within the tenant.
    pub keys: Vec<[u8; 32]>,
    /// Two posts with one key must agree in it.
    pub fingerprint: [u8; 32],
}

/// What became of one [`NewJob`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// Stored, with its outbox row.
    New,
    /// The same request was accepted before, as this job. Nothing was written.
    Replay { job: JobId },
    /// A key was used before for a different request (or the two keys for two different ones). Nothing was written.
    KeyReused { job: JobId },
    /// Another transaction holds a key at this moment; nobody knows yet how it ends. Only for a slice of one.
    Busy,
}

#[derive(Debug, Clone)]
pub struct AcceptOptions {
    /// The outbox relay leaves the row to the caller, who publishes right after the commit, for this long.
    pub outbox_grace: Duration,
    /// A job that nobody routed for this long is published again.
    pub requeue_after: Duration,
    /// A key is kept at least this long.
    pub idempotency_ttl: Duration,
    /// The longest wait for another transaction that holds one of the keys.
    pub lock_timeout: Duration,
}

type Key = (TenantId, [u8; 32]);

/// A key of the slice that a committed job has already.
struct Held {
    key: Key,
    job: JobId,
    fingerprint: Vec<u8>,
}

impl Store {
    /// Accepts a slice of events; one answer per event, in order. One round trip unless another process takes a key meanwhile.
    ///
    /// Repeating a call whose answer was lost is safe: a job that finds its keys held by itself is [`Accepted::New`].
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when a key of the slice was held by another transaction for `lock_timeout`: call again for each event
    /// alone, so that its neighbours commit; alone it is [`Accepted::Busy`]. [`StoreError::Database`] when one event can't be stored
    /// (U+0000, an unknown tenant): nothing was written; again, call for each alone.
    pub async fn accept(&self, jobs: &[NewJob], options: &AcceptOptions) -> Result<Vec<Accepted>, StoreError> {
        let mut answers = vec![Accepted::Busy; jobs.len()];
        let mut open: Vec<usize> = (0..jobs.len()).collect();
        // Each round settles at least the first open event, and in practice all of them.
        while !open.is_empty() {
            let may_insert = without_earlier_twin(jobs, &open);
            let held = match self.accept_round(jobs, &open, &may_insert, options).await {
                Err(StoreError::Conflict { .. }) if jobs.len() == 1 => return Ok(answers),
                other => other?,
            };
            open = settle(jobs, &open, &may_insert, held, &mut answers);
        }
        Ok(answers)
    }

    /// Runs the statement, again if another transaction committed a key between the statement's snapshot and its insert.
    async fn accept_round(
        &self,
        jobs: &[NewJob],
        open: &[usize],
        may_insert: &HashSet<usize>,
        options: &AcceptOptions,
    ) -> Result<Vec<Held>, StoreError> {
        let mut tries = 1;
        loop {
            match self.accept_statement(jobs, open, may_insert, options).await {
                Ok(held) => return Ok(held),
                Err(error) if StoreError::unique_violation(&error) != Some("idempotency_pkey") => {
                    return Err(error.into());
                }
                Err(source) if tries == MAX_TRIES => return Err(StoreError::Conflict { source }),
                Err(_) => tries += 1,
            }
        }
    }

    /// Inserts every job of `may_insert` none of whose keys is held, and says which keys of `open` are.
    ///
    /// The insert into `idempotency` is a plain one: where another transaction holds a key it waits for that one's end (at most
    /// `lock_timeout`), goes on if it rolled back, and fails the whole statement if it committed. Skipping the conflict instead would
    /// leave a job with one of its two keys.
    async fn accept_statement(
        &self,
        jobs: &[NewJob],
        open: &[usize],
        may_insert: &HashSet<usize>,
        options: &AcceptOptions,
    ) -> Result<Vec<Held>, sqlx::Error> {
        let new: Vec<&NewJob> = open.iter().filter(|i| may_insert.contains(i)).map(|i| &jobs[*i]).collect();
        let keys: Vec<(&NewJob, &[u8])> =
            open.iter().flat_map(|i| jobs[*i].keys.iter().map(|key| (&jobs[*i], key.as_slice()))).collect();
        let lock_timeout = format!("{}ms", options.lock_timeout.as_millis().max(1));
        let rows = sqlx::query!(
            r#"
            -- Local to this statement's own transaction. Everything below reads it through `key`, so it is set before the first wait.
            WITH setting AS MATERIALIZED (
                SELECT set_config('lock_timeout', $1, true)
            ), key AS MATERIALIZED (
                SELECT k.* FROM setting,
                    unnest($2::uuid[], $3::uuid[], $4::bytea[], $5::bytea[]) AS k (job_id, tenant_id, key_hash, fingerprint)
            ), held AS MATERIALIZED (
                SELECT k.job_id AS wanted, k.tenant_id, k.key_hash, i.job_id, i.fingerprint
                FROM key k JOIN idempotency i ON i.tenant_id = k.tenant_id AND i.key_hash = k.key_hash
            ), fresh AS MATERIALIZED (
                SELECT j.*
                FROM unnest($6::uuid[], $7::uuid[], $8::text[], $9::text[], $10::text[], $11::text[], $12::timestamptz[],
                            $13::text[], $14::bigint[], $21::bool[], $22::text[], $15::text[], $16::text[], $17::timestamptz[], $24::text[]) WITH ORDINALITY
                    AS j (id, tenant_id, event_id, source, type, subject, event_time,
                          revision, revision_number, revision_by_content, ordering_key, recipients, data, expires_at, traceparent, n)
                WHERE NOT EXISTS (SELECT 1 FROM held WHERE held.wanted = j.id)
            ), new_key AS (
                -- In the order of the keys: two slices that share several of them wait, and do not deadlock.
                INSERT INTO idempotency (tenant_id, key_hash, fingerprint, job_id, expires_at)
                SELECT k.tenant_id, k.key_hash, k.fingerprint, k.job_id, now() + make_interval(secs => $18)
                FROM key k JOIN fresh f ON f.id = k.job_id
                ORDER BY k.tenant_id, k.key_hash
            ), new_job AS (
                -- In the order of the requests, which `seq` keeps.
                INSERT INTO jobs (id, tenant_id, event_id, source, type, subject, event_time,
                                  revision, revision_number, revision_by_content, ordering_key, recipients, data, expires_at, traceparent, due_at,
                                  ordering_due_at)
                SELECT f.id, f.tenant_id, f.event_id, f.source, f.type, f.subject, f.event_time,
                       f.revision, f.revision_number, f.revision_by_content, f.ordering_key, f.recipients, f.data, f.expires_at, f.traceparent,
                       now() + make_interval(secs => $19),
                       CASE WHEN f.ordering_key IS NOT NULL THEN now() + make_interval(secs => $23) END
                FROM fresh f ORDER BY f.n
            ), new_outbox AS (
                INSERT INTO outbox (job_id, tenant_id, publish_after)
                SELECT f.id, f.tenant_id, now() + make_interval(secs => $20) FROM fresh f
            )
            SELECT tenant_id AS "tenant_id!", key_hash AS "key_hash!", job_id AS "job_id!", fingerprint AS "fingerprint!" FROM held
            "#,
            lock_timeout,
            &keys.iter().map(|k| k.0.id.uuid()).collect::<Vec<_>>(),
            &keys.iter().map(|k| k.0.tenant.uuid()).collect::<Vec<_>>(),
            &keys.iter().map(|k| k.1).collect::<Vec<_>>() as &[&[u8]],
            &keys.iter().map(|k| k.0.fingerprint.as_slice()).collect::<Vec<_>>() as &[&[u8]],
            &new.iter().map(|j| j.id.uuid()).collect::<Vec<_>>(),
            &new.iter().map(|j| j.tenant.uuid()).collect::<Vec<_>>(),
            &new.iter().map(|j| j.event_id.as_str()).collect::<Vec<_>>() as &[&str],
            &new.iter().map(|j| j.source.as_str()).collect::<Vec<_>>() as &[&str],
            &new.iter().map(|j| j.event_type.as_str()).collect::<Vec<_>>() as &[&str],
            &new.iter().map(|j| j.subject.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
            &new.iter().map(|j| j.event_time).collect::<Vec<_>>() as &[Option<DateTime<Utc>>],
            &new.iter().map(|j| j.revision.as_str()).collect::<Vec<_>>() as &[&str],
            &new.iter().map(|j| j.revision_number).collect::<Vec<_>>() as &[Option<i64>],
            &new.iter().map(|j| j.recipients.as_str()).collect::<Vec<_>>() as &[&str],
            &new.iter().map(|j| j.data.as_str()).collect::<Vec<_>>() as &[&str],
            &new.iter().map(|j| j.expires_at).collect::<Vec<_>>() as &[Option<DateTime<Utc>>],
            secs(options.idempotency_ttl),
            secs(options.requeue_after),
            secs(options.outbox_grace),
            &new.iter().map(|j| j.revision_by_content).collect::<Vec<_>>(),
            &new.iter().map(|j| j.ordering_key.as_deref()).collect::<Vec<_>>() as &[Option<&str>],
            secs(HEAD_LOOK),
            &new.iter().map(|j| j.trace.as_ref().map(Traceparent::as_str)).collect::<Vec<_>>() as &[Option<&str>],
        )
        .fetch_all(self.db())
        .await?;
        let held = rows.into_iter().filter_map(|row| {
            let hash = row.key_hash.try_into().ok()?;
            Some(Held { key: (row.tenant_id.into(), hash), job: row.job_id.into(), fingerprint: row.fingerprint })
        });
        Ok(held.collect())
    }
}

/// Those events that share no key with an earlier one of the slice. The others may only look.
fn without_earlier_twin(jobs: &[NewJob], open: &[usize]) -> HashSet<usize> {
    let mut seen: HashSet<Key> = HashSet::new();
    let mut out = HashSet::new();
    for index in open {
        let job = &jobs[*index];
        // All keys are noted, also after the first hit.
        let twins = job.keys.iter().filter(|key| !seen.insert((job.tenant, **key))).count();
        if twins == 0 {
            out.insert(*index);
        }
    }
    out
}

/// Answers what the statement decided, as if the events had come one after the other. Returns those that need another round: a twin
/// of an event that turned out to be no new job itself.
fn settle(
    jobs: &[NewJob],
    open: &[usize],
    may_insert: &HashSet<usize>,
    held: Vec<Held>,
    answers: &mut [Accepted],
) -> Vec<usize> {
    let mut known: HashMap<Key, (JobId, Vec<u8>)> = held.into_iter().map(|h| (h.key, (h.job, h.fingerprint))).collect();
    let mut again = Vec::new();
    for index in open {
        let job = &jobs[*index];
        let hits: Vec<_> = job.keys.iter().filter_map(|key| known.get(&(job.tenant, *key))).collect();
        match hits.first() {
            None if may_insert.contains(index) => {
                answers[*index] = Accepted::New;
                for key in &job.keys {
                    known.insert((job.tenant, *key), (job.id, job.fingerprint.to_vec()));
                }
            }
            None => again.push(*index),
            Some((first, _)) => {
                let same = hits.iter().all(|(other, print)| other == first && print.as_slice() == job.fingerprint);
                answers[*index] = match (same, *first == job.id) {
                    (true, true) => Accepted::New,
                    (true, false) => Accepted::Replay { job: *first },
                    (false, _) => Accepted::KeyReused { job: *first },
                };
            }
        }
    }
    again
}

#[cfg(test)]
mod tests;
