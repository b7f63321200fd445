//! The router's decision: a job's documents and deliveries, and the job's move to ROUTED, in one statement.

use crate::{
    Store, StoreError,
    store::{detail, job_state, secs},
};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use std::time::Duration;
use uuid::Uuid;
use waybill_core::{
    ids::{DeliveryId, DocumentId, JobId, RouteId, TenantId},
    route::{Plan, PlannedDelivery, PlannedDocument, Route, RouteSpec},
    state::{JobState, Reason},
    trace::Traceparent,
};

/// Deliveries in one statement. A job with more has a statement of its own: a decision is never split.
const MAX_DELIVERIES: usize = 2_000;

/// A job and what its decision needs.
#[derive(Debug, Clone)]
pub struct RoutableJob {
    pub job: JobId,
    pub tenant: TenantId,
    pub state: JobState,
    pub event_type: String,
    pub subject: Option<String>,
    pub revision: String,
    pub revision_number: Option<i64>,
    /// JSON text.
    pub recipients: String,
    /// JSON text.
    pub data: String,
    pub expires_at: Option<DateTime<Utc>>,
    pub cancelled: bool,
    pub trace: Option<Traceparent>,
    /// Others of its ordering key may wait for its end.
    pub ordered: bool,
    /// The active routes for the event's type, by id.
    pub routes: Vec<Route>,
    /// A route that this build can't read (a newer build wrote it): don't decide, leave the message on the queue.
    pub unreadable_route: Option<String>,
}

/// A decision to record.
#[derive(Debug, Clone)]
pub struct RoutedJob {
    pub job: JobId,
    pub tenant: TenantId,
    pub plan: Plan,
    /// New ids, one per [`Plan::documents`]; used where the document is new.
    pub document_ids: Vec<DocumentId>,
    /// New ids, one per [`Plan::deliveries`].
    pub delivery_ids: Vec<DeliveryId>,
}

/// What [`Store::record_routing`] did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routed {
    /// The jobs that it moved.
    pub jobs: Vec<JobId>,
    /// Those of their deliveries that were born dead: their document had failed before.
    pub dead: Vec<DeliveryId>,
}

#[derive(Debug, Clone)]
pub struct RoutingOptions {
    /// A delivery that nobody took for this long is queued again.
    pub requeue_after: Duration,
    /// From routing to giving up on a document.
    pub document_deadline: Duration,
}

#[derive(Debug, Deserialize)]
struct StoredRoute {
    id: Uuid,
    version: i32,
    spec: serde_json::Value,
}

impl Store {
    /// Loads jobs with their routes, in one statement, without locks. Unknown ids are left out.
    pub async fn load_jobs_for_routing(&self, ids: &[JobId]) -> Result<Vec<RoutableJob>, StoreError> {
        let ids: Vec<Uuid> = ids.iter().map(|j| j.uuid()).collect();
        let rows = sqlx::query!(
            r#"
            SELECT j.id, j.tenant_id, j.state, j.type AS event_type, j.subject, j.revision, j.revision_number, j.recipients, j.data,
                j.expires_at, j.cancel_requested_at IS NOT NULL AS "cancelled!", j.ordering_due_at IS NOT NULL AS "ordered!", j.traceparent,
                (SELECT coalesce(jsonb_agg(jsonb_build_object('id', r.id, 'version', r.version, 'spec', r.spec) ORDER BY r.id), '[]')
                 FROM routes r WHERE r.tenant_id = j.tenant_id AND r.event_type = j.type AND r.active
                ) AS "routes!: sqlx::types::Json<Vec<StoredRoute>>"
            FROM jobs j WHERE j.id = ANY($1) ORDER BY j.id
            "#,
            &ids
        )
        .fetch_all(self.db())
        .await?;
        let mut jobs = Vec::with_capacity(rows.len());
        for row in rows {
            let (routes, unreadable_route) = read_routes(row.routes.0, &row.event_type);
            jobs.push(RoutableJob {
                job: row.id.into(),
                tenant: row.tenant_id.into(),
                state: job_state(&row.state)?,
                event_type: row.event_type,
                subject: row.subject,
                revision: row.revision,
                revision_number: row.revision_number,
                recipients: row.recipients,
                data: row.data,
                expires_at: row.expires_at,
                cancelled: row.cancelled,
                trace: row.traceparent.as_deref().and_then(Traceparent::parse),
                ordered: row.ordered,
                routes,
                unreadable_route,
            });
        }
        Ok(jobs)
    }

