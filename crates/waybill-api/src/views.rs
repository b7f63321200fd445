//! What people and programs see of a job. The service fills everything but `explanation`, which the routes write from the rest.

use crate::{explain, schema, schema::Timestamp};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;
use waybill_core::{
    ids::{AttemptId, DeliveryId, DocumentId, JobId},
    state::{DeliveryState, DocumentState, JobState, Reason},
};

/// One page of a list.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Page<T> {
    pub data: Vec<T>,
    /// Goes into `after` for the next page; null on the last one.
    pub next: Option<String>,
}

/// The event a job was made from.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct EventRef {
    pub id: String,
    pub source: String,
    #[serde(rename = "type")]
    #[schema(example = "com.example.order.confirmed")]
    pub event_type: String,
    pub subject: Option<String>,
    /// The event's own, else the SHA-256 of its canonical data.
    pub revision: String,
    /// Events of one key go out one after the other.
    pub ordering_key: Option<String>,
    pub time: Option<Timestamp>,
}

/// A job without its deliveries.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct JobSummary {
    #[schema(value_type = String, example = "job_01h455vb4pex5vsknk084sn02q")]
    pub job_id: JobId,
    /// Derived from the deliveries once the job is routed.
    #[schema(schema_with = schema::job_state)]
    pub status: JobState,
    #[schema(schema_with = schema::reason)]
    pub reason: Option<Reason>,
    pub detail: Option<String>,
    /// The first job of the same ordering key that is not over and was accepted earlier: nothing of this one goes out before its end.
    #[schema(value_type = Option<String>, example = "job_01h455vb4pex5vsknk084sn02q")]
    pub waits_for: Option<JobId>,
    /// One sentence for people.
    pub explanation: String,
    pub event: EventRef,
    /// Number of deliveries by state; states without any are left out.
    pub delivery_counts: BTreeMap<String, u64>,
    pub created_at: Timestamp,
    pub routed_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    pub cancel_requested_at: Option<Timestamp>,
}

/// A job with one page of its deliveries.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct JobDetail {
    #[serde(flatten)]
    pub job: JobSummary,
    pub deliveries: Page<DeliveryView>,
}

/// One recipient, one channel, one document of a job.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct DeliveryView {
    #[schema(value_type = String, example = "dlv_01h455vb4pex5vsknk084sn02q")]
    pub delivery_id: DeliveryId,
    #[schema(example = "email")]
    pub channel: String,
    pub recipient: String,
    pub recipient_name: String,
    #[schema(schema_with = schema::delivery_state)]
    pub state: DeliveryState,
    #[schema(schema_with = schema::reason)]
    pub reason: Option<Reason>,
    pub detail: Option<String>,
    /// One sentence for people.
    pub explanation: String,
    /// Passes over the provider list so far.
    pub attempt_count: u32,
    /// Set in RETRYING.
    pub next_attempt_at: Option<Timestamp>,
    /// Set in UNKNOWN, unless a person has to decide.
    pub reconcile_until: Option<Timestamp>,
    /// UNKNOWN, and a person has to decide.
    pub held: bool,
    /// FAILED by our side or a provider's; `POST /jobs/{id}/retry` puts it back.
    pub dead_lettered: bool,
    /// Which provider accepted it.
    pub provider: Option<String>,
    pub provider_message_id: Option<String>,
    pub document: Option<DocumentView>,
    /// DUPLICATE of, SUPERSEDED by.
    #[schema(value_type = Option<String>)]
    pub other_delivery_id: Option<DeliveryId>,
    pub sent_at: Option<Timestamp>,
    pub updated_at: Timestamp,
    pub attempts: Vec<AttemptView>,
    /// Every state it was in, oldest first, without gaps.
    pub timeline: Vec<TimelineEntry>,
}

/// The document of a delivery.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct DocumentView {
    #[schema(value_type = String, example = "doc_01h455vb4pex5vsknk084sn02q")]
    pub document_id: DocumentId,
    #[schema(example = "purchase_order")]
    pub document_type: String,
    #[schema(schema_with = schema::document_state)]
    pub state: DocumentState,
    #[schema(schema_with = schema::reason)]
    pub reason: Option<Reason>,
    pub detail: Option<String>,
    /// Renders started so far.
    pub attempt_count: u32,
    pub size_bytes: Option<u64>,
}

/// One pass over the provider list.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct AttemptView {
    #[schema(value_type = String, example = "att_01h455vb4pex5vsknk084sn02q")]
    pub attempt_id: AttemptId,
    /// From 1.
    pub number: u32,
    pub started_at: Timestamp,
    /// Null while it runs, and for good if its worker died.
    pub ended_at: Option<Timestamp>,
    /// sent, unknown, retry, hold, failed or crashed.
    pub outcome: Option<String>,
    pub calls: Vec<CallView>,
}

/// One call to one provider.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct CallView {
    pub provider: String,
    #[schema(example = "accepted")]
    pub outcome: String,
    /// The provider's words.
    pub detail: Option<String>,
    pub provider_message_id: Option<String>,
    pub duration_ms: Option<u64>,
}

/// One state that a delivery was in.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct TimelineEntry {
    /// From 1, without gaps.
    pub version: u32,
    pub at: Timestamp,
    #[schema(schema_with = schema::delivery_state)]
    pub state: DeliveryState,
    #[schema(schema_with = schema::reason)]
    pub reason: Option<Reason>,
    pub detail: Option<String>,
}

/// What a retry did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RetrySummary {
    #[schema(value_type = String)]
    pub job_id: JobId,
    /// Dead-lettered deliveries that are PENDING again.
    #[schema(value_type = Vec<String>)]
    pub requeued: Vec<DeliveryId>,
    /// Dead-lettered deliveries whose message was sent by another delivery meanwhile; they are left alone.
    pub already_sent: u64,
}

/// What a cancel did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct CancelSummary {
    #[schema(value_type = String)]
    pub job_id: JobId,
    /// Deliveries that will not be sent.
    pub cancelled: u64,
    /// Deliveries that were final before.
    pub already_final: u64,
    /// Deliveries that a provider may have at this moment; they are not tried again.
    pub in_progress: u64,
}

impl JobSummary {
    pub(crate) fn explained(mut self) -> Self {
        self.explanation = explain::job(&self);
        self
    }
}

impl JobDetail {
    pub(crate) fn explained(mut self) -> Self {
        self.job = self.job.explained();
        for delivery in &mut self.deliveries.data {
            delivery.explanation = match self.job.waits_for {
                Some(first) if delivery.state.is_claimable() => explain::not_its_turn(first),
                Some(_) | None => explain::delivery(delivery),
            };
        }
        self
    }
}
