//! S3 and Lambda at their worst, played by an endpoint in this process. The answers' forms are those of the AWS API references.

#![expect(clippy::unwrap_used, reason = "a test's helpers stop at the first surprise too")]

mod endpoint;
mod lambda;
mod s3;
