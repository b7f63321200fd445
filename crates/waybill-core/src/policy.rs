//! Attempts, backoff and timings, with the check that refuses a wrong set at start-up.

use std::time::Duration;

/// Business attempts (passes over the provider list).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    pub max_attempts: u32,
    pub base: Duration,
    pub cap: Duration,
    /// Wait while every provider account is unusable; no attempt is burnt.
    pub hold_delay: Duration,
}

impl RetryPolicy {
    /// Exponential with equal jitter: half of `base * 2^(attempt - 1)` (at most `cap`) is fixed, half is drawn by `jitter` in `[0, 1)`.
    /// `attempt` counts from 1: the one that just failed.
    pub fn backoff(&self, attempt: u32, jitter: f64) -> Duration {
        let factor = 2u32.saturating_pow(attempt.saturating_sub(1).min(20));
        let full = self.base.saturating_mul(factor).min(self.cap);
        full.div_f64(2.0) + full.div_f64(2.0).mul_f64(jitter.clamp(0.0, 1.0))
    }
}

/// All timings of the delivery protocol. [`Timings::check`] holds the inequalities of its page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timings {
    /// Total deadline of one call, per provider in the list.
    pub provider_timeouts: Vec<Duration>,
    /// What must still fit before a claim's end beside a call's time-out.
    pub claim_margin: Duration,
    /// How long a claim lasts.
    pub claim_ttl: Duration,
    /// How long the Redis lock lasts.
    pub lock_ttl: Duration,
    /// The longest that handling one batch may take.
    pub handler_timeout: Duration,
    /// Queue: how long a received message stays invisible.
    pub visibility_timeout: Duration,
    /// Queue: deliveries of one message before the queue moves it to its dead-letter queue.
    pub max_receive_count: u32,
    pub queue_retention: Duration,
    pub dead_letter_retention: Duration,
    /// How long an unknown outcome waits for a provider's event.
    pub reconcile_window: Duration,
    /// A queued delivery or job that nobody took for this long is queued again.
    pub requeue_after: Duration,
    /// An outbox row older than this is published by the relay.
    pub outbox_grace: Duration,
    /// Attempts that started and never ended before a delivery is dead-lettered as `worker_crashed`.
    pub max_crashes: u32,
    /// How long a job with an ordering key may block those behind it, from the moment when it is the first in line.
    pub order_block: Duration,
    pub document: DocumentTimings,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentTimings {
    pub max_attempts: u32,
    pub base: Duration,
    pub cap: Duration,
    pub render_timeout: Duration,
    pub claim_ttl: Duration,
    /// From routing to giving up.
    pub deadline: Duration,
}

/// One broken inequality, in words with both numbers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{rule}: {left:?} against {right:?}")]
pub struct TimingError {
    pub rule: &'static str,
    pub left: Duration,
    pub right: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            base: Duration::from_secs(10),
            cap: Duration::from_secs(900),
            hold_delay: Duration::from_secs(60),
        }
    }
}

impl Default for Timings {
    fn default() -> Self {
        let s = Duration::from_secs;
        Self {
            provider_timeouts: vec![s(10), s(10)],
            claim_margin: s(2),
            claim_ttl: s(60),
            lock_ttl: s(300),
            handler_timeout: s(30),
            visibility_timeout: s(180),
            max_receive_count: 5,
            queue_retention: s(4 * 86_400),
            dead_letter_retention: s(14 * 86_400),
            reconcile_window: s(15),
            requeue_after: s(900),
            outbox_grace: s(5),
            max_crashes: 3,
            order_block: s(3_600),
            document: DocumentTimings {
                max_attempts: 5,
                base: s(2),
                cap: s(60),
                render_timeout: s(30),
                claim_ttl: s(60),
                deadline: s(900),
            },
        }
    }
}

