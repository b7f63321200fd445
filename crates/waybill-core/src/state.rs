//! States, legal moves and reasons. The database carries the same words in its CHECK constraints; `waybill-store` has a test that
//! holds the two against each other.

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }
        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];
            /// The word stored in rows and shown in answers.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|s| s.as_str() == text)
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words!(/// A delivery's state.
DeliveryState {
    /// Decided; waits for a worker.
    Pending = "PENDING",
    /// Waits for its PDF. Not an attempt.
    WaitingDocument = "WAITING_DOCUMENT",
    /// Claimed: a provider may be called at this moment.
    Sending = "SENDING",
    /// Waits for its next attempt.
    Retrying = "RETRYING",
    /// A provider may have the mail; waits for the reconciliation.
    Unknown = "UNKNOWN",
    /// A provider accepted it.
    Sent = "SENT",
    /// The recipient's server accepted it.
    Delivered = "DELIVERED",
    Bounced = "BOUNCED",
    Complained = "COMPLAINED",
    Failed = "FAILED",
    /// The same thing was already sent by another delivery.
    Duplicate = "DUPLICATE",
    Suppressed = "SUPPRESSED",
    /// A newer revision went out first.
    Superseded = "SUPERSEDED",
    Expired = "EXPIRED",
    Cancelled = "CANCELLED",
});

words!(/// A job's status. Between ROUTED and the end it is derived from the deliveries.
JobState {
    Pending = "PENDING",
    Routed = "ROUTED",
    Completed = "COMPLETED",
    PartlyFailed = "PARTLY_FAILED",
    Failed = "FAILED",
    Cancelled = "CANCELLED",
});

words!(/// A document's state.
DocumentState {
    Pending = "PENDING",
    Rendering = "RENDERING",
    Ready = "READY",
    Failed = "FAILED",
});

words!(/// Why a final state was reached: a closed list for machines; people read `detail`.
Reason {
    InvalidAddress = "invalid_address",
    UnsupportedAddress = "unsupported_address",
    Suppressed = "suppressed",
    DocumentRenderFailed = "document_render_failed",
    DocumentDeadline = "document_deadline",
    DocumentAccessDenied = "document_access_denied",
    DocumentMissing = "document_missing",
    ProviderRejected = "provider_rejected",
    RecipientRejected = "recipient_rejected",
    ProvidersExhausted = "providers_exhausted",
    WorkerCrashed = "worker_crashed",
    /// Its job blocked the others of its ordering key for as long as it may.
    OrderingTimeout = "ordering_timeout",
    NoRoute = "no_route",
    NoRecipients = "no_recipients",
    TooManyRecipients = "too_many_recipients",
    AlreadySent = "already_sent",
    NewerRevision = "newer_revision",
    Expired = "expired",
    Cancelled = "cancelled",
    HardBounce = "hard_bounce",
    Complaint = "complaint",
});

impl DeliveryState {
    /// Nothing of ours happens to a final delivery any more; provider feedback and a person's retry still may.
    pub fn is_final(self) -> bool {
        match self {
            Self::Pending | Self::WaitingDocument | Self::Sending | Self::Retrying | Self::Unknown => false,
            Self::Sent
            | Self::Delivered
            | Self::Bounced
            | Self::Complained
            | Self::Failed
            | Self::Duplicate
            | Self::Suppressed
            | Self::Superseded
            | Self::Expired
            | Self::Cancelled => true,
        }
    }

    /// A worker may claim it.
    pub fn is_claimable(self) -> bool {
        matches!(self, Self::Pending | Self::WaitingDocument | Self::Retrying)
    }

    /// A provider has accepted it at some time.
    pub fn is_accepted(self) -> bool {
        matches!(self, Self::Sent | Self::Delivered | Self::Bounced | Self::Complained)
    }

