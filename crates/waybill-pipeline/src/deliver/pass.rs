//! The pass over the provider list for one claimed delivery. Holds no connection and no transaction.

use super::{Deliverer, Granted, Ticket, compose::NoMail};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use waybill_core::{
    mail::OutgoingMail,
    outcome::{OnUnknown, Outcome},
    state::Reason,
    text::storable,
    walk::{HoldReason, Next, Pass, Verdict},
};
use waybill_store::{AttemptResult, Content, LoadedDelivery, Recorded};

/// What came of a pass.
pub(super) struct Finished {
    pub(super) result: AttemptResult,
    /// The last call ended after the claim did: if it was accepted, this is the window that no protocol closes.
    pub(super) overslept: bool,
}

/// Characters of a provider's words that are kept per call.
const DETAIL: usize = 300;

impl Deliverer {
    /// Steps 7 to 10 for one delivery.
    pub(super) async fn send(
        self: Arc<Self>,
        delivery: LoadedDelivery,
        content: Arc<Content>,
        granted: Granted,
        ticket: Option<Ticket>,
        stopping: CancellationToken,
    ) {
        let mut walk = Walk {
            worker: &self,
            delivery: &delivery,
            content: &content,
            granted: &granted,
            stopping: &stopping,
            position: granted.position,
            calls: Vec::new(),
            last_detail: String::new(),
        };
        let verdict = walk.run().await;
        let result = AttemptResult {
            delivery: delivery.id,
            tenant: delivery.tenant,
            identity: delivery.identity,
            token: granted.token,
            attempt: granted.attempt,
            result: walk.recorded(&verdict),
            calls: serde_json::Value::Array(std::mem::take(&mut walk.calls)),
        };
        let overslept = self.context.clock.monotonic() > granted.until;
        self.conclude(&delivery, Finished { result, overslept }, ticket).await;
    }
}

struct Walk<'a> {
    worker: &'a Arc<Deliverer>,
    delivery: &'a LoadedDelivery,
    content: &'a Arc<Content>,
    granted: &'a Granted,
    stopping: &'a CancellationToken,
    /// The step that is next, or being taken.
    position: usize,
    calls: Vec<serde_json::Value>,
    last_detail: String,
}