impl Timings {
    /// Checks the set as a whole.
    ///
    /// # Errors
    /// Every broken rule, so that one start-up shows them all.
    pub fn check(&self) -> Result<(), Vec<TimingError>> {
        let pass: Duration = self.provider_timeouts.iter().sum();
        let mut errors = Vec::new();
        let mut less = |rule, left: Duration, right: Duration| {
            if left >= right {
                errors.push(TimingError { rule, left, right });
            }
        };
        less(
            "the sum of the provider timeouts and the margin must be below the claim's expiry",
            pass + self.claim_margin,
            self.claim_ttl,
        );
        less("the claim's expiry must be below the visibility timeout", self.claim_ttl, self.visibility_timeout);
        less(
            "the claim's expiry and the reconcile window must be below the time for which an ordered job may block",
            self.claim_ttl + self.reconcile_window,
            self.order_block,
        );
        less("the sum of the provider timeouts must be below the handler timeout", pass, self.handler_timeout);
        less("the handler timeout must be below the claim's expiry", self.handler_timeout, self.claim_ttl);
        less("queue retention must be below dead-letter retention", self.queue_retention, self.dead_letter_retention);
        less("the claim's expiry must be below the lock's expiry", self.claim_ttl, self.lock_ttl);
        less(
            "the visibility timeout must be below the time after which a queued row is queued again",
            self.visibility_timeout,
            self.requeue_after,
        );
        less(
            "the time after which a queued row is queued again must be below queue retention",
            self.requeue_after,
            self.queue_retention,
        );
        less(
            "the render timeout must be below the render claim's expiry",
            self.document.render_timeout,
            self.document.claim_ttl,
        );
        less(
            "the render claim's expiry must be below the document's deadline",
            self.document.claim_ttl,
            self.document.deadline,
        );
        let six = self.handler_timeout.saturating_mul(6);
        if self.visibility_timeout < six {
            errors.push(TimingError {
                rule: "the visibility timeout must be at least 6 times the handler timeout",
                left: self.visibility_timeout,
                right: six,
            });
        }
        if self.provider_timeouts.is_empty() {
            errors.push(TimingError {
                rule: "at least one provider is needed",
                left: Duration::ZERO,
                right: Duration::ZERO,
            });
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}

impl DocumentTimings {
    /// Wait before render attempt `attempt + 1`; the same form as [`RetryPolicy::backoff`].
    pub fn backoff(&self, attempt: u32, jitter: f64) -> Duration {
        RetryPolicy { max_attempts: self.max_attempts, base: self.base, cap: self.cap, hold_delay: self.base }
            .backoff(attempt, jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn the_defaults_are_a_right_set() {
        assert_eq!(Timings::default().check(), Ok(()));
    }

    #[test]
    fn each_broken_inequality_is_named() {
        type Break = fn(&mut Timings);
        let cases: [(Break, &str); 12] = [
            (|t| t.provider_timeouts = vec![S(31), S(31)], "provider timeouts and the margin"),
            (|t| t.claim_ttl = S(180), "below the visibility timeout"),
            (|t| t.provider_timeouts = vec![S(15), S(15)], "below the handler timeout"),
            (|t| t.order_block = t.claim_ttl + t.reconcile_window, "ordered job may block"),
            (|t| t.handler_timeout = S(61), "handler timeout must be below the claim"),
            (|t| t.dead_letter_retention = t.queue_retention, "dead-letter retention"),
            (|t| t.lock_ttl = S(60), "lock's expiry"),
            (|t| t.requeue_after = S(180), "queued row is queued again"),
            (|t| t.requeue_after = t.queue_retention, "below queue retention"),
            (|t| t.document.render_timeout = S(60), "render timeout"),
            (|t| t.visibility_timeout = S(179), "at least 6 times"),
            (|t| t.provider_timeouts.clear(), "at least one provider"),
        ];
        for (change, word) in cases {
            let mut timings = Timings::default();
            change(&mut timings);
            let errors = timings.check().unwrap_err();
            assert!(errors.iter().any(|e| e.to_string().contains(word)), "{word}: {errors:?}");
        }
    }

    #[test]
    fn backoff_doubles_is_capped_and_jitters_over_its_upper_half() {
        let policy = RetryPolicy { max_attempts: 9, base: S(10), cap: S(60), hold_delay: S(1) };
        for (attempt, low, high) in
            [(1, 5, 10), (2, 10, 20), (3, 20, 40), (4, 30, 60), (30, 30, 60), (u32::MAX, 30, 60)]
        {
            assert_eq!(
                (policy.backoff(attempt, 0.0), policy.backoff(attempt, 1.0)),
                (S(low), S(high)),
                "attempt {attempt}"
            );
        }
    }
}
