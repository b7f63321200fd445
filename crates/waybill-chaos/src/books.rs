//! The balance: what was answered 202, what the database says, what the providers accepted. Pure, so that each verdict has a test.
//!
//! Lost is what was accepted and is not there, not final, final without having reached anybody, or recorded as sent without an acceptance.
//!
//! A *duplicate* is each acceptance of an identity beyond the first (of a content that came back: beyond one per delivery). Which kind it is
//! comes from what was on record when the second one was made; what is not certain counts as known:
//! - **unknown**: the attempt that made the earlier acceptance has no result, or the result *unknown* or *crashed*, or a *late* one; and no
//!   event of a provider that names the delivery was committed before the attempt began that made the later one;
//! - **frozen**: the earlier or the later one was made by an attempt whose own worker says that it called after its claim's end;
//! - **known**: everything else.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, Utc};
use uuid::Uuid;
use waybill_core::state::DeliveryState;

/// One acceptance at a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Acceptance {
    pub(crate) at: DateTime<Utc>,
    pub(crate) delivery: Uuid,
    pub(crate) attempt: Uuid,
}

#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    pub(crate) id: Uuid,
    pub(crate) job: Uuid,
    pub(crate) identity: String,
    pub(crate) state: DeliveryState,
    pub(crate) version: i32,
    /// The other delivery: DUPLICATE of, SUPERSEDED by.
    pub(crate) other: Option<Uuid>,
}

#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) started_at: DateTime<Utc>,
    pub(crate) outcome: Option<String>,
    pub(crate) frozen: bool,
}

/// What was answered 202.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) job: Uuid,
    pub(crate) recipients: usize,
    pub(crate) comes_back: bool,
}

/// The three sides.
#[derive(Debug, Default)]
pub(crate) struct Sides {
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) attempts: HashMap<Uuid, Attempt>,
    /// When the first event of a provider that names a delivery was committed.
    pub(crate) told: HashMap<Uuid, DateTime<Utc>>,
    /// (delivery, version, state), in order.
    pub(crate) ledger: Vec<(Uuid, i32, DeliveryState)>,
    pub(crate) acceptances: Vec<Acceptance>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Known,
    Unknown,
    Frozen,
}

#[derive(Debug, Default)]
pub(crate) struct Books {
    /// Deliveries of the events that were answered 202.
    pub(crate) accepted: u64,
    pub(crate) final_: u64,
    pub(crate) lost: u64,
    pub(crate) duplicates: BTreeMap<Kind, u64>,
    /// Recorded as not sent, although a provider took it and the attempt that was told so is on record.
    pub(crate) misreported: u64,
    /// Gaps and illegal moves in the ledger.
    pub(crate) ledger_faults: u64,
    /// What was found, in words, with ids only.
    pub(crate) stories: Vec<String>,
}

impl Books {
    pub(crate) fn duplicates(&self, kind: Kind) -> u64 {
        self.duplicates.get(&kind).copied().unwrap_or_default()
    }

    fn lost(&mut self, story: String) {
        self.lost += 1;
        self.stories.push(format!("lost: {story}"));
    }
}

fn was_sent(state: DeliveryState) -> bool {
    matches!(state, DeliveryState::Sent | DeliveryState::Delivered | DeliveryState::Bounced | DeliveryState::Complained)
}

pub(crate) fn balance(sides: &Sides) -> Books {
    let mut books = Books::default();
    let mut by_job: HashMap<Uuid, Vec<&Delivery>> = HashMap::new();
    for delivery in &sides.deliveries {
        by_job.entry(delivery.job).or_default().push(delivery);
    }
    let by_id: HashMap<Uuid, &Delivery> = sides.deliveries.iter().map(|delivery| (delivery.id, delivery)).collect();
    let reached: HashSet<Uuid> = sides.acceptances.iter().map(|acceptance| acceptance.delivery).collect();
    let told_so = |attempt: &Uuid| sides.attempts.get(attempt).is_some_and(|a| a.outcome.as_deref() == Some("sent"));
    let certain: HashSet<Uuid> =
        sides.acceptances.iter().filter(|a| told_so(&a.attempt)).map(|acceptance| acceptance.delivery).collect();
    for wanted in &sides.wanted {
        books.accepted += wanted.recipients as u64;
        let found = by_job.get(&wanted.job).map(Vec::as_slice).unwrap_or_default();
        for missing in found.len()..wanted.recipients {
            books.lost(format!("recipient {missing} of job {} has no delivery", wanted.job));
        }
        for delivery in found {
            settle(&mut books, delivery, &by_id, &reached, &certain);
        }
    }
    check_ledger(&mut books, sides);
    count_duplicates(&mut books, sides);
    books
}

