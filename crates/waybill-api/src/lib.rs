//! The HTTP API: routes by resource, problem answers, the OpenAPI document and the server's lifecycle.
//!
//! The routes know nothing of Postgres, queues or providers: they call the [`Service`] trait, which the pipeline implements and the
//! tests play. What happens between a socket and that trait is this crate's whole business.
//!
//! What it holds to:
//! - Nothing is read from a body before its sender is known ([`auth`]), and never more than the limit, after decompression too ([`body`]).
//! - Every refusal is `application/problem+json` with a stable `type` and `code`, also those of the framework and of a panic
//!   ([`problem`]). A client's mistake is never a 5xx, and no answer carries a stack trace.
//! - JSON is read strictly: a repeated key, U+0000, a lone surrogate or invalid UTF-8 anywhere is refused with its JSON Pointer, in
//!   `data` as well, so that the idempotency fingerprint and what is sent can't see two different documents.
//! - A 202 is written only after [`Service::accept`] has said that the job is durable.
//! - Another tenant's job is a 404, by the same code path as one that doesn't exist.
//! - On shutdown readiness fails first, the listener stays for the drain delay, then requests in flight finish ([`serve`]).
//!
//! What it refuses to do: log bodies, addresses or keys; trust an `X-Request-Id` with odd characters; read an unknown query parameter
//! as "no filter".
//!
//! To extend: an endpoint is a handler with its `#[utoipa::path]` in the file of its resource, one `routes!` line in [`openapi`], a
//! method of [`Service`], and a test. `UPDATE_OPENAPI=1 cargo test -p waybill-api openapi` writes the checked-in document anew.

pub mod auth;
pub mod body;
pub mod events;
pub mod explain;
pub mod headers;
pub mod health;
pub mod inbound;
pub mod jobs;
pub mod observe;
pub mod openapi;
pub mod problem;
pub mod query;
pub mod schema;
pub mod serve;
pub mod service;
pub mod views;

mod state;
mod watched;

pub use openapi::{document, ops_router, router};
pub use serve::{ServeOptions, Served, Shutdown, serve};
pub use service::Service;
pub use state::{ApiConfig, ApiState};
