//! One suite per port. `run` panics at the first rule that does not hold; an adapter's test calls it on a fresh, empty subject.

pub mod lock;
pub mod objects;
pub mod provider;
pub mod queue;
pub mod renderer;
