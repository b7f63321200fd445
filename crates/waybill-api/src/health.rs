//! `/healthz`, `/readyz`, `/metrics` and the welcome at `/`.
//!
//! Liveness never touches a dependency: a database that is away must not make the orchestrator kill a healthy process. Readiness asks
//! the dependencies under a deadline of its own, and fails at once when the process drains.

use crate::{
    service::{Check, Readiness},
    state::ApiState,
};
use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use serde::Serialize;
use std::sync::Arc;
use tokio::{sync::Mutex, time::Instant};
use utoipa::ToSchema;

/// Makes the text of `/metrics` (Prometheus text format 0.0.4).
pub type RenderMetrics = Arc<dyn Fn() -> String + Send + Sync>;

/// The last answer of the dependencies and when it came. The lock makes many probes one question.
#[derive(Debug, Default)]
pub(crate) struct ReadinessCache(Mutex<Option<(Instant, Readiness)>>);

/// How the process is.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// ok, ready, not_ready, draining or timed_out.
    #[schema(value_type = String, example = "ready")]
    status: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    checks: Vec<Check>,
}

/// Is the process alive? Touches no dependency.
#[utoipa::path(get, path = "/healthz", tag = "health", security(()),
    responses((status = 200, description = "Alive", body = Health)))]
pub(crate) async fn healthz() -> Json<Health> {
    Json(Health { status: "ok", checks: Vec::new() })
}

/// Should traffic come here? Answers within its own deadline.
#[utoipa::path(get, path = "/readyz", tag = "health", security(()),
    responses(
        (status = 200, description = "Ready", body = Health),
        (status = 503, description = "Draining, or a dependency is away", body = Health)))]
pub(crate) async fn readyz(State(api): State<ApiState>) -> Response {
    if api.draining.is_cancelled() {
        return not_ready("draining", Vec::new());
    }
    match tokio::time::timeout(api.config.ready_timeout, ask(&api)).await {
        Err(_) => not_ready("timed_out", Vec::new()),
        Ok(readiness) if readiness.is_ready() => {
            Json(Health { status: "ready", checks: readiness.checks }).into_response()
        }
        Ok(readiness) => not_ready("not_ready", readiness.checks),
    }
}

fn not_ready(status: &'static str, checks: Vec<Check>) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, Json(Health { status, checks })).into_response()
}

async fn ask(api: &ApiState) -> Readiness {
    let mut last = api.readiness.0.lock().await;
    if let Some((at, readiness)) = last.as_ref()
        && at.elapsed() < api.config.ready_cache
    {
        return readiness.clone();
    }
    let readiness = api.service.ready().await;
    *last = Some((Instant::now(), readiness.clone()));
    readiness
}

pub(crate) async fn metrics(render: RenderMetrics) -> Response {
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(CONTENT_TYPE, text)], render()).into_response()
}

/// What is here.
#[derive(Debug, Serialize, ToSchema)]
pub struct Welcome {
    #[schema(value_type = String)]
    service: &'static str,
    #[schema(value_type = String)]
    version: &'static str,
    #[schema(value_type = String)]
    hint: &'static str,
    #[schema(value_type = String)]
    openapi: &'static str,
    #[schema(value_type = String)]
    health: &'static str,
    #[schema(value_type = String)]
    readiness: &'static str,
}

/// What is here, and where to start.
#[utoipa::path(get, path = "/", tag = "about", security(()),
    responses((status = 200, description = "Where to start", body = Welcome)))]
pub(crate) async fn welcome() -> Json<Welcome> {
    Json(Welcome {
        service: "waybill",
        version: env!("CARGO_PKG_VERSION"),
        hint: "POST /events with `Authorization: Bearer <key>`, then GET the Location of the answer",
        openapi: "/openapi.json",
        health: "/healthz",
        readiness: "/readyz",
    })
}