/// One delivery's end.
fn settle(
    books: &mut Books,
    delivery: &Delivery,
    by_id: &HashMap<Uuid, &Delivery>,
    reached: &HashSet<Uuid>,
    certain: &HashSet<Uuid>,
) {
    let Delivery { id, state, .. } = delivery;
    if !state.is_final() {
        return books.lost(format!("delivery {id} is {}", state.as_str()));
    }
    books.final_ += 1;
    let other_sent = || {
        delivery
            .other
            .and_then(|id| by_id.get(&id))
            .is_some_and(|other| was_sent(other.state) || other.state == DeliveryState::Superseded)
    };
    match state {
        DeliveryState::Sent | DeliveryState::Delivered | DeliveryState::Bounced | DeliveryState::Complained => {
            if !reached.contains(id) {
                books.lost(format!("delivery {id} is {}, and no provider has it", state.as_str()));
            }
        }
        DeliveryState::Duplicate | DeliveryState::Superseded => {
            if !other_sent() {
                books.lost(format!("delivery {id} is {} of one that was not sent", state.as_str()));
            }
            if certain.contains(id) {
                books.misreported += 1;
                books.stories.push(format!("misreported: delivery {id} is {}, and a provider has it", state.as_str()));
            }
        }
        // Nothing of the script is a recipient's fault, and dead letters were put back. (The open ones were met above.)
        DeliveryState::Failed
        | DeliveryState::Suppressed
        | DeliveryState::Expired
        | DeliveryState::Cancelled
        | DeliveryState::Pending
        | DeliveryState::WaitingDocument
        | DeliveryState::Sending
        | DeliveryState::Retrying
        | DeliveryState::Unknown => {
            books.lost(format!("delivery {id} ended as {}", state.as_str()));
            if certain.contains(id) {
                books.misreported += 1;
            }
        }
    }
}

/// Gap-free, and every move legal.
fn check_ledger(books: &mut Books, sides: &Sides) {
    let mut last: HashMap<Uuid, (i32, DeliveryState)> = HashMap::new();
    for (delivery, version, state) in &sides.ledger {
        let before = last.insert(*delivery, (*version, *state));
        let (wanted, legal) = before.map_or((1, true), |(before, from)| (before + 1, from.may_become(*state)));
        if *version != wanted || !legal {
            books.ledger_faults += 1;
            books.stories.push(format!("ledger: delivery {delivery}, version {version} is {}", state.as_str()));
        }
    }
    for delivery in &sides.deliveries {
        let found = last.get(&delivery.id);
        if found != Some(&(delivery.version, delivery.state)) {
            books.ledger_faults += 1;
            books.stories.push(format!("ledger: delivery {} is not where its last row says", delivery.id));
        }
    }
}

fn count_duplicates(books: &mut Books, sides: &Sides) {
    let identities: HashMap<Uuid, &str> =
        sides.deliveries.iter().map(|delivery| (delivery.id, delivery.identity.as_str())).collect();
    let returning: HashSet<Uuid> =
        sides.wanted.iter().filter(|wanted| wanted.comes_back).map(|wanted| wanted.job).collect();
    let returning: HashSet<Uuid> = sides
        .deliveries
        .iter()
        .filter(|delivery| returning.contains(&delivery.job))
        .map(|delivery| delivery.id)
        .collect();
    // Content that came back may be sent once more by its other delivery; everything else once per identity.
    let mut groups: HashMap<(&str, Option<Uuid>), Vec<&Acceptance>> = HashMap::new();
    for acceptance in &sides.acceptances {
        // Mails carry ids, not identities. What the database doesn't know stands for itself.
        let identity = identities.get(&acceptance.delivery).copied().unwrap_or_default();
        let unknown = identity.is_empty().then_some(acceptance.delivery);
        let own = returning.contains(&acceptance.delivery).then_some(acceptance.delivery).or(unknown);
        groups.entry((identity, own)).or_default().push(acceptance);
    }
    for ((identity, _), mut group) in groups {
        group.sort_by_key(|acceptance| acceptance.at);
        for pair in group.windows(2) {
            let (kind, why) = judge(sides, pair[0], pair[1]);
            *books.duplicates.entry(kind).or_default() += 1;
            books.stories.push(format!(
                "doubled ({kind:?}): identity {identity}, delivery {} attempt {} at {}, then delivery {} attempt {} at {}: {why}",
                pair[0].delivery, pair[0].attempt, pair[0].at, pair[1].delivery, pair[1].attempt, pair[1].at
            ));
        }
    }
}

