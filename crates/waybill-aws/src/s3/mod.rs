//! Objects in one S3 bucket.
//!
//! Reads and the conditional write may be repeated, so the SDK does (3 attempts): a write whose answer got lost ends in a 412, which says
//! that the object is there. Keys are given to the SDK as they are in our rows and are encoded by nobody else.
//!
//! The role needs `s3:ListBucket`: without it S3 answers 403 instead of 404 for a key that isn't there.

mod disposition;
mod errors;

use crate::error::causes;
use async_trait::async_trait;
use aws_config::SdkConfig;
use aws_sdk_s3::{
    config::{Builder, retry::RetryConfig, timeout::TimeoutConfig},
    error::{ProvideErrorMetadata, SdkError},
    operation::put_object::PutObjectError,
    primitives::ByteStream,
    types::ChecksumAlgorithm,
};
use bytes::{Bytes, BytesMut};
use std::time::Duration;
use waybill_core::ports::{ObjectError, ObjectInfo, ObjectStore, PutOutcome, check_object_key};

pub use disposition::content_disposition;

/// A larger object is no document of ours, and would have to fit into memory.
pub const MAX_OBJECT_BYTES: u64 = 64 * 1024 * 1024;

const CONNECT: Duration = Duration::from_secs(3);
/// One attempt, so that a connection that died leaves time for another.
const ATTEMPT: Duration = Duration::from_secs(12);
/// All attempts of a call.
const OPERATION: Duration = Duration::from_secs(30);
/// Waits before a write is repeated that met another write of the same key.
const CONFLICT_DELAYS: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(200), Duration::from_millis(800)];

/// The [`waybill_core::ports::ObjectStore`] on S3.
#[derive(Clone)]
pub struct S3Objects {
    client: aws_sdk_s3::Client,
    bucket: String,
}

impl S3Objects {
    pub fn new(config: &SdkConfig, bucket: impl Into<String>) -> Self {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT)
            .operation_attempt_timeout(ATTEMPT)
            .operation_timeout(OPERATION)
            .build();
        // An endpoint of one's own, such as an emulator's, seldom has a name per bucket.
        let own_endpoint = config.endpoint_url().is_some() || std::env::var_os("AWS_ENDPOINT_URL_S3").is_some();
        let s3 = Builder::from(config)
            .retry_config(RetryConfig::standard().with_max_attempts(3))
            .timeout_config(timeouts)
            .force_path_style(own_endpoint)
            .build();
        Self { client: aws_sdk_s3::Client::from_conf(s3), bucket: bucket.into() }
    }

    /// As [`ObjectStore::put_if_absent`], with the name under which a browser saves the object.
    ///
    /// # Errors
    /// As [`ObjectStore::put_if_absent`].
    pub async fn put_named(
        &self,
        key: &str,
        bytes: Bytes,
        content_type: &str,
        file_name: &str,
    ) -> Result<PutOutcome, ObjectError> {
        self.put(key, bytes, content_type, Some(content_disposition(file_name))).await
    }

    async fn put(
        &self,
        key: &str,
        bytes: Bytes,
        content_type: &str,
        disposition: Option<String>,
    ) -> Result<PutOutcome, ObjectError> {
        check_object_key(key)?;
        let mut delays = CONFLICT_DELAYS.into_iter();
        loop {
            let error = match self.put_once(key, bytes.clone(), content_type, disposition.clone()).await {
                Ok(()) => return Ok(PutOutcome::Created),
                Err(error) => error,
            };
            match (errors::status(&error), delays.next()) {
                (Some(412), _) => return Ok(PutOutcome::Existed),
                (Some(409), Some(delay)) => tokio::time::sleep(delay).await,
                _ => return Err(self.refused("PutObject", &error)),
            }
        }
    }

    async fn put_once(
        &self,
        key: &str,
        bytes: Bytes,
        content_type: &str,
        disposition: Option<String>,
    ) -> Result<(), SdkError<PutObjectError>> {
        let put = self.client.put_object().bucket(&self.bucket).key(key).if_none_match("*");
        // S3 compares the hash with what arrived, and keeps it.
        let put = put.checksum_algorithm(ChecksumAlgorithm::Sha256).content_type(content_type);
        put.set_content_disposition(disposition).body(ByteStream::from(bytes)).send().await.map(drop)
    }

    fn refused<E>(&self, call: &str, error: &SdkError<E>) -> ObjectError
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
    {
        let refused = errors::classify(call, &self.bucket, error);
        if matches!(refused, ObjectError::Denied(_)) {
            metrics::counter!("waybill_objects_denied_total", "call" => call.to_owned()).increment(1);
            tracing::warn!(error = %refused, "objects.denied");
        }
        refused
    }
}

/// The whole body, if it stays below the limit and comes in time.
async fn collect(mut body: ByteStream, announced: Option<i64>) -> Result<Bytes, ObjectError> {
    let too_large =
        || ObjectError::Unavailable(format!("the object is larger than the limit of {MAX_OBJECT_BYTES} octets"));
    let announced = announced.and_then(|length| u64::try_from(length).ok()).unwrap_or_default();
    if announced > MAX_OBJECT_BYTES {
        return Err(too_large());
    }
    let read = async {
        let mut bytes = BytesMut::with_capacity(usize::try_from(announced).unwrap_or_default());
        while let Some(chunk) = body.next().await {
            bytes.extend_from_slice(
                &chunk.map_err(|e| errors::unavailable(format!("GetObject: its body broke off: {}", causes(&e))))?,
            );
            if bytes.len() as u64 > MAX_OBJECT_BYTES {
                return Err(too_large());
            }
        }
        Ok(bytes.freeze())
    };
    tokio::time::timeout(OPERATION, read)
        .await
        .map_err(|_| ObjectError::Unavailable(format!("GetObject: its body was not complete within {OPERATION:?}")))?
}

#[async_trait]
impl ObjectStore for S3Objects {
    async fn put_if_absent(&self, key: &str, bytes: Bytes, content_type: &str) -> Result<PutOutcome, ObjectError> {
        self.put(key, bytes, content_type, None).await
    }

    async fn get(&self, key: &str) -> Result<Option<Bytes>, ObjectError> {
        check_object_key(key)?;
        match self.client.get_object().bucket(&self.bucket).key(key).send().await {
            Ok(found) => Ok(Some(collect(found.body, found.content_length).await?)),
            Err(error) if error.code() == Some("NoSuchKey") => Ok(None),
            Err(error) => Err(self.refused("GetObject", &error)),
        }
    }

    async fn head(&self, key: &str) -> Result<Option<ObjectInfo>, ObjectError> {
        check_object_key(key)?;
        match self.client.head_object().bucket(&self.bucket).key(key).send().await {
            Ok(found) => {
                let size = found.content_length.and_then(|length| u64::try_from(length).ok());
                let size = size.ok_or_else(|| errors::unavailable("HeadObject: the answer has no length"))?;
                Ok(Some(ObjectInfo { size }))
            }
            // An answer to HEAD has no body, so a missing bucket looks the same.
            Err(error) if errors::status(&error) == Some(404) => Ok(None),
            Err(error) => Err(self.refused("HeadObject", &error)),
        }
    }
}
