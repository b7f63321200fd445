//! What people and programs look at: jobs, deliveries, their history, and the counts that operations watch. Nothing here locks or writes.
//!
//! A job's status is derived from its deliveries at each look, so that a row that was not refreshed yet never shows a wrong one.

mod deliveries;
mod jobs;
mod ops;

pub use deliveries::{AttemptView, DeliveryView, DocumentView, LedgerEntry};
pub use jobs::{JobFilter, JobPayload, JobView};
pub use ops::StateCount;

#[cfg(test)]
mod tests;