    /// Records decisions; each is all or nothing. Returns the jobs that this call moved to ROUTED (or to FAILED, where there was
    /// nothing to deliver), and the dead letters among their deliveries. A job that was routed meanwhile, by another router or by this one before a crash, is left as it is; one
    /// whose cancellation was asked for becomes CANCELLED.
    ///
    /// Afterwards [`Store::list_unsent_pending`] says what to send, for all of the jobs, moved now or earlier. One round trip per
    /// 2,000 deliveries.
    ///
    /// # Errors
    /// Decisions recorded before the failing statement stay; call again for the whole slice.
    pub async fn record_routing(&self, jobs: &[RoutedJob], options: &RoutingOptions) -> Result<Routed, StoreError> {
        let whole = |j: &RoutedJob| {
            j.delivery_ids.len() == j.plan.deliveries.len() && j.document_ids.len() == j.plan.documents.len()
        };
        if !jobs.iter().all(whole) {
            // Zipping on would lose recipients in silence.
            return Err(StoreError::BadCall { what: "one id per planned delivery and document" });
        }
        let mut routed = Routed::default();
        let mut rest = jobs;
        while !rest.is_empty() {
            let mut deliveries = 0;
            let fits = rest.iter().take_while(|job| {
                deliveries += job.plan.deliveries.len();
                deliveries <= MAX_DELIVERIES
            });
            let (now, later) = rest.split_at(fits.count().max(1));
            let now = self.record_routing_statement(&Slice::new(now), options).await?;
            routed.jobs.extend(now.jobs);
            routed.dead.extend(now.dead);
            rest = later;
        }
        Ok(routed)
    }

    async fn record_routing_statement(
        &self,
        slice: &Slice<'_>,
        options: &RoutingOptions,
    ) -> Result<Routed, StoreError> {
        let (job, document, delivery) = (&slice.jobs, &slice.documents, &slice.deliveries);
        let rows = sqlx::query!(
            r#"
            -- Two routers with the same job: the second waits here, finds it no longer PENDING, and everything below is empty for it.
            WITH locked AS MATERIALIZED (
                SELECT id, tenant_id, expires_at, cancel_requested_at IS NOT NULL AS cancelled
                FROM jobs WHERE id = ANY($1) AND state = 'PENDING' ORDER BY id FOR UPDATE
            ), wanted AS MATERIALIZED (
                SELECT w.* FROM unnest($5::integer[], $6::uuid[], $7::uuid[], $8::text[], $9::text[], $10::text[], $11::integer[], $12::text[])
                    AS w (n, job_id, id, document_type, subject, revision, template_version, object_key)
            ), document AS (
                -- The update changes nothing. It returns the row that is there, also one committed after this statement's start, and locks
                -- it: a render can't make it READY between our look and the insert of the deliveries that then would wait for ever.
                -- In the order of the key: two routers with several documents in common do not deadlock.
                INSERT INTO documents AS d (id, tenant_id, document_type, subject, revision, template_version, job_id, object_key,
                                            due_at, deadline_at)
                SELECT DISTINCT ON (l.tenant_id, w.document_type, w.subject, w.revision, w.template_version)
                    w.id, l.tenant_id, w.document_type, w.subject, w.revision, w.template_version, w.job_id, w.object_key,
                    now(), now() + make_interval(secs => $24)
                FROM wanted w JOIN locked l ON l.id = w.job_id AND NOT l.cancelled
                ORDER BY l.tenant_id, w.document_type, w.subject, w.revision, w.template_version, w.n
                ON CONFLICT (tenant_id, document_type, subject, revision, template_version) DO UPDATE SET updated_at = d.updated_at
                RETURNING d.id, d.tenant_id, d.document_type, d.subject, d.revision, d.template_version, d.state, d.reason, d.deadline_at
            ), decided AS (
                SELECT i.*, l.tenant_id, l.expires_at, d.id AS document_id, d.deadline_at, d.reason AS document_reason,
                    CASE WHEN i.reason IS NOT NULL OR d.state = 'FAILED' THEN 'FAILED'
                         WHEN d.state IN ('PENDING', 'RENDERING') THEN 'WAITING_DOCUMENT'
                         ELSE 'PENDING' END AS state
                FROM unnest($13::uuid[], $14::uuid[], $15::uuid[], $16::integer[], $17::text[], $18::text[], $19::text[], $20::bytea[],
                            $21::bytea[], $22::integer[], $25::text[], $26::text[], $27::text[])
                    AS i (id, job_id, route_id, route_version, channel, recipient, recipient_name, identity,
                          lineage, document, reason, detail, recipient_key)
                JOIN locked l ON l.id = i.job_id AND NOT l.cancelled
                LEFT JOIN wanted w ON w.n = i.document
                LEFT JOIN document d ON d.tenant_id = l.tenant_id AND d.document_type = w.document_type AND d.subject = w.subject
                    AND d.revision = w.revision AND d.template_version = w.template_version
            ), born AS (
                -- FAILED by its document is our side's fault and a dead letter; FAILED by its address is not.
                INSERT INTO deliveries (id, tenant_id, job_id, route_id, route_version, channel, recipient, recipient_name, recipient_key, identity,
                                        lineage, document_id, state, reason, detail, expires_at, due_at, dead_lettered_at)
                SELECT id, tenant_id, job_id, route_id, route_version, channel, recipient, recipient_name, recipient_key, identity,
                    lineage, document_id, state,
                    CASE WHEN state = 'FAILED' THEN coalesce(reason, document_reason, 'document_render_failed') END,
                    CASE WHEN reason IS NOT NULL THEN detail WHEN state = 'FAILED' THEN 'the document had failed before' END,
                    expires_at,
                    CASE state WHEN 'WAITING_DOCUMENT' THEN deadline_at WHEN 'PENDING' THEN now() + make_interval(secs => $23) END,
                    CASE WHEN state = 'FAILED' AND reason IS NULL THEN now() END
                FROM decided
                ON CONFLICT (job_id, identity) DO NOTHING
                RETURNING id, job_id, state, reason, detail, dead_lettered_at IS NOT NULL AS dead
            ), noted AS (
                INSERT INTO ledger (delivery_id, version, state, reason, detail) SELECT id, 1, state, reason, detail FROM born
            ), moved AS (
                UPDATE jobs j SET
                    state = CASE WHEN l.cancelled THEN 'CANCELLED' WHEN m.reason IS NOT NULL THEN 'FAILED' ELSE 'ROUTED' END,
                    reason = CASE WHEN l.cancelled THEN 'cancelled' ELSE m.reason END,
                    detail = CASE WHEN l.cancelled THEN NULL ELSE m.detail END,
                    routed_at = CASE WHEN l.cancelled THEN NULL ELSE now() END,
                    due_at = NULL
                FROM locked l JOIN unnest($2::uuid[], $3::text[], $4::text[]) AS m (id, reason, detail) ON m.id = l.id
                WHERE j.id = l.id
                RETURNING j.id, l.cancelled
            )
            SELECT id AS "id!", ARRAY(SELECT b.id FROM born b WHERE b.job_id = m.id AND b.dead ORDER BY b.id) AS "dead!"
            FROM moved m WHERE NOT cancelled
            "#,
            &job.ids,
            &job.ids,
            &job.reasons as &[Option<&str>],
            &job.details as &[Option<String>],
            &document.numbers,
            &document.jobs,
            &document.ids,
            &document.types as &[&str],
            &document.subjects as &[&str],
            &document.revisions as &[&str],
            &document.template_versions,
            &document.object_keys,
            &delivery.ids,
            &delivery.jobs,
            &delivery.routes,
            &delivery.route_versions,
            &delivery.channels as &[&str],
            &delivery.recipients as &[&str],
            &delivery.recipient_names as &[&str],
            &delivery.identities as &[&[u8]],
            &delivery.lineages as &[Option<&[u8]>],
            &delivery.documents as &[Option<i32>],
            secs(options.requeue_after),
            secs(options.document_deadline),
            &delivery.reasons as &[Option<&str>],
            &delivery.details as &[Option<String>],
            &delivery.recipient_keys as &[&str],
        )
        .fetch_all(self.db())
        .await?;
        let mut routed = Routed::default();
        for row in rows {
            routed.jobs.push(row.id.into());
            routed.dead.extend(row.dead.into_iter().map(DeliveryId::from));
        }
        Ok(routed)
    }

