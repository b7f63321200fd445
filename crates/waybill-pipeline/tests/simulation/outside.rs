//! The world outside of all processes: queue, lock, objects and providers, which go on when a process dies.

use crate::gate::Gate;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use waybill_core::{
    ids::{AttemptId, DeliveryId},
    mail::OutgoingMail,
    ports::{FeedbackEvent, FeedbackKind},
};
use waybill_testkit::{
    clock::ManualClock,
    fakes::{FakeAlerts, FakeLock, FakeObjects, FakeQueue},
};

/// A rule of a port that is broken on purpose: the checks have to find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// The queue confirms delivery messages that it loses, and no scheduler looks for them.
    QueueLosesAndNobodySweeps,
    /// A provider accepts and says that it certainly did not.
    ProviderDenies,
    /// The database forgets who sent what, and so does Redis.
    ClaimsAreForgotten,
}

/// A mail that a provider accepted: what a recipient would have got.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acceptance {
    pub(crate) delivery: DeliveryId,
}

/// What came of the calls of one attempt.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Calls {
    pub(crate) accepted: u64,
    /// The caller was told nothing, or nothing that says whether it was accepted.
    pub(crate) unknown: u64,
}

pub(crate) struct Outside {
    pub(crate) gate: Gate,
    pub(crate) queue: FakeQueue,
    pub(crate) lock: FakeLock,
    pub(crate) objects: Arc<FakeObjects>,
    pub(crate) alerts: Arc<FakeAlerts>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) mutant: Option<Mutant>,
    /// Messages of the delivery queue that were deleted: their bodies.
    deleted: Mutex<Vec<String>>,
    accepted: Mutex<Vec<Acceptance>>,
    calls: Mutex<BTreeMap<AttemptId, (DeliveryId, Calls)>>,
    /// Providers' events that nobody has told us yet.
    feedback: Mutex<Vec<FeedbackEvent>>,
    events: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outside {
    pub(crate) fn new(mutant: Option<Mutant>, max_receive_count: u32) -> Arc<Self> {
        Arc::new(Self {
            gate: Gate::default(),
            queue: FakeQueue::new(max_receive_count),
            lock: FakeLock::new(),
            objects: Arc::default(),
            alerts: Arc::default(),
            clock: Arc::default(),
            mutant,
            deleted: Mutex::default(),
            accepted: Mutex::default(),
            calls: Mutex::default(),
            feedback: Mutex::default(),
            events: AtomicU64::new(0),
        })
    }

    fn with_calls(&self, mail: &OutgoingMail, change: impl FnOnce(&mut Calls)) {
        let mut calls = locked(&self.calls);
        change(&mut calls.entry(mail.attempt).or_insert((mail.delivery, Calls::default())).1);
    }

    /// A provider takes a mail. Returns its id.
    pub(crate) fn accept(&self, provider: &'static str, mail: &OutgoingMail, events: &[FeedbackKind]) -> String {
        self.with_calls(mail, |calls| calls.accepted += 1);
        let mut accepted = locked(&self.accepted);
        accepted.push(Acceptance { delivery: mail.delivery });
        let id = format!("{provider}-{}", accepted.len());
        for kind in events {
            locked(&self.feedback).push(FeedbackEvent {
                provider,
                event_id: format!("ev-{}", self.events.fetch_add(1, Ordering::Relaxed)),
                delivery: Some(mail.delivery),
                attempt: Some(mail.attempt),
                provider_message_id: Some(id.clone()),
                kind: *kind,
                at: None,
                detail: String::new(),
            });
        }
        id
    }

    /// A caller hears nothing that it could rely on.
    pub(crate) fn leave_unknown(&self, mail: &OutgoingMail) {
        self.with_calls(mail, |calls| calls.unknown += 1);
    }

    pub(crate) fn calls(&self) -> BTreeMap<AttemptId, (DeliveryId, Calls)> {
        locked(&self.calls).clone()
    }

    pub(crate) fn accepted(&self) -> Vec<Acceptance> {
        locked(&self.accepted).clone()
    }

    pub(crate) fn feedback(&self) -> MutexGuard<'_, Vec<FeedbackEvent>> {
        locked(&self.feedback)
    }

    pub(crate) fn note_deleted(&self, body: String) {
        locked(&self.deleted).push(body);
    }

    pub(crate) fn take_deleted(&self) -> Vec<String> {
        std::mem::take(&mut locked(&self.deleted))
    }
}
