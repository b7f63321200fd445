//! When two deliveries are "the same thing".
//!
//! `identity = SHA-256(len-prefixed: tenant, channel, recipient_key, document type or template, subject, revision)`, with the nonce of a
//! deliberate repeat as one more part. Length prefixes keep one recipient's text from forging another's identity, and the hash keeps
//! addresses out of Redis.

use crate::{address::Channel, ids::TenantId};
use sha2::{Digest, Sha256};
use std::fmt;

/// The 32 bytes that the lock key and the claim's primary key are made of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity(pub [u8; 32]);

impl Identity {
    /// The Redis key: nothing readable in it.
    pub fn lock_key(&self) -> String {
        format!("notif:{}", hex::encode(self.0))
    }

    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({}…)", hex::encode(&self.0[..6]))
    }
}

/// What an identity is made of.
#[derive(Debug, Clone, Copy)]
pub struct Parts<'a> {
    pub tenant: TenantId,
    pub channel: Channel,
    /// [`crate::address::EmailAddress::key`] or the channel's equivalent.
    pub recipient_key: &'a str,
    /// The document type, or the template's name for a message without a document.
    pub content: &'a str,
    /// The business object; the job's id where the event names none, so that two notifications never collapse because they look alike.
    pub subject: &'a str,
    pub revision: &'a str,
    /// Set by `dedupe: "none"` and by an explicit resend.
    pub nonce: Option<&'a str>,
}

impl Parts<'_> {
    pub fn identity(&self) -> Identity {
        let mut hash = self.lineage_hash();
        part(&mut hash, self.revision);
        if let Some(nonce) = self.nonce {
            part(&mut hash, nonce);
        }
        Identity(hash.finalize().into())
    }

    /// The same without the revision: what all revisions of one document for one recipient share. Used to tell that a newer one went out.
    pub fn lineage(&self) -> [u8; 32] {
        self.lineage_hash().finalize().into()
    }

    fn lineage_hash(&self) -> Sha256 {
        let mut hash = Sha256::new();
        part(&mut hash, &self.tenant.to_string());
        part(&mut hash, self.channel.as_str());
        part(&mut hash, self.recipient_key);
        part(&mut hash, self.content);
        part(&mut hash, self.subject);
        hash
    }
}

fn part(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_be_bytes());
    hash.update(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn parts<'a>(recipient_key: &'a str, subject: &'a str) -> Parts<'a> {
        Parts {
            tenant: TenantId(Uuid::nil()),
            channel: Channel::Email,
            recipient_key,
            content: "purchase_order",
            subject,
            revision: "1",
            nonce: None,
        }
    }

    #[test]
    fn rl_04_text_can_t_move_from_one_part_to_the_next() {
        assert_ne!(parts("\"b:c\"@example.test", "a").identity(), parts("c\"@example.test", "a:\"b").identity());
        assert_ne!(parts("ab", "c").identity(), parts("a", "bc").identity());
    }

    #[test]
    fn every_part_counts_and_the_lineage_leaves_the_revision_out() {
        let base = parts("a@example.test", "PO-1");
        let other = TenantId(Uuid::from_u128(1));
        for changed in [
            Parts { tenant: other, ..base },
            Parts { recipient_key: "b@example.test", ..base },
            Parts { content: "invoice", ..base },
            Parts { subject: "PO-2", ..base },
            Parts { revision: "2", ..base },
            Parts { nonce: Some("again"), ..base },
        ] {
            assert_ne!(changed.identity(), base.identity(), "{changed:?}");
        }
        assert_eq!(Parts { revision: "2", ..base }.lineage(), base.lineage());
        assert_ne!(Parts { subject: "PO-2", ..base }.lineage(), base.lineage());
    }

    #[test]
    fn the_lock_key_shows_nothing() {
        let key = parts("ana@example.test", "PO-1").identity().lock_key();
        assert!(key.starts_with("notif:") && key.len() == 6 + 64 && !key.contains("ana"));
    }
}
