//! `POST /events`: one event, or a batch with an answer for each.

use crate::{
    auth::{Authorized, EventsWrite},
    body,
    headers::{EventMedia, event_media, idempotency_key, traceparent},
    problem::{Code, Problem, ProblemBody},
    service::{AcceptAnswer, ServiceError},
    state::ApiState,
};
use axum::{
    Json,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use hyper::{
    StatusCode,
    header::{HeaderValue, LOCATION},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{
    ToSchema,
    openapi::{
        RefOr,
        schema::{ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type},
    },
};
use waybill_core::{
    event::Event,
    ids::{JobId, TenantId},
    json::{self, JsonError, JsonProblem},
    state::JobState,
    trace::Traceparent,
};

/// Says that a 202 is the first answer again.
pub const REPLAYED: &str = "idempotent-replayed";

// What the OpenAPI document says of an event; it is `waybill_core::event` that reads one, and a test holds the two against each other.
/// An event: CloudEvents 1.0 attributes and three members of ours. Other members are refused; `data` is free.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Event)]
pub struct EventDoc {
    /// "1.0".
    #[schema(example = "1.0")]
    pub specversion: Option<String>,
    /// Unique within `source`: the same pair is the same event.
    #[schema(min_length = 1, max_length = 255, example = "8e03978e")]
    pub id: String,
    #[schema(min_length = 1, max_length = 255, example = "/shop/orders")]
    pub source: String,
    #[serde(rename = "type")]
    #[schema(min_length = 1, max_length = 255, example = "com.example.order.confirmed")]
    pub event_type: String,
    /// The business object, such as the order number. Two events with one subject and one revision are sent once.
    #[schema(min_length = 1, max_length = 255, example = "PO-2026-0042")]
    pub subject: Option<String>,
    pub time: Option<chrono::DateTime<chrono::Utc>>,
    /// "application/json".
    pub datacontenttype: Option<String>,
    #[schema(min_length = 1, max_length = 255)]
    pub dataschema: Option<String>,
    #[schema(schema_with = revision)]
    pub revision: Option<serde_json::Value>,
    /// Events of one key go out one after the other, in the order of their acceptance; a retry holds the later ones back, for a bounded
    /// time.
    #[schema(min_length = 1, max_length = 128, example = "customer-4711")]
    pub ordering_key: Option<String>,
    #[schema(schema_with = recipients)]
    pub recipients: Option<serde_json::Value>,
    /// Not sent after this time.
    pub expires_at: Option<chrono::DateTime<chrono::Utc>>,
    /// What the document is made of. Any JSON but null.
    pub data: serde_json::Value,
}

fn string() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::Type(Type::String))
}

fn revision() -> RefOr<Schema> {
    let number = ObjectBuilder::new()
        .schema_type(SchemaType::Type(Type::Integer))
        .minimum(Some(0))
        .maximum(Some(999_999_999_999_999_999i64));
    let text = string().min_length(Some(1)).max_length(Some(64));
    let null = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Null));
    let one_of = OneOfBuilder::new().item(number).item(text).item(null).description(Some(
        "Of the subject; without it, the content decides. Whole numbers order the revisions: an older one never goes out after a newer one.",
    ));
    RefOr::T(Schema::OneOf(one_of.build()))
}

fn recipients() -> RefOr<Schema> {
    let address = || string().description(Some("An e-mail address"));
    let name =
        ObjectBuilder::new().schema_type(SchemaType::Array(vec![Type::String, Type::Null])).max_length(Some(200));
    let object = ObjectBuilder::new()
        .property("email", address())
        .property("name", name)
        .required("email")
        .additional_properties(Some(utoipa::openapi::schema::AdditionalProperties::FreeForm(false)));
    let item = OneOfBuilder::new().item(object).item(address());
    let array = utoipa::openapi::schema::ArrayBuilder::new()
        .schema_type(SchemaType::Array(vec![Type::Array, Type::Null]))
        .items(item)
        .description(Some("Who gets it, when the route doesn't say. At most 10000."));
    RefOr::T(Schema::Array(array.build()))
}

