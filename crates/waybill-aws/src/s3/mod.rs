//! Objects in one S3 bucket.

use aws_config::SdkConfig;

/// The [`waybill_core::ports::ObjectStore`] on S3.
#[derive(Clone)]
pub struct S3Objects {
    client: aws_sdk_s3::Client,
    bucket: String,
}

impl S3Objects {
    pub fn new(config: &SdkConfig, bucket: impl Into<String>) -> Self {
        Self { client: aws_sdk_s3::Client::new(config), bucket: bucket.into() }
    }
}
