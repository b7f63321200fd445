//! One sentence about where a job or a delivery stands: what happened, and what happens next or what to do.

use crate::views::{DeliveryView, JobSummary};
use waybill_core::{
    ids::JobId,
    state::{DeliveryState, JobState, Reason},
};

/// About a job.
pub fn job(job: &JobSummary) -> String {
    let all: u64 = job.delivery_counts.values().sum();
    let count = |wanted: fn(DeliveryState) -> bool| -> u64 {
        let states = DeliveryState::ALL.iter().filter(|state| wanted(**state));
        states.filter_map(|state| job.delivery_counts.get(state.as_str())).sum()
    };
    if let Some(first) = job.waits_for {
        return not_its_turn(first);
    }
    match job.status {
        JobState::Pending if job.cancel_requested_at.is_some() => {
            "A cancel was requested; it is not routed yet.".into()
        }
        JobState::Pending => "Accepted and durable; waits to be routed to its recipients.".into(),
        JobState::Routed => format!("{} of {all} deliveries are final.", count(DeliveryState::is_final)),
        JobState::Completed => format!("All {all} deliveries have reached a good end."),
        JobState::PartlyFailed => {
            let accepted = count(DeliveryState::is_accepted);
            format!("{accepted} of {all} deliveries were accepted by a provider; the others say why they were not.")
        }
        JobState::Failed if all == 0 => nothing_sent(job.reason, job.detail.as_deref()),
        JobState::Failed => format!("None of {all} deliveries has reached its recipient; each says why."),
        JobState::Cancelled => "Cancelled; nothing was sent.".into(),
    }
}

/// About what stands behind another job of its ordering key.
pub fn not_its_turn(first: JobId) -> String {
    format!("Waits for {first}, an earlier job of the same ordering key.")
}

/// About a job that led to no delivery at all.
fn nothing_sent(reason: Option<Reason>, detail: Option<&str>) -> String {
    let why = reason.map_or("no delivery came of it", of_reason);
    sentence(&format!("Nothing was sent: {why}"), detail)
}

/// About a delivery.
pub fn delivery(d: &DeliveryView) -> String {
    let provider = d.provider.as_deref().unwrap_or("a provider");
    let detail = d.detail.as_deref();
    match d.state {
        DeliveryState::Pending => "Waits in the queue for a worker.".into(),
        DeliveryState::WaitingDocument => {
            let state = d.document.as_ref().map_or("PENDING", |document| document.state.as_str());
            format!("Waits for its document, which is {state}; waiting is not an attempt.")
        }
        DeliveryState::Sending => {
            format!("Attempt {} is handing it to a provider at this moment.", d.attempt_count + 1)
        }
        DeliveryState::Retrying => retrying(d),
        DeliveryState::Unknown => unknown(d),
        DeliveryState::Sent => {
            let at = d.sent_at.map(|at| format!(" at {at}")).unwrap_or_default();
            format!("Accepted by {provider}{at}; the recipient's server has not reported yet.")
        }
        DeliveryState::Delivered => format!("Sent by {provider} and accepted by the recipient's server."),
        DeliveryState::Bounced => {
            sentence(&format!("Sent by {provider}, but the recipient's server refused it for good"), detail)
        }
        DeliveryState::Complained => {
            format!("Sent by {provider}; the recipient has marked it as unwanted and gets no more of this kind.")
        }
        DeliveryState::Failed => failed(d),
        DeliveryState::Duplicate => match d.other_delivery_id {
            Some(other) => format!("The same message was already sent by {other}; nothing was sent twice."),
            None => "The same message was already sent by another delivery; nothing was sent twice.".into(),
        },
        DeliveryState::Suppressed => sentence("Not sent: the address is on the suppression list", detail),
        DeliveryState::Superseded => match d.other_delivery_id {
            Some(other) => format!("Not sent: a newer revision went out first, by {other}."),
            None => "Not sent: a newer revision went out first.".into(),
        },
        DeliveryState::Expired => "Not sent: the event's expires_at had passed.".into(),
        DeliveryState::Cancelled => "Not sent: the job was cancelled.".into(),
    }
}

fn retrying(d: &DeliveryView) -> String {
    let next = d.next_attempt_at.map(|at| format!("the next attempt is at {at}")).unwrap_or("it is tried again".into());
    let start = match d.attempt_count {
        0 => "No provider could take it yet".to_owned(),
        1 => "Attempt 1 did not succeed".to_owned(),
        n => format!("{n} attempts did not succeed"),
    };
    match d.detail.as_deref().map(trimmed).filter(|text| !text.is_empty()) {
        Some(detail) => format!("{start} ({detail}); {next}."),
        None => format!("{start}; {next}."),
    }
}

