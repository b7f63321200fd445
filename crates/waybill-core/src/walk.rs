//! One pass over the provider list, as a state machine without I/O.
//!
//! A pass may be cut in pieces: an unknown outcome under `reconcile` parks the delivery in UNKNOWN and the pass goes on behind that
//! provider when no event settled it. An attempt (what `max_attempts` counts) is a whole pass, so the position is kept with the delivery.
//!
//! A provider with an idempotency key is asked a second time before the next one, with the same key and the same bytes: if it has the
//! mail it says so, and sends nothing. That second call is a step of its own, so that it is made at most once in a pass, whoever goes on
//! with it.

use crate::{
    outcome::{OnUnknown, Outcome},
    policy::RetryPolicy,
    state::Reason,
};
use std::time::Duration;

/// The calls that a pass may make, in their order. A pass's position counts these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps(Vec<Step>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    /// Index in the provider list.
    provider: usize,
    /// The second call with the same key; passed over unless the first one's outcome was unknown.
    repeat: bool,
}

impl Steps {
    /// `keys`: per provider, how long it remembers an idempotency key ([`crate::ports::Provider::idempotent`]). `window` is the wait that
    /// may lie between a call and its repeat; a key that doesn't outlive it would only send once more.
    pub fn of(keys: impl IntoIterator<Item = Option<Duration>>, window: Duration) -> Self {
        let mut steps = Vec::new();
        for (provider, key) in keys.into_iter().enumerate() {
            steps.push(Step { provider, repeat: false });
            if key.is_some_and(|life| life > window) {
                steps.push(Step { provider, repeat: true });
            }
        }
        Self(steps)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where a pass begins for a claim whose delivery was kept at `position`. Behind the last step stands only what a person sends again, or
    /// what outlived its list of providers: from the first one, since a pass that calls nobody would count as one that everybody refused.
    pub fn entry(&self, position: usize) -> usize {
        if position < self.len() { position } else { 0 }
    }

    fn is_repeat(&self, position: usize) -> bool {
        self.0.get(position).is_some_and(|step| step.repeat)
    }
}

/// That many providers, none of which knows an idempotency key.
impl From<usize> for Steps {
    fn from(providers: usize) -> Self {
        Self::of(std::iter::repeat_n(None, providers), Duration::ZERO)
    }
}

/// Where a pass stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// Index of the next step.
    position: usize,
    steps: Steps,
    seen: Seen,
    longest_retry_after: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Seen {
    rejected_message: bool,
    unusable: bool,
    throttled: bool,
    /// Anything else that a later try may cure.
    temporary: bool,
}

/// What follows a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Call the provider at this index of the list.
    Call(usize),
    /// The pass is over.
    End(Verdict),
}

