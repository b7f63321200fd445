//! End to end, black box: the real binary over HTTP, a real queue, and providers that are played by the sink.

#![allow(clippy::disallowed_methods, reason = "tests run on the real clock")]

mod support;

mod e2e {
    mod accept;
    mod failures;
    mod lifecycle;
    mod once;
    mod queue;
}
