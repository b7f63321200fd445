use async_trait::async_trait;
use bytes::Bytes;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// Try again later.
    #[error("object store unavailable: {0}")]
    Unavailable(String),
    /// 403: not "not yet there", a person has to look.
    #[error("access to the object denied: {0}")]
    Denied(String),
    #[error("the key is not usable: {0}")]
    BadKey(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutOutcome {
    Created,
    /// Somebody finished first (S3: 412 on `If-None-Match: *`). The stored object was not touched.
    Existed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    pub size: u64,
}

/// Finished documents.
#[async_trait]
pub trait ObjectStore: Send + Sync {
    /// Writes an object if its key is free; readers never see half of it.
    async fn put_if_absent(&self, key: &str, bytes: Bytes, content_type: &str) -> Result<PutOutcome, ObjectError>;

    async fn get(&self, key: &str) -> Result<Option<Bytes>, ObjectError>;

    async fn head(&self, key: &str) -> Result<Option<ObjectInfo>, ObjectError>;
}
