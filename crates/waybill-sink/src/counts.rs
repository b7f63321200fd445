//! Exact counts of requests and acceptances; they outlive the bounded mailbox.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::Serialize;

use crate::mail::{Mail, Provider};

#[derive(Default)]
pub(crate) struct Counts {
    requests: [AtomicU64; Provider::ALL.len()],
    accepted: Mutex<Accepted>,
}

#[derive(Default)]
struct Accepted {
    by_provider: [u64; Provider::ALL.len()],
    without_delivery_id: u64,
    deliveries: Tally,
    identities: Tally,
}

/// Acceptances per key, with the duplicates kept up to date so that reading them costs nothing.
#[derive(Default)]
struct Tally {
    by_key: HashMap<Box<str>, u64>,
    repeated_keys: u64,
    repeats: u64,
}

impl Tally {
    fn add(&mut self, key: &str) {
        // Almost every key is new, but a look-up first keeps the repeats free of an allocation.
        match self.by_key.get_mut(key) {
            Some(count) => {
                *count += 1;
                self.repeats += 1;
                self.repeated_keys += u64::from(*count == 2);
            }
            None => {
                self.by_key.insert(key.into(), 1);
            }
        }
    }

    fn to_map(&self) -> HashMap<String, u64> {
        self.by_key.iter().map(|(key, count)| (key.to_string(), *count)).collect()
    }
}

/// The answer of `GET /counts`.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) accepted: u64,
    by_provider: HashMap<&'static str, u64>,
    requests: HashMap<&'static str, u64>,
    /// Acceptances that carried no `delivery_id` tag.
    without_delivery_id: u64,
    duplicates: Duplicates,
}

impl Summary {
    /// In the order of [`Provider::ALL`].
    pub(crate) fn accepted_by_provider(&self) -> impl Iterator<Item = (Provider, u64)> {
        let accepted = |provider: Provider| self.by_provider.get(provider.as_str()).copied().unwrap_or_default();
        Provider::ALL.into_iter().map(move |provider| (provider, accepted(provider)))
    }

    pub(crate) fn duplicate_deliveries(&self) -> u64 {
        self.duplicates.deliveries
    }
}

#[derive(Debug, Serialize)]
struct Duplicates {
    /// Delivery ids accepted more than once.
    deliveries: u64,
    /// Acceptances beyond the first, over all delivery ids.
    delivery_repeats: u64,
    /// Identities accepted more than once.
    identities: u64,
    identity_repeats: u64,
}

impl Counts {
    fn state(&self) -> MutexGuard<'_, Accepted> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add_request(&self, provider: Provider) {
        self.requests[provider.index()].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_acceptance(&self, mail: &Mail) {
        let mut state = self.state();
        state.by_provider[mail.provider.index()] += 1;
        match mail.delivery_id() {
            Some(id) => state.deliveries.add(id),
            None => state.without_delivery_id += 1,
        }
        if let Some(identity) = mail.identity() {
            state.identities.add(identity);
        }
    }

    pub(crate) fn requests(&self, provider: Provider) -> u64 {
        self.requests[provider.index()].load(Ordering::Relaxed)
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.state().by_provider.iter().sum()
    }

    pub(crate) fn deliveries(&self) -> HashMap<String, u64> {
        self.state().deliveries.to_map()
    }

    pub(crate) fn identities(&self) -> HashMap<String, u64> {
        self.state().identities.to_map()
    }

    pub(crate) fn summary(&self) -> Summary {
        let requests = Provider::ALL.map(|provider| (provider.as_str(), self.requests(provider))).into();
        let state = self.state();
        Summary {
            accepted: state.by_provider.iter().sum(),
            by_provider: Provider::ALL.map(|provider| (provider.as_str(), state.by_provider[provider.index()])).into(),
            requests,
            without_delivery_id: state.without_delivery_id,
            duplicates: Duplicates {
                deliveries: state.deliveries.repeated_keys,
                delivery_repeats: state.deliveries.repeats,
                identities: state.identities.repeated_keys,
                identity_repeats: state.identities.repeats,
            },
        }
    }

    pub(crate) fn reset(&self) {
        let old = std::mem::take(&mut *self.state());
        for counter in &self.requests {
            counter.store(0, Ordering::Relaxed);
        }
        drop(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_counts_keys_and_repeats_apart() {
        let mut tally = Tally::default();
        for key in ["a", "b", "a", "a"] {
            tally.add(key);
        }
        assert_eq!(tally.to_map(), HashMap::from([("a".to_owned(), 3), ("b".to_owned(), 1)]));
        assert_eq!((tally.repeated_keys, tally.repeats), (1, 2));
    }
}