fn judge(sides: &Sides, first: &Acceptance, second: &Acceptance) -> (Kind, String) {
    let (Some(made), Some(again)) = (sides.attempts.get(&first.attempt), sides.attempts.get(&second.attempt)) else {
        return (Kind::Known, "no attempt is on record".to_owned());
    };
    if made.frozen || again.frozen {
        return (Kind::Frozen, "a worker says that it called after its claim's end".to_owned());
    }
    if first.attempt == second.attempt {
        return (Kind::Known, "one attempt made both".to_owned());
    }
    if let Some(told) = sides.told.get(&first.delivery).filter(|told| **told < again.started_at) {
        return (
            Kind::Known,
            format!("a provider's event was here at {told}, the second attempt began at {}", again.started_at),
        );
    }
    match made.outcome.as_deref() {
        None | Some("unknown" | "crashed" | "late") => {
            let outcome = made.outcome.as_deref().unwrap_or("none");
            let told = sides.told.get(&first.delivery).map_or("never".to_owned(), ToString::to_string);
            let began = again.started_at;
            let story = "nobody could know: the first attempt's outcome is";
            (Kind::Unknown, format!("{story} {outcome}, the second began at {began}, a provider's event came: {told}"))
        }
        Some(outcome) => (Kind::Known, format!("the first attempt's outcome is {outcome}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Uuid = Uuid::from_u128(1);
    const TWO: Uuid = Uuid::from_u128(2);

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    fn delivery(id: Uuid, state: DeliveryState) -> Delivery {
        Delivery { id, job: ONE, identity: "i".into(), state, version: 3, other: None }
    }

    fn accepted(delivery: Uuid, attempt: u128, second: i64) -> Acceptance {
        Acceptance { at: at(second), delivery, attempt: Uuid::from_u128(attempt) }
    }

    /// One delivery, sent by attempt 10 (at 1 s), as good books say.
    fn good() -> Sides {
        use DeliveryState::{Pending, Sending, Sent};
        Sides {
            wanted: vec![Wanted { job: ONE, recipients: 1, comes_back: false }],
            deliveries: vec![delivery(ONE, Sent)],
            attempts: HashMap::from([attempt(10, 1, Some("sent"))]),
            told: HashMap::new(),
            ledger: vec![(ONE, 1, Pending), (ONE, 2, Sending), (ONE, 3, Sent)],
            acceptances: vec![accepted(ONE, 10, 1)],
        }
    }

    fn attempt(id: u128, second: i64, outcome: Option<&str>) -> (Uuid, Attempt) {
        (Uuid::from_u128(id), Attempt { started_at: at(second), outcome: outcome.map(str::to_owned), frozen: false })
    }

    /// The mail went out twice, by attempts 10 and 11.
    fn doubled(first_outcome: Option<&str>) -> Sides {
        let mut sides = good();
        sides.attempts = HashMap::from([attempt(10, 1, first_outcome), attempt(11, 5, Some("sent"))]);
        sides.acceptances.push(accepted(ONE, 11, 6));
        sides
    }

    fn counts(sides: &Sides) -> (u64, [u64; 3]) {
        let books = balance(sides);
        (books.lost, [Kind::Known, Kind::Unknown, Kind::Frozen].map(|kind| books.duplicates(kind)))
    }

    #[test]
    fn good_books_balance() {
        let books = balance(&good());
        assert_eq!((books.accepted, books.final_, books.lost, books.ledger_faults, books.misreported), (1, 1, 0, 0, 0));
        assert!(books.duplicates.is_empty() && books.stories.is_empty());
    }

    #[test]
    fn a_missing_an_open_a_failed_and_an_unsent_delivery_are_lost() {
        let mut missing = good();
        missing.wanted[0].recipients = 2;
        let mut no_job = good();
        no_job.wanted[0].job = TWO;
        let mut unsent = good();
        unsent.acceptances.clear();
        for sides in [missing, no_job, unsent] {
            assert_eq!(counts(&sides).0, 1);
        }
        for state in [DeliveryState::Retrying, DeliveryState::Unknown, DeliveryState::Failed, DeliveryState::Expired] {
            let mut sides = good();
            sides.deliveries[0].state = state;
            assert_eq!(counts(&sides).0, 1, "{state:?}");
        }
    }

    #[test]
    fn a_duplicate_of_what_was_never_sent_is_lost_and_of_what_was_sent_is_not() {
        let mut sides = good();
        sides.wanted[0].recipients = 2;
        sides.deliveries.push(Delivery { other: Some(ONE), ..delivery(TWO, DeliveryState::Duplicate) });
        assert_eq!(counts(&sides), (0, [0, 0, 0]));
        sides.deliveries[1].other = None;
        assert_eq!(counts(&sides).0, 1);
    }

    #[test]
    fn what_was_certainly_accepted_and_is_called_a_duplicate_is_misreported_and_what_nobody_knew_is_not() {
        let mut sides = good();
        sides.deliveries[0].state = DeliveryState::Duplicate;
        assert_eq!(balance(&sides).misreported, 1);
        sides.attempts = HashMap::from([attempt(10, 1, Some("unknown"))]);
        assert_eq!(balance(&sides).misreported, 0);
    }

    #[test]
    fn a_second_acceptance_is_unknown_only_when_a_recorded_fact_says_so() {
        for outcome in [None, Some("unknown"), Some("crashed"), Some("late")] {
            assert_eq!(counts(&doubled(outcome)), (0, [0, 1, 0]), "{outcome:?}");
        }
        for outcome in ["sent", "retry", "hold", "failed", "overtaken"] {
            assert_eq!(counts(&doubled(Some(outcome))), (0, [1, 0, 0]), "{outcome}");
        }
    }

    #[test]
    fn what_a_provider_had_told_before_the_second_attempt_was_known() {
        let mut sides = doubled(Some("unknown"));
        sides.told.insert(ONE, at(4));
        assert_eq!(counts(&sides).1, [1, 0, 0]);
        sides.told.insert(ONE, at(6));
        assert_eq!(counts(&sides).1, [0, 1, 0], "it came too late");
    }

    #[test]
    fn an_attempt_that_nobody_wrote_down_is_known_and_so_are_two_calls_of_one() {
        let mut sides = doubled(Some("unknown"));
        sides.attempts.remove(&Uuid::from_u128(10));
        assert_eq!(counts(&sides).1, [1, 0, 0]);
        let mut sides = doubled(Some("unknown"));
        sides.acceptances[1].attempt = Uuid::from_u128(10);
        assert_eq!(counts(&sides).1, [1, 0, 0]);
    }

    #[test]
    fn a_frozen_worker_is_told_apart() {
        let mut sides = doubled(Some("late"));
        sides.attempts.get_mut(&Uuid::from_u128(11)).unwrap().frozen = true;
        assert_eq!(counts(&sides).1, [0, 0, 1]);
    }

    #[test]
    fn two_deliveries_of_one_identity_are_a_duplicate_unless_their_content_came_back() {
        let mut sides = good();
        sides.wanted[0].recipients = 2;
        sides.deliveries.push(delivery(TWO, DeliveryState::Sent));
        sides.attempts.extend([attempt(11, 5, Some("sent"))]);
        sides.acceptances.push(accepted(TWO, 11, 6));
        assert_eq!(counts(&sides).1, [1, 0, 0]);
        sides.wanted[0].comes_back = true;
        assert_eq!(counts(&sides).1, [0, 0, 0]);
        sides.acceptances.push(accepted(TWO, 11, 7));
        assert_eq!(counts(&sides).1, [1, 0, 0], "once each");
    }

    #[test]
    fn a_gap_and_an_illegal_move_are_ledger_faults() {
        let mut gap = good();
        gap.ledger.remove(1);
        let mut illegal = good();
        illegal.ledger =
            vec![(ONE, 1, DeliveryState::Pending), (ONE, 2, DeliveryState::Delivered), (ONE, 3, DeliveryState::Sent)];
        for sides in [gap, illegal] {
            assert!(balance(&sides).ledger_faults > 0);
        }
    }
}
