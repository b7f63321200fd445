//! End to end, black box: the real binary over HTTP, a real queue, and providers that are played by the sink.
//!
//! With `WAYBILL_TEST_AWS=1` the same tests run on SQS, S3 and (if named) Lambda at `AWS_ENDPOINT_URL`: see `support/aws.rs`.

#![allow(clippy::disallowed_methods, reason = "tests run on the real clock")]

mod support;

mod e2e {
    mod accept;
    mod deployed;
    mod failures;
    mod intake;
    mod lifecycle;
    mod once;
    mod queue;
    mod rolling;
}