/// Accepted: the job is durable. Accepted is not delivered.
#[derive(Debug, Serialize, ToSchema)]
pub struct Accepted {
    #[schema(value_type = String, example = "job_01h455vb4pex5vsknk084sn02q")]
    job_id: JobId,
    /// The status at acceptance; `GET /jobs/{id}` has the present one.
    #[schema(value_type = String, example = "PENDING")]
    status: JobState,
}

impl Accepted {
    fn new(job_id: JobId) -> Self {
        Self { job_id, status: JobState::Pending }
    }
}

/// One answer per event of the batch, in its order.
#[derive(Debug, Serialize, ToSchema)]
pub struct BatchAnswer {
    results: Vec<BatchItem>,
}

/// What one event of a batch would have been answered alone.
#[derive(Debug, Serialize, ToSchema)]
pub struct BatchItem {
    /// Position in the batch, from 0.
    index: usize,
    #[schema(example = 202)]
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    job_id: Option<JobId>,
    /// The same event was accepted before; `job_id` is the first one's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    replayed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<ProblemBody>,
}

/// Accept one event, or a batch.
///
/// An answer of 202 means that the event is durable and every delivery that follows from it reaches a final state. Repeating it is safe: the same
/// `Idempotency-Key`, or the same `source` and `id`, is answered with the first job and `Idempotent-Replayed: true`.
/// A repeated member name anywhere, also inside `data`, is refused.
#[utoipa::path(post, path = "/events", tag = "events",
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 257,
        description = "1 to 255 printable ASCII characters, bare or quoted; not with a batch")),
    request_body(content((EventDoc = "application/json"), (EventDoc = "application/cloudevents+json"),
        (Vec<EventDoc> = "application/cloudevents-batch+json"))),
    responses(
        (status = 202, description = "Durable", body = Accepted, headers(
            ("Location" = String, description = "/jobs/{id}"),
            ("Idempotent-Replayed" = String, description = "`true` when this event was accepted before"))),
        (status = 207, description = "A batch: one answer per event, in order", body = BatchAnswer),
        (status = 400, description = "Not acceptable JSON, body or key", body = ProblemBody, content_type = "application/problem+json"),
        (status = 408, description = "The body came too slowly", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "The first request with this key is still in progress", body = ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "Too large", body = ProblemBody, content_type = "application/problem+json"),
        (status = 415, description = "Content type or encoding not supported", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "Fields are wrong, or the key belongs to other content", body = ProblemBody, content_type = "application/problem+json")))]
pub(crate) async fn create_event(
    State(api): State<ApiState>,
    caller: Authorized<EventsWrite>,
    request: Request,
) -> Result<Response, Problem> {
    let media = event_media(request.headers())?;
    let key = idempotency_key(request.headers())?;
    let trace = traceparent(request.headers());
    if media == EventMedia::Batch && key.is_some() {
        let detail = "a batch has no key of its own: leave it out, each event is recognised by its source and id";
        return Err(Problem::new(Code::InvalidIdempotencyKey, detail));
    }
    let body = body::read(request, &api.config).await?;
    match media {
        EventMedia::One => accept_one(&api, caller.tenant, &body, key, trace).await,
        EventMedia::Batch => accept_batch(&api, caller.tenant, &body, trace).await,
    }
}

