use crate::locked;
use async_trait::async_trait;
use std::sync::Mutex;
use waybill_core::ports::{Alert, AlertCause, AlertSink};

/// Remembers what was raised.
#[derive(Default)]
pub struct FakeAlerts {
    raised: Mutex<Vec<Alert>>,
}

impl FakeAlerts {
    pub fn new() -> Self {
        Self::default()
    }

    /// All alerts, in order.
    pub fn raised(&self) -> Vec<Alert> {
        locked(&self.raised).clone()
    }

    pub fn of(&self, cause: AlertCause) -> Vec<Alert> {
        self.raised().into_iter().filter(|a| a.cause == cause).collect()
    }
}

#[async_trait]
impl AlertSink for FakeAlerts {
    async fn raise(&self, alert: &Alert) {
        locked(&self.raised).push(alert.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn alerts_are_kept_in_order_and_found_by_cause() {
        let alerts = FakeAlerts::new();
        for (cause, key) in [(AlertCause::RowsStuck, "a"), (AlertCause::DeadLetter, "b"), (AlertCause::RowsStuck, "c")]
        {
            let alert = Alert { cause, key: key.into(), count: 1, message: String::new(), command: String::new() };
            alerts.raise(&alert).await;
        }
        let keys: Vec<_> = alerts.of(AlertCause::RowsStuck).into_iter().map(|a| a.key).collect();
        assert_eq!(keys, ["a", "c"]);
        assert_eq!(alerts.raised().len(), 3);
    }
}
