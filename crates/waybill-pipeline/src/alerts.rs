//! Alerts: one per cause, grouped and counted, with the command to run next.
//!
//! The count lives in Postgres, so that ten workers that see one failing provider ring once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tracing::warn;
use waybill_core::{
    outcome::Outcome,
    ports::{Alert, AlertCause, AlertSink},
};
use waybill_store::Store;

/// Raises alerts through every configured sink.
#[derive(Clone)]
pub struct Alerter {
    store: Store,
    sinks: Vec<Arc<dyn AlertSink>>,
    quiet: Duration,
    providers: Arc<Mutex<HashMap<&'static str, u32>>>,
}

/// Failures in a row after which a provider counts as failing.
const FAILING_AFTER: u32 = 5;

impl Alerter {
    /// `quiet`: one cause with one key rings at most once in this time.
    pub fn new(store: Store, sinks: Vec<Arc<dyn AlertSink>>, quiet: Duration) -> Self {
        Self { store, sinks, quiet, providers: Arc::default() }
    }

    /// Counts `n` more of a cause and tells people if it was quiet for long enough.
    pub async fn raise(&self, cause: AlertCause, key: &str, n: u64, message: String, command: String) {
        let noted = match self.store.note_alert(cause, key, n, self.quiet).await {
            Ok(noted) => noted,
            Err(error) => {
                warn!(cause = cause.as_str(), error = &error as &dyn std::error::Error, "alert.not_counted");
                return;
            }
        };
        if noted.notify {
            let alert = Alert { cause, key: key.to_owned(), count: noted.count, message, command };
            for sink in &self.sinks {
                sink.raise(&alert).await;
            }
        }
    }

    /// Dead letters of one batch, grouped by reason.
    pub async fn dead_letters(&self, reasons: impl IntoIterator<Item = waybill_core::state::Reason>) {
        let mut counts: HashMap<&'static str, u64> = HashMap::new();
        for reason in reasons {
            *counts.entry(reason.as_str()).or_default() += 1;
        }
        for (reason, count) in counts {
            metrics::counter!("waybill_dead_letters_total", "reason" => reason).increment(count);
            let message = format!("{count} new dead letter(s): {reason}");
            self.raise(AlertCause::DeadLetter, reason, count, message, format!("waybill dlq list --reason {reason}"))
                .await;
        }
    }

    /// Deliveries that nobody sends again until a person says so. They ring at once, and again each day.
    pub(crate) async fn held(&self, deliveries: usize) {
        let message = format!("{deliveries} delivery(ies) with an unknown outcome are held for a person's decision");
        let command = "waybill jobs list --status ROUTED".into();
        self.raise(AlertCause::RowsStuck, "UNKNOWN held", deliveries as u64, message, command).await;
    }

    /// Follows a provider's outcomes: an account that can't send rings at once, other failures after several in a row.
    pub async fn provider_outcome(&self, provider: &'static str, outcome: &Outcome) {
        metrics::counter!("waybill_provider_calls_total", "provider" => provider, "outcome" => outcome.as_str())
            .increment(1);
        let failing = match outcome {
            // The provider answered as it should.
            Outcome::Accepted { .. } | Outcome::RejectedRecipient { .. } | Outcome::RejectedMessage { .. } => {
                self.streaks().remove(provider);
                false
            }
            Outcome::Unusable { .. } => true,
            Outcome::Throttled { .. } | Outcome::Unavailable { .. } | Outcome::Unknown { .. } => {
                let mut streaks = self.streaks();
                let streak = streaks.entry(provider).or_default();
                *streak += 1;
                *streak >= FAILING_AFTER && (*streak - FAILING_AFTER).is_multiple_of(100)
            }
        };
        if failing {
            let message = format!("provider {provider} fails: {} ({})", outcome.as_str(), outcome.detail());
            self.raise(AlertCause::ProviderFailing, provider, 1, message, "waybill queues".into()).await;
        }
    }

    fn streaks(&self) -> std::sync::MutexGuard<'_, HashMap<&'static str, u32>> {
        self.providers.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
