//! The sink's own controls: counts, fault script, events target, health.

mod fault_body;

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use serde_json::{Value, json};

use crate::{
    events::{EventCounts, TargetBody, TargetView},
    problem::{FieldError, Problem},
    sink::Sink,
};

pub(crate) fn routes() -> Router<Sink> {
    Router::new()
        .route("/", get(|| async { Redirect::temporary("/mailbox") }))
        .route("/healthz", get(|| async { Json(json!({ "status": "ok" })) }))
        .route("/counts", get(counts).delete(reset_counts))
        .route("/counts/deliveries", get(deliveries))
        .route("/counts/identities", get(identities))
        .route("/faults", get(faults).put(put_faults).delete(delete_faults))
        .route("/events-target", get(target).put(put_target).delete(delete_target))
}

#[derive(serde::Serialize)]
struct CountsAnswer {
    #[serde(flatten)]
    counts: crate::counts::Summary,
    events: EventCounts,
}

async fn counts(State(sink): State<Sink>) -> Response {
    let answer = CountsAnswer { counts: sink.counts().summary(), events: sink.publisher().counts() };
    ([(header::CACHE_CONTROL, "no-store")], Json(answer)).into_response()
}

async fn reset_counts(State(sink): State<Sink>) -> StatusCode {
    sink.reset_counts();
    StatusCode::NO_CONTENT
}

async fn deliveries(State(sink): State<Sink>) -> Response {
    Json(sink.acceptances_by_delivery()).into_response()
}

async fn identities(State(sink): State<Sink>) -> Response {
    Json(sink.acceptances_by_identity()).into_response()
}

async fn faults(State(sink): State<Sink>) -> Response {
    Json(sink.remaining_faults()).into_response()
}

async fn put_faults(State(sink): State<Sink>, body: Bytes) -> Result<Response, Problem> {
    sink.set_faults(fault_body::parse(&json_body(&body)?).map_err(Problem::invalid)?);
    Ok(Json(sink.remaining_faults()).into_response())
}

async fn delete_faults(State(sink): State<Sink>) -> StatusCode {
    sink.set_faults(Vec::new());
    StatusCode::NO_CONTENT
}

async fn target(State(sink): State<Sink>) -> Response {
    let target = sink.publisher().target();
    Json(target.as_deref().map(TargetView::from)).into_response()
}

async fn put_target(State(sink): State<Sink>, body: Bytes) -> Result<Response, Problem> {
    let body: TargetBody = serde_json::from_value(json_body(&body)?)
        .map_err(|error| Problem::invalid(vec![FieldError::new("", error.to_string())]))?;
    let target = body
        .into_target(sink.publisher().remote_allowed())
        .map_err(|error| Problem::invalid(vec![FieldError::new(format!("/{}", error.field()), error.to_string())]))?;
    let view = TargetView::from(&target);
    sink.set_events_target(Some(target));
    Ok(Json(view).into_response())
}

async fn delete_target(State(sink): State<Sink>) -> StatusCode {
    sink.set_events_target(None);
    StatusCode::NO_CONTENT
}

fn json_body(body: &[u8]) -> Result<Value, Problem> {
    serde_json::from_slice(body).map_err(|error| Problem::not_json(format!("The body is not JSON: {error}")))
}
