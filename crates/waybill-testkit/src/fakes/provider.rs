use crate::locked;
use async_trait::async_trait;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::Semaphore;
use waybill_core::{mail::OutgoingMail, outcome::Outcome, ports::Provider};

/// What one call does.
#[derive(Debug, Clone)]
pub enum Step {
    /// Answers at once.
    Answer(Outcome),
    /// Answers after this time on tokio's clock.
    After(Duration, Outcome),
    /// Answers after [`FakeProvider::release`], however long that takes: longer than its deadline, if the test is about a worker
    /// that was frozen.
    Hang(Outcome),
}

/// A provider that follows a script and, when that is used up, accepts.
pub struct FakeProvider {
    name: &'static str,
    timeout: Duration,
    events_wired: bool,
    max_encoded_bytes: usize,
    idempotent: Option<Duration>,
    script: Mutex<VecDeque<Step>>,
    otherwise: Mutex<Option<Outcome>>,
    mails: Mutex<Vec<(OutgoingMail, Outcome)>>,
    calls: Mutex<Vec<OutgoingMail>>,
    gate: Arc<Semaphore>,
}

impl FakeProvider {
    /// Deadline 5 s, no events, 25 MiB.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            timeout: Duration::from_secs(5),
            events_wired: false,
            max_encoded_bytes: 25 * 1024 * 1024,
            idempotent: None,
            script: Mutex::default(),
            otherwise: Mutex::default(),
            mails: Mutex::default(),
            calls: Mutex::default(),
            gate: Arc::new(Semaphore::new(0)),
        }
    }

    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    #[must_use]
    pub fn with_events(mut self) -> Self {
        self.events_wired = true;
        self
    }

    #[must_use]
    pub fn with_max_encoded_bytes(mut self, max: usize) -> Self {
        self.max_encoded_bytes = max;
        self
    }

    /// It remembers idempotency keys for this long. What a repeated call gets is the script's business.
    #[must_use]
    pub fn with_keys(mut self, life: Duration) -> Self {
        self.idempotent = Some(life);
        self
    }

    /// Adds to the script.
    pub fn then(&self, step: Step) {
        locked(&self.script).push_back(step);
    }

    /// Adds outcomes to the script, answered at once.
    pub fn script(&self, outcomes: impl IntoIterator<Item = Outcome>) {
        locked(&self.script).extend(outcomes.into_iter().map(Step::Answer));
    }

    /// What calls beyond the script get; `None`: they are accepted.
    pub fn otherwise(&self, outcome: Option<Outcome>) {
        *locked(&self.otherwise) = outcome;
    }

    /// Lets one hanging call answer.
    pub fn release(&self) {
        self.gate.add_permits(1);
    }

    /// Every mail a call was begun with, in order.
    pub fn calls(&self) -> Vec<OutgoingMail> {
        locked(&self.calls).clone()
    }

    /// The mails that were accepted, in order of their answers: what a recipient would have got.
    pub fn accepted(&self) -> Vec<OutgoingMail> {
        let accepted = |(mail, outcome): &(OutgoingMail, Outcome)| {
            matches!(outcome, Outcome::Accepted { .. }).then(|| mail.clone())
        };
        locked(&self.mails).iter().filter_map(accepted).collect()
    }
}

#[async_trait]
impl Provider for FakeProvider {
    fn name(&self) -> &'static str {
        self.name
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn events_wired(&self) -> bool {
        self.events_wired
    }

    fn max_encoded_bytes(&self) -> usize {
        self.max_encoded_bytes
    }

    fn idempotent(&self) -> Option<Duration> {
        self.idempotent
    }

    async fn send(&self, mail: &OutgoingMail) -> Outcome {
        let number = {
            let mut calls = locked(&self.calls);
            calls.push(mail.clone());
            calls.len()
        };
        let step = locked(&self.script).pop_front();
        let outcome = match step {
            Some(Step::Answer(outcome)) => outcome,
            Some(Step::After(time, outcome)) => {
                tokio::time::sleep(time).await;
                outcome
            }
            Some(Step::Hang(outcome)) => {
                if let Ok(permit) = self.gate.acquire().await {
                    permit.forget();
                }
                outcome
            }
            None => locked(&self.otherwise)
                .clone()
                .unwrap_or_else(|| Outcome::Accepted { provider_message_id: format!("{}-{number}", self.name) }),
        };
        locked(&self.mails).push((mail.clone(), outcome.clone()));
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;
    use waybill_core::ids::{AttemptId, DeliveryId, JobId, TenantId};

    fn mail() -> OutgoingMail {
        let text = String::new;
        OutgoingMail {
            tenant: TenantId(Uuid::nil()),
            job: JobId(Uuid::nil()),
            delivery: DeliveryId(Uuid::nil()),
            attempt: AttemptId(Uuid::nil()),
            from: text(),
            from_name: text(),
            to: text(),
            to_name: text(),
            subject: text(),
            text: text(),
            html: text(),
            attachments: Vec::new(),
        }
    }

    #[tokio::test]
    async fn the_script_is_followed_and_then_mails_are_accepted() {
        let provider = FakeProvider::new("ses");
        let down = Outcome::Unavailable { detail: "refused".into() };
        provider.script([down.clone()]);
        assert_eq!(provider.send(&mail()).await, down);
        assert_eq!(provider.send(&mail()).await, Outcome::Accepted { provider_message_id: "ses-2".into() });
        provider.otherwise(Some(down.clone()));
        assert_eq!(provider.send(&mail()).await, down);
        assert_eq!((provider.calls().len(), provider.accepted().len()), (3, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_call_answers_when_it_is_released_and_not_before() {
        let provider = Arc::new(FakeProvider::new("ses"));
        provider.then(Step::Hang(Outcome::Unknown { detail: String::new() }));
        let call = tokio::spawn({
            let provider = provider.clone();
            async move { provider.send(&mail()).await }
        });
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(!call.is_finished());
        assert_eq!(provider.calls().len(), 1);
        provider.release();
        assert_eq!(call.await.unwrap(), Outcome::Unknown { detail: String::new() });
    }
}
