//! What is kept of a run.

/// Times of single deliveries, seconds.
#[derive(Debug, Clone, Default)]
pub struct Times(Vec<f32>);

impl Times {
    pub fn add(&mut self, seconds: f64) {
        self.0.push(seconds as f32);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// 0 without any.
    pub fn mean(&self) -> f64 {
        self.0.iter().map(|t| f64::from(*t)).sum::<f64>() / self.0.len().max(1) as f64
    }

    /// The smallest time that at least `share` of all do not exceed; 0 without any.
    pub fn percentile(&mut self, share: f64) -> f64 {
        if self.0.is_empty() {
            return 0.0;
        }
        let rank = ((share * self.0.len() as f64).ceil() as usize).clamp(1, self.0.len()) - 1;
        f64::from(*self.0.select_nth_unstable_by(rank, f32::total_cmp).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_values_themselves() {
        let mut times = Times::default();
        assert_eq!(times.percentile(0.5), 0.0);
        (1..=100).rev().for_each(|n| times.add(f64::from(n)));
        assert_eq!((times.percentile(0.5), times.percentile(0.95), times.percentile(1.0)), (50.0, 95.0, 100.0));
    }
}
