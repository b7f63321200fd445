//! The ports in memory, with faults by script.

mod alerts;
mod lock;
mod objects;
mod provider;
mod queue;
mod queue_rules;
mod queue_state;
mod renderer;

pub use alerts::FakeAlerts;
pub use lock::FakeLock;
pub use objects::{FakeObjects, ObjectCall, ObjectFault};
pub use provider::{FakeProvider, Step};
pub use queue::{FakeQueue, SendFault};
pub use queue_state::Shown;
pub use renderer::FakeRenderer;