/// How a pass (or a piece of it) ends. The store turns each into one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// SENT.
    Sent { provider: usize, provider_message_id: String },
    /// UNKNOWN; the pass goes on at the step `position` when nothing settles it (never by itself under `hold`).
    Unknown { provider: usize, position: usize, hold: bool },
    /// RETRYING without an attempt burnt: every provider that could take it is unusable or limits us, or the claim did not last.
    Hold { delay: Duration, why: HoldReason },
    /// RETRYING; this pass counts as an attempt.
    Retry { delay: Duration },
    /// FAILED. `dead_letter` when it is our side's or a provider's fault, not the recipient's or the message's.
    Failed { reason: Reason, dead_letter: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldReason {
    AllProvidersUnusable,
    /// At least one provider limits our rate, and none was down.
    Throttled,
    /// The monotonic clock says that the next call might outlive the claim.
    ClaimTooShort,
    /// A fact (a late acceptance, a provider's event, a person's word) took the claim away before the first call.
    ClaimLost,
    /// The process is stopping.
    Stopping,
}

impl Pass {
    /// Starts (or goes on with) a pass at `position` of `steps`.
    pub fn resume(position: usize, steps: impl Into<Steps>) -> Self {
        // A pass that was cut had an unknown outcome before the cut.
        let seen = Seen { temporary: position > 0, ..Seen::default() };
        Self { position, steps: steps.into(), seen, longest_retry_after: Duration::ZERO }
    }

    /// Index of the next step: where somebody else would have to go on.
    pub fn position(&self) -> usize {
        self.position
    }

    /// What to do first. `attempts_done` are whole passes before this one; `jitter` is uniform in `[0, 1)`.
    pub fn start(&self, policy: &RetryPolicy, attempts_done: u32, jitter: f64) -> Next {
        match self.steps.0.get(self.position) {
            Some(step) => Next::Call(step.provider),
            None => Next::End(self.exhausted(policy, attempts_done, jitter)),
        }
    }

    /// Takes the outcome of the call at the current position.
    pub fn after(
        &mut self,
        outcome: &Outcome,
        on_unknown: OnUnknown,
        policy: &RetryPolicy,
        attempts_done: u32,
        jitter: f64,
    ) -> Next {
        // Beyond the last step nobody was called, and there is no outcome to take.
        let Some(provider) = self.steps.0.get(self.position).map(|step| step.provider) else {
            return self.start(policy, attempts_done, jitter);
        };
        let mut next = self.position + 1;
        if !matches!(outcome, Outcome::Unknown { .. }) && self.steps.is_repeat(next) {
            next += 1;
        }
        match outcome {
            Outcome::Accepted { provider_message_id } => {
                return Next::End(Verdict::Sent { provider, provider_message_id: provider_message_id.clone() });
            }
            Outcome::RejectedRecipient { .. } => {
                return Next::End(Verdict::Failed { reason: Reason::RecipientRejected, dead_letter: false });
            }
            Outcome::RejectedMessage { .. } => self.seen.rejected_message = true,
            Outcome::Unusable { .. } => self.seen.unusable = true,
            Outcome::Throttled { retry_after, .. } => {
                self.seen.throttled = true;
                self.longest_retry_after = self.longest_retry_after.max(retry_after.unwrap_or_default());
            }
            Outcome::Unavailable { .. } => self.seen.temporary = true,
            Outcome::Unknown { .. } => {
                self.seen.temporary = true;
                match on_unknown {
                    OnUnknown::Failover => {}
                    OnUnknown::Reconcile => {
                        return Next::End(Verdict::Unknown { provider, position: next, hold: false });
                    }
                    OnUnknown::Hold => {
                        return Next::End(Verdict::Unknown { provider, position: next, hold: true });
                    }
                }
            }
        }
        self.position = next;
        self.start(policy, attempts_done, jitter)
    }

    fn exhausted(&self, policy: &RetryPolicy, attempts_done: u32, jitter: f64) -> Verdict {
        if !self.seen.temporary {
            // A limit is no failure: it says that the mail may go later. It is ours to wait, however long that takes.
            if self.seen.throttled {
                let delay = policy.backoff(attempts_done + 1, jitter).max(self.longest_retry_after);
                return Verdict::Hold { delay, why: HoldReason::Throttled };
            }
            // Nothing that waiting for a provider's recovery could cure, except an account that somebody repairs.
            if self.seen.unusable {
                return Verdict::Hold { delay: policy.hold_delay, why: HoldReason::AllProvidersUnusable };
            }
            if self.seen.rejected_message {
                return Verdict::Failed { reason: Reason::ProviderRejected, dead_letter: false };
            }
        }
        let attempts = attempts_done + 1;
        if attempts >= policy.max_attempts {
            return Verdict::Failed { reason: Reason::ProvidersExhausted, dead_letter: true };
        }
        // Never earlier than the provider asked for.
        Verdict::Retry { delay: policy.backoff(attempts, jitter).max(self.longest_retry_after) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> RetryPolicy {
        RetryPolicy {
            max_attempts: 3,
            base: Duration::from_secs(10),
            cap: Duration::from_secs(600),
            hold_delay: Duration::from_secs(60),
        }
    }
    fn id() -> Outcome {
        Outcome::Accepted { provider_message_id: "m".into() }
    }
    fn d() -> String {
        String::new()
    }

    /// Runs a pass over scripted outcomes and says which providers were called.
    fn run(position: usize, attempts_done: u32, on_unknown: OnUnknown, script: &[Outcome]) -> (Vec<usize>, Verdict) {
        run_steps(Pass::resume(position, 2), attempts_done, on_unknown, script)
    }

    /// The same over three providers, the one in the middle with an idempotency key: steps 1 and 2 are its calls.
    fn run_with_key(position: usize, on_unknown: OnUnknown, script: &[Outcome]) -> (Vec<usize>, Verdict) {
        let keys = [None, Some(Duration::from_secs(86_400)), None];
        let pass = Pass::resume(position, Steps::of(keys, Duration::from_secs(15)));
        run_steps(pass, 0, on_unknown, script)
    }

    fn run_steps(
        mut pass: Pass,
        attempts_done: u32,
        on_unknown: OnUnknown,
        script: &[Outcome],
    ) -> (Vec<usize>, Verdict) {
        let mut called = Vec::new();
        let mut next = pass.start(&policy(), attempts_done, 1.0);
        loop {
            match next {
                Next::End(verdict) => return (called, verdict),
                Next::Call(provider) => {
                    called.push(provider);
                    next = pass.after(&script[called.len() - 1], on_unknown, &policy(), attempts_done, 1.0);
                }
            }
        }
    }

    #[test]
    fn the_first_acceptance_ends_the_pass() {
        let (called, verdict) = run(0, 0, OnUnknown::Reconcile, &[id()]);
        assert_eq!((called, verdict), (vec![0], Verdict::Sent { provider: 0, provider_message_id: "m".into() }));
    }

    #[test]
    fn certain_refusals_go_to_the_next_provider() {
        for refusal in [
            Outcome::Unavailable { detail: d() },
            Outcome::Throttled { retry_after: None, detail: d() },
            Outcome::Unusable { detail: d() },
            Outcome::RejectedMessage { detail: d() },
        ] {
            let (called, verdict) = run(0, 0, OnUnknown::Reconcile, &[refusal, id()]);
            assert_eq!(called, [0, 1]);
            assert!(matches!(verdict, Verdict::Sent { provider: 1, .. }));
        }
    }

    #[test]
    fn a_rejected_recipient_is_not_tried_elsewhere_and_is_no_dead_letter() {
        let (called, verdict) = run(0, 0, OnUnknown::Failover, &[Outcome::RejectedRecipient { detail: d() }]);
        assert_eq!(
            (called, verdict),
            (vec![0], Verdict::Failed { reason: Reason::RecipientRejected, dead_letter: false })
        );
    }

    #[test]
    fn an_unknown_outcome_waits_fails_over_or_holds_by_policy() {
        let unknown = || Outcome::Unknown { detail: d() };
        assert_eq!(
            run(0, 0, OnUnknown::Reconcile, &[unknown()]).1,
            Verdict::Unknown { provider: 0, position: 1, hold: false }
        );
        assert_eq!(
            run(0, 0, OnUnknown::Hold, &[unknown()]).1,
            Verdict::Unknown { provider: 0, position: 1, hold: true }
        );
        assert!(matches!(run(0, 0, OnUnknown::Failover, &[unknown(), id()]).1, Verdict::Sent { provider: 1, .. }));
        // After the reconciliation the pass goes on behind the provider that was silent.
        assert_eq!(run(1, 0, OnUnknown::Reconcile, &[id()]).0, [1]);
        // What was unknown before the cut may be cured by a later try, whatever the others say.
        assert!(matches!(
            run(1, 0, OnUnknown::Reconcile, &[Outcome::Unusable { detail: d() }]).1,
            Verdict::Retry { .. }
        ));
        // A claim of what was left there begins at the first one again.
        assert_eq!([0, 1, 2, 9].map(|position| Steps::from(2).entry(position)), [0, 1, 0, 0]);
        // Behind the last one the pass is over and counts as one attempt.
        assert!(matches!(run(2, 0, OnUnknown::Reconcile, &[]).1, Verdict::Retry { .. }));
        assert_eq!(
            run(2, 2, OnUnknown::Reconcile, &[]).1,
            Verdict::Failed { reason: Reason::ProvidersExhausted, dead_letter: true }
        );
    }

    #[test]
    fn a_provider_with_an_idempotency_key_is_asked_again_before_the_next_one() {
        let unknown = || Outcome::Unknown { detail: d() };
        let down = || Outcome::Unavailable { detail: d() };
        // Failover: at once, and it says that it has the mail.
        let sent = Verdict::Sent { provider: 1, provider_message_id: "m".into() };
        assert_eq!(run_with_key(0, OnUnknown::Failover, &[down(), unknown(), id()]), (vec![0, 1, 1], sent.clone()));
        // Reconcile: after the window.
        let (called, verdict) = run_with_key(0, OnUnknown::Reconcile, &[down(), unknown()]);
        assert_eq!((called, verdict), (vec![0, 1], Verdict::Unknown { provider: 1, position: 2, hold: false }));
        assert_eq!(run_with_key(2, OnUnknown::Reconcile, &[id()]), (vec![1], sent.clone()));
        // Hold: when a person says so, the key still answers first.
        let (_, verdict) = run_with_key(1, OnUnknown::Hold, &[unknown()]);
        assert_eq!(verdict, Verdict::Unknown { provider: 1, position: 2, hold: true });
    }

    #[test]
    fn it_is_asked_again_once_and_only_after_an_unknown_outcome() {
        let unknown = || Outcome::Unknown { detail: d() };
        let down = || Outcome::Unavailable { detail: d() };
        let last = Verdict::Sent { provider: 2, provider_message_id: "m".into() };
        // Still unknown after the repeat: the next provider, by the policy.
        assert_eq!(run_with_key(1, OnUnknown::Failover, &[unknown(), unknown(), id()]), (vec![1, 1, 2], last.clone()));
        let (called, verdict) = run_with_key(2, OnUnknown::Reconcile, &[unknown()]);
        assert_eq!((called, verdict), (vec![1], Verdict::Unknown { provider: 1, position: 3, hold: false }));
        // A certain refusal leaves nothing to ask for, first or second time.
        assert_eq!(run_with_key(1, OnUnknown::Failover, &[down(), id()]), (vec![1, 2], last.clone()));
        assert_eq!(run_with_key(2, OnUnknown::Failover, &[down(), id()]), (vec![1, 2], last));
        // Others have no second step.
        let (called, verdict) = run_with_key(0, OnUnknown::Reconcile, &[unknown()]);
        assert_eq!((called, verdict), (vec![0], Verdict::Unknown { provider: 0, position: 1, hold: false }));
    }

    #[test]
    fn a_key_that_is_forgotten_before_the_window_ends_is_not_relied_on() {
        let window = Duration::from_secs(15);
        let steps = |life: u64| Steps::of([Some(Duration::from_secs(life)), None], window);
        assert_eq!((steps(16).len(), steps(15).len()), (3, 2));
        assert_eq!(steps(15), Steps::from(2));
    }

    #[test]
    fn ses_01_accounts_that_can_t_send_burn_no_attempts() {
        let unusable = || Outcome::Unusable { detail: d() };
        let held = Verdict::Hold { delay: Duration::from_secs(60), why: HoldReason::AllProvidersUnusable };
        assert_eq!(run(0, 2, OnUnknown::Reconcile, &[unusable(), unusable()]).1, held);
        assert_eq!(run(0, 2, OnUnknown::Reconcile, &[unusable(), Outcome::RejectedMessage { detail: d() }]).1, held);
    }

    #[test]
    fn a_limit_burns_no_attempt_unless_another_provider_was_down() {
        let limited =
            |seconds: u64| Outcome::Throttled { retry_after: Some(Duration::from_secs(seconds)), detail: d() };
        let held = |seconds: u64| Verdict::Hold { delay: Duration::from_secs(seconds), why: HoldReason::Throttled };
        // Never earlier than any of them asked for, and never at once: as long as after the failed attempts so far.
        assert_eq!(run(0, 0, OnUnknown::Reconcile, &[limited(300), limited(2)]).1, held(300));
        assert_eq!(run(0, 2, OnUnknown::Reconcile, &[limited(1), limited(2)]).1, held(40));
        let (unusable, rejected) = (Outcome::Unusable { detail: d() }, Outcome::RejectedMessage { detail: d() });
        assert_eq!(run(0, 2, OnUnknown::Reconcile, &[unusable, limited(1)]).1, held(40));
        assert_eq!(run(0, 2, OnUnknown::Reconcile, &[limited(1), rejected]).1, held(40));
        // What was down may be down for good.
        assert!(matches!(
            run(0, 2, OnUnknown::Reconcile, &[limited(1), Outcome::Unavailable { detail: d() }]).1,
            Verdict::Failed { reason: Reason::ProvidersExhausted, .. }
        ));
    }

    #[test]
    fn a_message_that_nobody_takes_fails_at_once_and_is_no_dead_letter() {
        let rejected = || Outcome::RejectedMessage { detail: d() };
        assert_eq!(
            run(0, 0, OnUnknown::Reconcile, &[rejected(), rejected()]).1,
            Verdict::Failed { reason: Reason::ProviderRejected, dead_letter: false }
        );
    }

    #[test]
    fn attempts_run_out_into_a_dead_letter_and_retry_after_is_obeyed() {
        let down = || Outcome::Unavailable { detail: d() };
        assert_eq!(
            run(0, 0, OnUnknown::Reconcile, &[down(), down()]).1,
            Verdict::Retry { delay: Duration::from_secs(10) }
        );
        assert_eq!(
            run(0, 1, OnUnknown::Reconcile, &[down(), down()]).1,
            Verdict::Retry { delay: Duration::from_secs(20) }
        );
        assert_eq!(
            run(0, 2, OnUnknown::Reconcile, &[down(), down()]).1,
            Verdict::Failed { reason: Reason::ProvidersExhausted, dead_letter: true }
        );
        let throttled = Outcome::Throttled { retry_after: Some(Duration::from_secs(300)), detail: d() };
        assert_eq!(
            run(0, 0, OnUnknown::Reconcile, &[throttled, down()]).1,
            Verdict::Retry { delay: Duration::from_secs(300) }
        );
    }
}
