//! The API over HTTP, with a service that is played: every route, every refusal, the lifecycle.

#![allow(clippy::disallowed_methods, reason = "tests run on the real clock")]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking, as the tests do")]

mod events;
mod inbound;
mod jobs;
mod lifecycle;
mod limits;
mod openapi;
mod problems;
mod support;
