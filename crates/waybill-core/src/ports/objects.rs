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

/// S3 takes 1 to 1024 octets (Amazon S3 user guide, "Naming Amazon S3 objects").
pub const MAX_OBJECT_KEY_BYTES: usize = 1024;

/// A key that one store would refuse is refused by all of them: S3 takes nearly everything, a disk needs a plain relative path.
///
/// # Errors
/// [`ObjectError::BadKey`].
pub fn check_object_key(key: &str) -> Result<(), ObjectError> {
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\\', '\0']);
    if key.len() > MAX_OBJECT_KEY_BYTES || !key.split('/').all(plain) {
        return Err(ObjectError::BadKey(format!("not a plain relative path of at most {MAX_OBJECT_KEY_BYTES} octets")));
    }
    Ok(())
}

/// Finished documents.
#[async_trait]
pub trait ObjectStore: Send + Sync {
    /// Writes an object if its key is free; readers never see half of it.
    async fn put_if_absent(&self, key: &str, bytes: Bytes, content_type: &str) -> Result<PutOutcome, ObjectError>;

    async fn get(&self, key: &str) -> Result<Option<Bytes>, ObjectError>;

    async fn head(&self, key: &str) -> Result<Option<ObjectInfo>, ObjectError>;
}
