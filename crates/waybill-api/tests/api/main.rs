//! The API over HTTP, with a service that is played: every route, every refusal, the lifecycle.

mod events;
mod inbound;
mod jobs;
mod lifecycle;
mod limits;
mod openapi;
mod problems;
mod support;
