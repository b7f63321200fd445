//! The outer layer of every route: request id in and out, metrics, `Cache-Control: no-store`, and the last touch on problems.
//!
//! Logs name method, route pattern, status, time and request id. Never a path (it may carry ids of an unlucky format), a query (it may
//! carry an address), a header or a body.

#![expect(clippy::disallowed_methods, reason = "how long a request took is told to the log and to nobody else")]

use crate::{
    headers::{REQUEST_ID, request_id},
    problem::{Code, Problem},
};
use axum::{
    extract::{MatchedPath, Request},
    middleware::Next,
    response::{IntoResponse, Response},
};
use hyper::{
    StatusCode,
    header::{CACHE_CONTROL, CONTENT_LENGTH, HeaderValue},
};
use std::{any::Any, time::Instant};

/// The id of the request at hand, for handlers that log.
#[derive(Debug, Clone)]
pub struct RequestId(pub String);

pub(crate) async fn observe(mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(request.headers());
    let path = request.uri().path().to_owned();
    let method = method_name(request.method());
    let route = request.extensions().get::<MatchedPath>().map_or("none".to_owned(), |m| m.as_str().to_owned());
    request.extensions_mut().insert(RequestId(id.clone()));

    let mut response = next.run(request).await;
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        response = with_place(&response, problem.at(&path, &id));
    }
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, value);
    }
    record(method, &route, response.status(), started, &id);
    response
}

/// The problem again, now with its place, under the headers that layers between have added (such as Allow).
fn with_place(response: &Response, problem: Problem) -> Response {
    let mut placed = problem.into_response();
    placed.extensions_mut().remove::<Problem>();
    for (name, value) in response.headers() {
        // The text has grown by its place: the old length is not its length.
        if name != CONTENT_LENGTH && !placed.headers().contains_key(name) {
            placed.headers_mut().insert(name, value.clone());
        }
    }
    placed
}

fn record(method: &'static str, route: &str, status: StatusCode, started: Instant, id: &str) {
    let seconds = started.elapsed().as_secs_f64();
    let labels = [("method", method.to_owned()), ("route", route.to_owned()), ("status", status.as_u16().to_string())];
    metrics::counter!("waybill_http_requests_total", &labels).increment(1);
    metrics::histogram!("waybill_http_request_seconds", "method" => method, "route" => route.to_owned())
        .record(seconds);
    let (status, ms) = (status.as_u16(), (seconds * 1000.0) as u64);
    if status >= 500 {
        tracing::warn!(name: "http.failed", method, route, status, duration_ms = ms, request_id = id, "request failed");
    } else {
        tracing::debug!(name: "http.answered", method, route, status, duration_ms = ms, request_id = id, "request answered");
    }
}

/// A client can invent methods; labels must not follow.
fn method_name(method: &hyper::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "HEAD" => "HEAD",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// What a panic is answered with: a 500 that says nothing of it. The panic hook has written the message and the place.
pub(crate) fn panicked(_: Box<dyn Any + Send + 'static>) -> Response {
    tracing::error!(name: "http.panicked", "a handler panicked");
    Problem::internal().into_response()
}

pub(crate) async fn not_found() -> Problem {
    Problem::new(Code::NotFound, "no such path; GET /openapi.json lists those there are")
}

pub(crate) async fn method_not_allowed() -> Problem {
    Problem::new(Code::MethodNotAllowed, "use one of the methods in the Allow header")
}