    /// The one function that holds the legal moves.
    pub fn may_become(self, next: Self) -> bool {
        use DeliveryState::*;
        match self {
            Pending | WaitingDocument | Retrying => {
                matches!(
                    next,
                    WaitingDocument
                        | Sending
                        | Retrying
                        | Sent
                        | Failed
                        | Duplicate
                        | Suppressed
                        | Superseded
                        | Expired
                        | Cancelled
                ) && next != self
            }
            // Sent -> by the result; Retrying/Failed/... by the result; Unknown by the result or by an expired claim.
            Sending => matches!(next, Sent | Retrying | Unknown | Failed),
            Unknown => matches!(next, Sent | Retrying | Failed | Cancelled),
            // Feedback in any order: complaint > permanent bounce > delivered > sent.
            Sent => matches!(next, Delivered | Bounced | Complained),
            Delivered => matches!(next, Bounced | Complained),
            Bounced => matches!(next, Complained),
            // Retry and redrive by a person; a late acceptance is a fact and makes it sent.
            Failed => matches!(next, Pending | Sent),
            Cancelled | Expired | Superseded => matches!(next, Sent),
            Complained | Duplicate | Suppressed => false,
        }
    }
}

impl JobState {
    /// The status of a routed job, from its deliveries' states. `None` while one of them is not final.
    pub fn of(deliveries: impl IntoIterator<Item = DeliveryState>) -> Option<Self> {
        let (mut good, mut bad, mut cancelled, mut all) = (0usize, 0usize, 0usize, 0usize);
        for state in deliveries {
            all += 1;
            match state {
                DeliveryState::Pending
                | DeliveryState::WaitingDocument
                | DeliveryState::Sending
                | DeliveryState::Retrying
                | DeliveryState::Unknown => return None,
                // A duplicate reached its recipient by another delivery; a superseded one is replaced by a newer document.
                DeliveryState::Sent
                | DeliveryState::Delivered
                | DeliveryState::Duplicate
                | DeliveryState::Superseded => good += 1,
                DeliveryState::Bounced
                | DeliveryState::Complained
                | DeliveryState::Failed
                | DeliveryState::Suppressed
                | DeliveryState::Expired => bad += 1,
                DeliveryState::Cancelled => cancelled += 1,
            }
        }
        Some(if all == 0 {
            Self::Failed
        } else if cancelled == all {
            Self::Cancelled
        } else if bad == 0 && cancelled == 0 {
            Self::Completed
        } else if good == 0 {
            Self::Failed
        } else {
            Self::PartlyFailed
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DeliveryState::*;

    #[test]
    fn words_are_read_back() {
        for s in DeliveryState::ALL {
            assert_eq!(DeliveryState::parse(s.as_str()), Some(*s));
        }
        assert_eq!(DeliveryState::parse("sent"), None);
    }

    #[test]
    fn nothing_moves_to_itself_and_no_accepted_delivery_is_ever_sent_again() {
        for from in DeliveryState::ALL {
            assert!(!from.may_become(*from), "{from}");
            if from.is_accepted() {
                for to in [Pending, WaitingDocument, Sending, Retrying, Unknown, Failed] {
                    assert!(!from.may_become(to), "{from} -> {to}");
                }
            }
        }
    }

    #[test]
    fn final_is_what_has_left_the_open_states_and_accepted_what_feedback_may_move() {
        let open = [Pending, WaitingDocument, Sending, Retrying, Unknown];
        for state in DeliveryState::ALL {
            assert_eq!(state.is_final(), !open.contains(state), "{state}");
            assert_eq!(state.is_accepted(), [Sent, Delivered, Bounced, Complained].contains(state), "{state}");
        }
    }

    #[test]
    fn a_claim_is_the_only_way_to_sending_and_only_from_claimable_states() {
        for from in DeliveryState::ALL {
            assert_eq!(from.may_become(Sending), from.is_claimable(), "{from}");
        }
    }

    #[test]
    fn pv_07_feedback_moves_only_upwards() {
        assert!(Sent.may_become(Delivered) && Delivered.may_become(Bounced) && Bounced.may_become(Complained));
        assert!(!Bounced.may_become(Delivered) && !Complained.may_become(Bounced) && !Delivered.may_become(Sent));
    }

    #[test]
    fn a_job_s_status_follows_from_its_deliveries() {
        assert_eq!(JobState::of([Sent, Delivered, Duplicate]), Some(JobState::Completed));
        assert_eq!(JobState::of([Sent, Failed]), Some(JobState::PartlyFailed));
        assert_eq!(JobState::of([Failed, Bounced]), Some(JobState::Failed));
        assert_eq!(JobState::of([Cancelled, Cancelled]), Some(JobState::Cancelled));
        assert_eq!(JobState::of([Cancelled, Sent]), Some(JobState::PartlyFailed));
        assert_eq!(JobState::of([Sent, Unknown]), None);
        assert_eq!(JobState::of([]), Some(JobState::Failed));
    }
}
