//! Provider events: where they go, and getting them there.

mod publisher;
mod simulate;
mod svix;
mod target;

pub(crate) use publisher::{EventCounts, Post, Publisher};
pub(crate) use simulate::{Fate, fate_of};
pub use target::{EventsTarget, TargetError};
pub(crate) use target::{TargetBody, TargetView};