fn unknown(d: &DeliveryView) -> String {
    let start = "A provider may have accepted it, but its answer was lost";
    match (d.held, d.reconcile_until) {
        (true, _) => format!("{start}; it is not sent again until a person decides."),
        (false, Some(until)) => {
            format!("{start}; the provider's events are awaited until {until} before anything else.")
        }
        (false, None) => format!("{start}; the provider's events are awaited before anything else."),
    }
}

fn failed(d: &DeliveryView) -> String {
    let why = d.reason.map_or("no reason was recorded", of_reason);
    let start = match d.attempt_count {
        0 => format!("Not sent: {why}"),
        1 => format!("Not sent after 1 attempt: {why}"),
        n => format!("Not sent after {n} attempts: {why}"),
    };
    let mut text = sentence(&start, d.detail.as_deref());
    if d.dead_lettered {
        text.push_str(" POST /jobs/{id}/retry tries it again.");
    }
    text
}

/// The reason as half a sentence.
pub fn of_reason(reason: Reason) -> &'static str {
    match reason {
        Reason::InvalidAddress => "the address is not a valid one",
        Reason::UnsupportedAddress => "no configured provider can send to this kind of address",
        Reason::Suppressed => "the address is on the suppression list",
        Reason::DocumentRenderFailed => "its document could not be rendered",
        Reason::DocumentDeadline => "its document was not ready in time",
        Reason::DocumentAccessDenied => "the object store refused access to its document",
        Reason::DocumentMissing => "its document could not be read",
        Reason::ProviderRejected => "no provider takes this message",
        Reason::RecipientRejected => "the provider refuses this recipient",
        Reason::ProvidersExhausted => "every provider was tried and none could take it",
        Reason::WorkerCrashed => "the worker died on it repeatedly",
        Reason::OrderingTimeout => "it blocked the later ones of its ordering key for as long as it may",
        Reason::NoRoute => "no route matches this type of event",
        Reason::NoRecipients => "neither the event nor the route names a recipient",
        Reason::TooManyRecipients => "the event has too many recipients",
        Reason::AlreadySent => "the same message was already sent",
        Reason::NewerRevision => "a newer revision went out first",
        Reason::Expired => "the event's expires_at had passed",
        Reason::Cancelled => "the job was cancelled",
        Reason::HardBounce => "the recipient's server refused it for good",
        Reason::Complaint => "the recipient has marked our messages as unwanted",
    }
}

fn trimmed(text: &str) -> &str {
    text.trim().trim_end_matches('.')
}

fn sentence(start: &str, detail: Option<&str>) -> String {
    match detail.map(trimmed).filter(|text| !text.is_empty()) {
        Some(detail) => format!("{start} ({detail})."),
        None => format!("{start}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Timestamp;
    use chrono::DateTime;
    use waybill_core::ids::DeliveryId;

    fn in_state(state: DeliveryState) -> DeliveryView {
        DeliveryView {
            delivery_id: DeliveryId(uuid::Uuid::nil()),
            channel: "email".into(),
            recipient: "ana@example.test".into(),
            recipient_name: String::new(),
            state,
            reason: None,
            detail: None,
            explanation: String::new(),
            attempt_count: 0,
            next_attempt_at: None,
            reconcile_until: None,
            held: false,
            dead_lettered: false,
            provider: None,
            provider_message_id: None,
            document: None,
            other_delivery_id: None,
            sent_at: None,
            updated_at: Timestamp(DateTime::UNIX_EPOCH),
            attempts: vec![],
            timeline: vec![],
        }
    }

    #[test]
    fn every_state_and_reason_is_one_readable_sentence_without_the_address() {
        for state in DeliveryState::ALL {
            for reason in Reason::ALL {
                let text = delivery(&DeliveryView { reason: Some(*reason), ..in_state(*state) });
                assert!(text.ends_with('.') && text.len() > 20, "{state}: {text}");
                assert!(!text.contains("ana@"), "{text}");
            }
        }
    }

    #[test]
    fn the_sentence_names_time_attempts_and_what_to_do() {
        let at = Some(Timestamp(DateTime::UNIX_EPOCH));
        let retrying = DeliveryView {
            attempt_count: 2,
            detail: Some("ses: throttled.".into()),
            next_attempt_at: at,
            ..in_state(DeliveryState::Retrying)
        };
        assert_eq!(
            delivery(&retrying),
            "2 attempts did not succeed (ses: throttled); the next attempt is at 1970-01-01T00:00:00.000Z."
        );
        let failed = DeliveryView {
            attempt_count: 3,
            reason: Some(Reason::ProvidersExhausted),
            dead_lettered: true,
            ..in_state(DeliveryState::Failed)
        };
        assert_eq!(
            delivery(&failed),
            "Not sent after 3 attempts: every provider was tried and none could take it. POST /jobs/{id}/retry tries it again."
        );
        let held = DeliveryView { held: true, ..in_state(DeliveryState::Unknown) };
        assert!(delivery(&held).contains("until a person decides"));
    }
}