impl Walk<'_> {
    async fn run(&mut self) -> Verdict {
        let context = &self.worker.context;
        let retry = &context.settings.retry;
        let mut pass = Pass::resume(self.granted.position, context.steps());
        let mut next = pass.start(retry, self.granted.attempts, context.chance.unit());
        if let Next::End(verdict) = next {
            return verdict;
        }
        let mail = match self.worker.compose(self.delivery, self.content, self.granted).await {
            Ok(mail) => mail,
            Err(no_mail) => return self.without_mail(no_mail, pass),
        };
        if self.granted.again && !self.claim_stands().await {
            metrics::counter!("waybill_claims_given_up_total").increment(1);
            return Verdict::Hold { delay: Duration::ZERO, why: HoldReason::ClaimLost };
        }
        loop {
            let provider = match next {
                Next::End(verdict) => return verdict,
                Next::Call(provider) => provider,
            };
            self.position = pass.position();
            if let Some(hold) = self.may_not_call(provider) {
                return hold;
            }
            let outcome = self.call(provider, &mail).await;
            next = pass.after(&outcome, self.on_unknown(provider), retry, self.granted.attempts, context.chance.unit());
        }
    }

    /// An earlier claim of this identity may have been accepted after all, and its result, or a provider's event about it, may have come
    /// while the mail was being made: then it is sent, and this claim is gone. The clock can't say so. A first claim has no such past, and asks nobody.
    async fn claim_stands(&self) -> bool {
        let (delivery, token) = (self.delivery, self.granted.token);
        let held = self.worker.context.store.holds_claim(delivery.tenant, delivery.identity, delivery.id, token).await;
        // A database that can't be asked can't record either: nothing is sent while the authority is away.
        held.unwrap_or(false)
    }

    /// Asks the monotonic clock whether a call still fits before the claim's end, and whether the process is stopping.
    fn may_not_call(&self, provider: usize) -> Option<Verdict> {
        let context = &self.worker.context;
        let needed = context.providers[provider].timeout() + context.settings.timings.claim_margin;
        if context.clock.monotonic() + needed > self.granted.until {
            metrics::counter!("waybill_claims_given_up_total").increment(1);
            return Some(Verdict::Hold { delay: Duration::ZERO, why: HoldReason::ClaimTooShort });
        }
        // A pass that was begun may end with the call it is in; the next provider is another process's business.
        (self.stopping.is_cancelled() && !self.calls.is_empty())
            .then_some(Verdict::Hold { delay: Duration::ZERO, why: HoldReason::Stopping })
    }

    async fn call(&mut self, provider: usize, mail: &OutgoingMail) -> Outcome {
        let context = &self.worker.context;
        let provider = &context.providers[provider];
        let started = context.clock.monotonic();
        // A mail that is too large for it is refused by the adapter, without a call.
        let outcome = provider.send(mail).await;
        let took = context.clock.monotonic().saturating_sub(started);
        metrics::histogram!("waybill_provider_call_seconds", "provider" => provider.name()).record(took.as_secs_f64());
        self.note(provider.name(), &outcome, took);
        context.alerts.provider_outcome(provider.name(), &outcome).await;
        outcome
    }

    fn note(&mut self, provider: &str, outcome: &Outcome, took: Duration) {
        let detail = storable(outcome.detail(), DETAIL);
        let id = if let Outcome::Accepted { provider_message_id } = outcome {
            Some(storable(provider_message_id, DETAIL))
        } else {
            None
        };
        self.calls.push(json!({ "provider": provider, "outcome": outcome.as_str(), "detail": detail, "provider_message_id": id, "ms": took.as_millis() as u64 }));
        if !detail.is_empty() {
            self.last_detail = format!("{provider}: {detail}");
        }
    }

    fn without_mail(&mut self, no_mail: NoMail, mut pass: Pass) -> Verdict {
        let missing = matches!(no_mail, NoMail::Later(_));
        let outcome = Outcome::from(no_mail);
        self.note("waybill", &outcome, Duration::ZERO);
        let context = &self.worker.context;
        loop {
            // Walks to the end of the list without calling anybody.
            match pass.after(
                &outcome,
                OnUnknown::Failover,
                &context.settings.retry,
                self.granted.attempts,
                context.chance.unit(),
            ) {
                Next::Call(_) => {}
                // No provider was asked, so none is to blame.
                Next::End(Verdict::Failed { reason: Reason::ProvidersExhausted, dead_letter }) if missing => {
                    return Verdict::Failed { reason: Reason::DocumentMissing, dead_letter };
                }
                Next::End(verdict) => return verdict,
            }
        }
    }

    fn on_unknown(&self, provider: usize) -> OnUnknown {
        let route = self.content.spec.on_unknown.as_deref().and_then(OnUnknown::parse);
        OnUnknown::effective(
            route,
            self.delivery.tenant_on_unknown,
            self.worker.context.providers[provider].events_wired(),
        )
    }

    fn recorded(&self, verdict: &Verdict) -> Recorded {
        let detail = self.last_detail.clone();
        let attempts = self.granted.attempts + 1;
        let name = |provider: usize| self.worker.context.providers[provider].name().to_owned();
        match verdict {
            Verdict::Sent { provider, provider_message_id } => {
                Recorded::Sent { provider: name(*provider), provider_message_id: provider_message_id.clone() }
            }
            Verdict::Unknown { position, hold, .. } => Recorded::Unknown {
                position: *position,
                window: self.worker.context.settings.timings.reconcile_window,
                hold: *hold,
                detail,
            },
            Verdict::Hold { delay, why: HoldReason::AllProvidersUnusable } => Recorded::Hold {
                delay: *delay,
                position: 0,
                detail: format!("every provider account is unusable; waiting. {detail}"),
            },
            Verdict::Hold { delay, why: HoldReason::Throttled } => Recorded::Hold {
                delay: *delay,
                position: 0,
                detail: format!("every provider that could take it limits our rate; no attempt was used. {detail}"),
            },
            Verdict::Hold { delay, why: HoldReason::ClaimTooShort | HoldReason::ClaimLost | HoldReason::Stopping } => {
                Recorded::Hold {
                    delay: *delay,
                    position: self.position,
                    detail: "given back before the next call; no attempt was used".into(),
                }
            }
            Verdict::Retry { delay } => Recorded::Retry { delay: *delay, attempts, position: 0, detail },
            Verdict::Failed { reason, dead_letter } => {
                Recorded::Failed { reason: *reason, dead_letter: *dead_letter, attempts, detail }
            }
        }
    }
}
