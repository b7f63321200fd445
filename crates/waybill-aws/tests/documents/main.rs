//! S3 and Lambda at their worst, played by an endpoint in this process. The answers' forms are those of the AWS API references.

mod endpoint;
mod lambda;
mod s3;