async fn accept_one(
    api: &ApiState,
    tenant: TenantId,
    body: &[u8],
    key: Option<String>,
    trace: Option<Traceparent>,
) -> Result<Response, Problem> {
    let event = Event { trace, ..read_event(api, body, "")? };
    let (job, replayed) = accepted(api.service.accept(tenant, event, key).await)?;
    let mut response = (StatusCode::ACCEPTED, Json(Accepted::new(job))).into_response();
    if let Ok(location) = HeaderValue::from_str(&format!("/jobs/{job}")) {
        response.headers_mut().insert(LOCATION, location);
    }
    if replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

fn read_event(api: &ApiState, text: &[u8], prefix: &str) -> Result<Event, Problem> {
    let json = json::parse(text).map_err(|e| Problem::json(&e, prefix))?;
    Event::from_json(&json, &api.config.event).map_err(|errors| Problem::event(errors, prefix))
}

/// The job, and whether it is an earlier one.
fn accepted(answer: Result<AcceptAnswer, ServiceError>) -> Result<(JobId, bool), Problem> {
    match answer? {
        AcceptAnswer::New(job) => Ok((job, false)),
        AcceptAnswer::Replay(job) => Ok((job, true)),
        AcceptAnswer::KeyReused => Err(Problem::new(
            Code::KeyReused,
            "this Idempotency-Key, or this source and id, belongs to an event with other content; use a new one",
        )),
        AcceptAnswer::Busy { retry_after } => {
            let detail = "the first request with this key is still in progress; send it again after Retry-After";
            Err(Problem::new(Code::InProgress, detail).with_retry_after(retry_after))
        }
    }
}

async fn accept_batch(
    api: &ApiState,
    tenant: TenantId,
    body: &[u8],
    trace: Option<Traceparent>,
) -> Result<Response, Problem> {
    let items = split(body)?;
    let max = api.config.max_batch_events;
    if items.len() > max {
        let detail = format!("{} events; the limit max_batch_events is {max}", items.len());
        return Err(Problem::new(Code::TooManyEvents, detail));
    }
    let read: Vec<Result<Event, Problem>> = items
        .iter()
        .enumerate()
        .map(|(index, item)| read_event(api, item.get().as_bytes(), &format!("/{index}")))
        .collect();
    let (mut events, mut refused) = (Vec::new(), Vec::new());
    for (index, result) in read.into_iter().enumerate() {
        match result {
            Ok(event) => events.push((index, Event { trace: trace.clone(), ..event })),
            Err(problem) => refused.push((index, Err(problem))),
        }
    }
    let (places, events): (Vec<usize>, Vec<Event>) = events.into_iter().unzip();
    let answers = if events.is_empty() { Vec::new() } else { api.service.accept_many(tenant, events).await };
    if let Some(problem) = nothing_done(&answers) {
        return Err(problem);
    }
    // An answer that is missing is not an answer: never taken for success.
    let answers = answers.into_iter().map(accepted).chain(std::iter::repeat_with(|| Err(Problem::internal())));
    let mut results: Vec<_> = places.into_iter().zip(answers).chain(refused).collect();
    results.sort_by_key(|(index, _)| *index);
    let results = results.into_iter().map(|(index, result)| batch_item(index, result)).collect();
    Ok((StatusCode::MULTI_STATUS, Json(BatchAnswer { results })).into_response())
}

/// The array's elements as they were written, so that one poisoned element doesn't fail its neighbours.
fn split(body: &[u8]) -> Result<Vec<&RawValue>, Problem> {
    let whole = |problem| Problem::json(&JsonError { pointer: String::new(), problem }, "");
    let text = std::str::from_utf8(body).map_err(|_| whole(JsonProblem::Utf8))?;
    serde_json::from_str(text).map_err(|e| whole(JsonProblem::Syntax(format!("expected an array of events: {e}"))))
}

/// When the service was away for every event, the whole request is worth one 503 with Retry-After: nothing of it was done.
fn nothing_done(answers: &[Result<AcceptAnswer, ServiceError>]) -> Option<Problem> {
    let away = |answer: &Result<AcceptAnswer, ServiceError>| match answer {
        Err(error @ ServiceError::Unavailable { .. }) => Some(*error),
        Err(ServiceError::Internal) | Ok(_) => None,
    };
    let first = answers.first().and_then(away)?;
    answers.iter().all(|answer| away(answer).is_some()).then(|| first.into())
}

fn batch_item(index: usize, result: Result<(JobId, bool), Problem>) -> BatchItem {
    match result {
        Ok((job, replayed)) => BatchItem { index, status: 202, job_id: Some(job), replayed, problem: None },
        Err(problem) => {
            let problem = problem.into_body();
            BatchItem { index, status: problem.status, job_id: None, replayed: false, problem: Some(problem) }
        }
    }
}
