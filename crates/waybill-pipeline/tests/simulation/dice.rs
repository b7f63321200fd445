//! What a seed decides.

use waybill_core::clock::Chance as _;
use waybill_testkit::clock::SeededChance;

pub(crate) struct Dice(SeededChance);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SeededChance::new(seed))
    }

    /// Uniform in `0..n`.
    pub(crate) fn below(&self, n: usize) -> usize {
        ((self.0.unit() * n as f64) as usize).min(n.saturating_sub(1))
    }

    pub(crate) fn percent(&self, percent: u32) -> bool {
        self.0.unit() * 100.0 < f64::from(percent)
    }

    pub(crate) fn pick<'a, T>(&self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// An index, each with its weight; `None` when all weights are zero.
    pub(crate) fn weighted(&self, weights: &[usize]) -> Option<usize> {
        let mut at = self.below(weights.iter().sum::<usize>().max(1));
        for (index, weight) in weights.iter().enumerate() {
            if at < *weight {
                return Some(index);
            }
            at -= weight;
        }
        None
    }
}
