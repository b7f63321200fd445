//! Where accepted mails are kept: a ring of the newest mails, with equal attachments stored once.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;

use crate::mail::Mail;

/// Upper bound of the texts and attachments kept, whatever the number of mails, so that 20,000 large mails can't
/// fill a laptop's memory.
const MAX_BYTES: usize = 512 * 1024 * 1024;

/// The newest mails. All locks are held for pointer moves only; hashing happens before.
pub(crate) struct MailStore {
    max_mails: usize,
    max_bytes: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    mails: VecDeque<Arc<Mail>>,
    by_id: HashMap<String, Arc<Mail>>,
    blobs: HashMap<[u8; 32], Blob>,
    bytes: usize,
}

struct Blob {
    content: Bytes,
    uses: usize,
}

impl MailStore {
    pub(crate) fn new(max_mails: usize) -> Self {
        Self::with_bounds(max_mails, MAX_BYTES)
    }

    pub(crate) fn with_bounds(max_mails: usize, max_bytes: usize) -> Self {
        MailStore { max_mails, max_bytes, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is valid after every statement, so a panic elsewhere must not take the mailbox with it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the mail and drops the oldest ones beyond the bounds.
    pub(crate) fn push(&self, mut mail: Arc<Mail>) {
        let mut state = self.state();
        state.share_blobs(&mut mail);
        state.bytes += text_bytes(&mail);
        state.by_id.insert(mail.id.clone(), Arc::clone(&mail));
        state.mails.push_back(mail);
        while state.mails.len() > self.max_mails || state.bytes > self.max_bytes {
            if !state.drop_oldest() {
                break;
            }
        }
    }

    pub(crate) fn find(&self, id: &str) -> Option<Arc<Mail>> {
        self.state().by_id.get(id).cloned()
    }

    /// Newest first.
    pub(crate) fn newest(&self) -> Vec<Arc<Mail>> {
        self.state().mails.iter().rev().cloned().collect()
    }

    pub(crate) fn clear(&self) {
        // Dropped outside the lock: freeing many mails takes a while.
        let old = std::mem::take(&mut *self.state());
        drop(old);
    }
}

impl State {
    /// Points equal attachments at one allocation and counts its users.
    fn share_blobs(&mut self, mail: &mut Arc<Mail>) {
        // The caller has just made this mail, so it is not shared and nothing is cloned here.
        for attachment in &mut Arc::make_mut(mail).attachments {
            let blob = self.blobs.entry(attachment.sha256).or_insert_with(|| {
                self.bytes += attachment.content.len();
                Blob { content: attachment.content.clone(), uses: 0 }
            });
            blob.uses += 1;
            attachment.content = blob.content.clone();
        }
    }

    fn drop_oldest(&mut self) -> bool {
        let Some(mail) = self.mails.pop_front() else { return false };
        self.by_id.remove(&mail.id);
        self.bytes = self.bytes.saturating_sub(text_bytes(&mail));
        for attachment in &mail.attachments {
            if let Some(blob) = self.blobs.get_mut(&attachment.sha256) {
                blob.uses -= 1;
                if blob.uses == 0 {
                    self.bytes = self.bytes.saturating_sub(blob.content.len());
                    self.blobs.remove(&attachment.sha256);
                }
            }
        }
        true
    }
}

fn text_bytes(mail: &Mail) -> usize {
    let headers: usize = mail.headers.iter().map(|header| header.name.len() + header.value.len()).sum();
    mail.subject.len() + mail.text.as_ref().map_or(0, String::len) + mail.html.as_ref().map_or(0, String::len) + headers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::{Attachment, Draft, Provider};

    fn mail(subject: &str, content: &[u8]) -> Arc<Mail> {
        let draft = Draft {
            subject: subject.to_owned(),
            attachments: vec![Attachment::new("a.pdf".to_owned(), "", content.to_vec())],
            ..Draft::default()
        };
        draft.into_mail(Provider::Ses, "m".to_owned(), chrono::Utc::now())
    }

    #[test]
    fn keeps_only_the_newest_mails() {
        let store = MailStore::new(2);
        let first = mail("1", b"x");
        let first_id = first.id.clone();
        for mail in [first, mail("2", b"x"), mail("3", b"x")] {
            store.push(mail);
        }
        let subjects: Vec<_> = store.newest().iter().map(|mail| mail.subject.clone()).collect();
        assert_eq!(subjects, ["3", "2"]);
        assert!(store.find(&first_id).is_none());
    }

    #[test]
    fn equal_attachments_share_one_allocation_until_the_last_mail_goes() {
        let store = MailStore::new(2);
        for subject in ["1", "2"] {
            store.push(mail(subject, b"same bytes"));
        }
        let kept = store.newest();
        assert_eq!(kept[0].attachments[0].content.as_ptr(), kept[1].attachments[0].content.as_ptr());
        assert_eq!(store.state().blobs.len(), 1);
        store.push(mail("3", b"other"));
        store.push(mail("4", b"other"));
        assert_eq!(store.state().blobs.len(), 1);
        assert_eq!(store.state().bytes, "34".len() + "other".len());
    }

    #[test]
    fn the_byte_bound_drops_old_mails_too() {
        let store = MailStore::with_bounds(100, 25);
        for subject in ["1", "2", "3"] {
            store.push(mail(subject, format!("ten bytes{subject}").as_bytes()));
        }
        assert_eq!(store.newest().len(), 2);
    }

    #[test]
    fn clearing_empties_everything() {
        let store = MailStore::new(2);
        store.push(mail("1", b"x"));
        store.clear();
        assert!(store.newest().is_empty());
        let state = store.state();
        assert_eq!((state.bytes, state.blobs.len()), (0, 0));
    }
}
