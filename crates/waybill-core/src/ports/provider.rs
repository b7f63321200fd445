use crate::{
    ids::{AttemptId, DeliveryId},
    mail::OutgoingMail,
    outcome::Outcome,
};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use std::time::Duration;

/// One account at one provider.
#[async_trait]
pub trait Provider: Send + Sync {
    /// `ses`, `sendgrid`, `resend`, …: stored with each call.
    fn name(&self) -> &'static str;

    /// Total deadline of one call, connection included. The adapter keeps it.
    fn timeout(&self) -> Duration;

    /// Whether this account's events reach us; decides the default for unknown outcomes.
    fn events_wired(&self) -> bool;

    /// Largest message it takes, in octets after base64 (vendor quota).
    fn max_encoded_bytes(&self) -> usize;

    /// How long it remembers the idempotency key of a mail; `None`: it knows none. While it does, a second call with the same delivery is
    /// the same request (same key, same bytes, whatever the attempt), and if it has the mail, it answers with the same id and sends
    /// nothing.
    fn idempotent(&self) -> Option<Duration> {
        None
    }

    /// One call, no retries inside. Every answer, error and silence is exactly one outcome.
    async fn send(&self, mail: &OutgoingMail) -> Outcome;
}

/// What a provider told us about one of our mails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedbackEvent {
    pub provider: &'static str,
    /// The provider's id of this event, or one derived from its content; repeats are dropped by it.
    pub event_id: String,
    pub delivery: Option<DeliveryId>,
    pub attempt: Option<AttemptId>,
    pub provider_message_id: Option<String>,
    pub kind: FeedbackKind,
    pub at: Option<DateTime<Utc>>,
    /// The provider's words (untrusted text).
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FeedbackKind {
    /// The provider has the mail (SES `Send`, SendGrid `processed`).
    Accepted,
    Delivered,
    /// Permanent.
    Bounced,
    Complained,
    /// Accepted by the API, dropped afterwards (SES `Reject`, SendGrid `dropped`): nothing was sent.
    Dropped,
    /// Recorded only: transient bounces, delays, opens, clicks.
    Other,
}

impl FeedbackKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Delivered => "delivered",
            Self::Bounced => "bounced",
            Self::Complained => "complained",
            Self::Dropped => "dropped",
            Self::Other => "other",
        }
    }
}