    /// The PENDING deliveries of these jobs, in pages by id: what the router has to send messages for.
    pub async fn list_unsent_pending(
        &self,
        jobs: &[JobId],
        after: Option<DeliveryId>,
        limit: i64,
    ) -> Result<Vec<(TenantId, DeliveryId, JobId)>, StoreError> {
        let ids: Vec<Uuid> = jobs.iter().map(|j| j.uuid()).collect();
        let rows = sqlx::query!(
            "
            SELECT tenant_id, id, job_id FROM deliveries
            WHERE job_id = ANY($1) AND state = 'PENDING' AND due_at IS NOT NULL AND id > $2
            ORDER BY id LIMIT $3
            ",
            &ids,
            after.map_or(Uuid::nil(), DeliveryId::uuid),
            limit
        )
        .fetch_all(self.db())
        .await?;
        Ok(rows.into_iter().map(|r| (r.tenant_id.into(), r.id.into(), r.job_id.into())).collect())
    }
}

fn read_routes(stored: Vec<StoredRoute>, event_type: &str) -> (Vec<Route>, Option<String>) {
    let (mut routes, mut unreadable) = (Vec::new(), None);
    for StoredRoute { id, version, spec } in stored {
        let id = RouteId(id);
        match serde_json::from_value::<RouteSpec>(spec) {
            Ok(spec) => routes.push(Route { id, version, event_type: event_type.to_owned(), spec }),
            Err(error) => unreadable = Some(format!("{id} version {version}: {error}")),
        }
    }
    (routes, unreadable)
}

