//! Fetching what a claim check stands for.

use super::envelope::ClaimCheck;
use crate::poison::Refusal;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use tracing::warn;
use waybill_core::ports::{ObjectError, ObjectStore};

/// Why there is no payload.
#[derive(Debug)]
pub(super) enum NoPayload {
    /// It never will be the one that was meant.
    Refused(Refusal),
    /// It may come yet: whoever sent the message may be quicker than whoever writes the object.
    Missing,
    /// Nobody knows.
    Unavailable,
}

/// Fetches the object and holds it against the claim check. Its size is asked for before a byte is read.
pub(super) async fn fetch(objects: &dyn ObjectStore, check: &ClaimCheck) -> Result<Bytes, NoPayload> {
    let info = objects.head(&check.key).await.map_err(failed)?.ok_or(NoPayload::Missing)?;
    if info.size != check.size {
        let detail = format!("the object has {} bytes, the message says {}", info.size, check.size);
        return Err(NoPayload::Refused(Refusal::new("payload_size_mismatch", detail)));
    }
    let bytes = objects.get(&check.key).await.map_err(failed)?.ok_or(NoPayload::Missing)?;
    let hash: [u8; 32] = Sha256::digest(&bytes).into();
    if hash != check.sha256 {
        let detail = format!("the object's SHA-256 is {}", hex::encode(hash));
        return Err(NoPayload::Refused(Refusal::new("payload_hash_mismatch", detail)));
    }
    Ok(bytes)
}

fn failed(error: ObjectError) -> NoPayload {
    match error {
        ObjectError::BadKey(why) => {
            NoPayload::Refused(Refusal::new("invalid_claim_check", format!("/payload/key: {why}")))
        }
        ObjectError::Unavailable(_) | ObjectError::Denied(_) => {
            warn!(error = %error, "intake.payload_unavailable");
            NoPayload::Unavailable
        }
    }
}
