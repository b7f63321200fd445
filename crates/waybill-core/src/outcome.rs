//! What one call to a provider can end in.

use std::time::Duration;

/// The outcome of one provider call. An adapter maps every answer, error and silence to exactly one of these; when in doubt whether
/// the provider may have accepted, it is [`Outcome::Unknown`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// 2xx and an id.
    Accepted { provider_message_id: String },
    /// This recipient can't be reached by anybody: no other provider is tried.
    RejectedRecipient { detail: String },
    /// This message can't be taken by this provider (malformed, too large): another one may.
    RejectedMessage { detail: String },
    /// The account can't send at all now: bad credentials, suspended, unverified domain, quota of the day.
    Unusable { detail: String },
    /// Rate limit; nothing was accepted.
    Throttled { retry_after: Option<Duration>, detail: String },
    /// Certainly not accepted: refused connection, DNS, TLS, a 5xx that the provider documents as not accepted.
    Unavailable { detail: String },
    /// Nobody can know: time-out or reset after the request was sent, 2xx without an id, 5xx that may have been accepted.
    Unknown { detail: String },
}

impl Outcome {
    /// The word stored with a call.
    pub fn as_str(&self) -> &'static str {
        match self {
            Outcome::Accepted { .. } => "accepted",
            Outcome::RejectedRecipient { .. } => "rejected_recipient",
            Outcome::RejectedMessage { .. } => "rejected_message",
            Outcome::Unusable { .. } => "unusable",
            Outcome::Throttled { .. } => "throttled",
            Outcome::Unavailable { .. } => "unavailable",
            Outcome::Unknown { .. } => "unknown",
        }
    }

    /// The provider's words, for people; never an address.
    pub fn detail(&self) -> &str {
        match self {
            Outcome::Accepted { .. } => "",
            Outcome::RejectedRecipient { detail }
            | Outcome::RejectedMessage { detail }
            | Outcome::Unusable { detail }
            | Outcome::Throttled { detail, .. }
            | Outcome::Unavailable { detail }
            | Outcome::Unknown { detail } => detail,
        }
    }
}

/// What to do when nobody can know whether a provider accepted (protocol, "Outcomes").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnUnknown {
    /// Hold for the reconcile window; a provider event settles it, else the next provider. Default where the account's events reach us.
    Reconcile,
    /// Next provider at once: lowest latency, may duplicate. Default where no events are wired.
    Failover,
    /// Never re-send by itself; a person decides.
    Hold,
}

impl OnUnknown {
    pub fn as_str(self) -> &'static str {
        match self {
            OnUnknown::Reconcile => "reconcile",
            OnUnknown::Failover => "failover",
            OnUnknown::Hold => "hold",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Reconcile, Self::Failover, Self::Hold].into_iter().find(|p| p.as_str() == text)
    }

    /// The policy in force for a call: the route's, else the tenant's, else the account's default.
    pub fn effective(route: Option<Self>, tenant: Option<Self>, events_wired: bool) -> Self {
        route.or(tenant).unwrap_or(if events_wired { Self::Reconcile } else { Self::Failover })
    }
}
