//! Real servers: started, crashed, stopped and refused.

#![expect(clippy::unwrap_used, reason = "a test's helpers stop at the first surprise too")]

mod ministack;
mod postgres;
mod redis;
mod support;