/// A slice of decisions as columns.
struct Slice<'a> {
    jobs: JobColumns<'a>,
    documents: DocumentColumns<'a>,
    deliveries: DeliveryColumns<'a>,
}

#[derive(Default)]
struct JobColumns<'a> {
    ids: Vec<Uuid>,
    reasons: Vec<Option<&'a str>>,
    details: Vec<Option<String>>,
}

#[derive(Default)]
struct DocumentColumns<'a> {
    numbers: Vec<i32>,
    jobs: Vec<Uuid>,
    ids: Vec<Uuid>,
    types: Vec<&'a str>,
    subjects: Vec<&'a str>,
    revisions: Vec<&'a str>,
    template_versions: Vec<i32>,
    object_keys: Vec<String>,
}

#[derive(Default)]
struct DeliveryColumns<'a> {
    ids: Vec<Uuid>,
    jobs: Vec<Uuid>,
    routes: Vec<Uuid>,
    route_versions: Vec<i32>,
    channels: Vec<&'a str>,
    recipients: Vec<&'a str>,
    recipient_names: Vec<&'a str>,
    recipient_keys: Vec<&'a str>,
    identities: Vec<&'a [u8]>,
    lineages: Vec<Option<&'a [u8]>>,
    /// [`DocumentColumns::numbers`] of the document it needs.
    documents: Vec<Option<i32>>,
    reasons: Vec<Option<&'a str>>,
    details: Vec<Option<String>>,
}

impl<'a> Slice<'a> {
    fn new(jobs: &'a [RoutedJob]) -> Self {
        let mut slice = Slice {
            jobs: JobColumns::default(),
            documents: DocumentColumns::default(),
            deliveries: DeliveryColumns::default(),
        };
        for job in jobs {
            slice.jobs.push(job);
            let numbers: Vec<Option<i32>> =
                (0..job.plan.documents.len()).map(|index| slice.documents.push(job, index)).collect();
            for (planned, id) in job.plan.deliveries.iter().zip(&job.delivery_ids) {
                // A delivery that is final at birth waits for nothing.
                let document = planned.document.filter(|_| planned.failed.is_none());
                slice.deliveries.push(job.job, *id, planned, document.and_then(|index| numbers.get(index).copied()?));
            }
        }
        slice
    }
}

impl<'a> JobColumns<'a> {
    fn push(&mut self, job: &'a RoutedJob) {
        self.ids.push(job.job.uuid());
        self.reasons.push(job.plan.nothing.as_ref().map(|(reason, _)| reason.as_str()));
        self.details.push(job.plan.nothing.as_ref().map(|(_, text)| detail(text)));
    }
}

impl<'a> DocumentColumns<'a> {
    /// Adds a document that at least one delivery will wait for; returns its number within the slice.
    fn push(&mut self, job: &'a RoutedJob, index: usize) -> Option<i32> {
        let wanted = job.plan.deliveries.iter().any(|d| d.document == Some(index) && d.failed.is_none());
        let (planned, id): (&PlannedDocument, _) = (job.plan.documents.get(index)?, job.document_ids.get(index)?);
        if !wanted {
            return None;
        }
        let number = i32::try_from(self.numbers.len()).ok()?;
        self.numbers.push(number);
        self.jobs.push(job.job.uuid());
        self.ids.push(id.uuid());
        self.types.push(&planned.document_type);
        self.subjects.push(&planned.subject);
        self.revisions.push(&planned.revision);
        self.template_versions.push(planned.template_version);
        self.object_keys.push(planned.object_key(job.tenant));
        Some(number)
    }
}

impl<'a> DeliveryColumns<'a> {
    fn push(&mut self, job: JobId, id: DeliveryId, planned: &'a PlannedDelivery, document: Option<i32>) {
        self.ids.push(id.uuid());
        self.jobs.push(job.uuid());
        self.routes.push(planned.route.uuid());
        self.route_versions.push(planned.route_version);
        self.channels.push(planned.channel.as_str());
        self.recipients.push(&planned.recipient);
        self.recipient_names.push(&planned.recipient_name);
        // The key of a place in `data` that held no address is nothing to search by.
        self.recipient_keys.push(if planned.recipient.is_empty() { "" } else { &planned.recipient_key });
        self.identities.push(&planned.identity.0);
        self.lineages.push(planned.lineage.as_ref().map(<[u8; 32]>::as_slice));
        self.documents.push(document);
        self.reasons.push(planned.failed.as_ref().map(|(reason, _)| Reason::as_str(*reason)));
        self.details.push(planned.failed.as_ref().map(|(_, text)| detail(text)));
    }
}

#[cfg(test)]
mod tests;
