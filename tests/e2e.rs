//! End to end, black box: the real binary over HTTP, a real queue, and providers that are played by the sink.

mod support;

mod e2e {
    mod accept;
    mod failures;
    mod lifecycle;
    mod once;
    mod queue;
}
