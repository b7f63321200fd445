use async_trait::async_trait;

/// What an alert is about. One alert per cause: many rows with one cause are one alert with a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AlertCause {
    DeadLetter,
    ProviderFailing,
    RowsStuck,
    OutboxLagging,
}

impl AlertCause {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DeadLetter => "dead_letter",
            Self::ProviderFailing => "provider_failing",
            Self::RowsStuck => "rows_stuck",
            Self::OutboxLagging => "outbox_lagging",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    pub cause: AlertCause,
    /// What is grouped: a reason, a provider's name, a state.
    pub key: String,
    pub count: u64,
    /// One sentence without addresses.
    pub message: String,
    /// What to run next.
    pub command: String,
}

#[async_trait]
pub trait AlertSink: Send + Sync {
    /// Tells people; failures are the sink's to log.
    async fn raise(&self, alert: &Alert);
}
