//! A small cache of what was loaded recently, bounded by weight. For values that never change under their key.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    sync::Mutex,
};

pub(crate) struct Recent<K, V> {
    inner: Mutex<Inner<K, V>>,
    max_weight: usize,
}

struct Inner<K, V> {
    values: HashMap<K, (V, usize)>,
    order: VecDeque<K>,
    weight: usize,
}

impl<K: Hash + Eq + Clone, V: Clone> Recent<K, V> {
    pub(crate) fn new(max_weight: usize) -> Self {
        Self { inner: Mutex::new(Inner { values: HashMap::new(), order: VecDeque::new(), weight: 0 }), max_weight }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner<K, V>> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.lock().values.get(key).map(|(value, _)| value.clone())
    }

    /// Keeps a value; the oldest ones leave until the weight fits. What is heavier than the whole cache is not kept.
    pub(crate) fn put(&self, key: K, value: V, weight: usize) {
        if weight > self.max_weight {
            return;
        }
        let mut inner = self.lock();
        if inner.values.insert(key.clone(), (value, weight)).is_some() {
            return;
        }
        inner.order.push_back(key);
        inner.weight += weight;
        while inner.weight > self.max_weight {
            let Some(oldest) = inner.order.pop_front() else { return };
            if let Some((_, weight)) = inner.values.remove(&oldest) {
                inner.weight -= weight;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Recent;

    #[test]
    fn the_oldest_leave_when_the_weight_is_reached_and_giants_are_not_kept() {
        let cache = Recent::new(10);
        cache.put(1, "a", 6);
        cache.put(2, "b", 4);
        assert_eq!((cache.get(&1), cache.get(&2)), (Some("a"), Some("b")));
        cache.put(3, "c", 5);
        assert_eq!((cache.get(&1), cache.get(&2), cache.get(&3)), (None, Some("b"), Some("c")));
        cache.put(4, "d", 11);
        assert_eq!(cache.get(&4), None);
    }
}
