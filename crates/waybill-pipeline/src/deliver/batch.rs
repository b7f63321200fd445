//! One received batch on its way to the providers.

use super::{ContentKey, Deliverer, Granted, Ticket, Unavailable};
use crate::{consume::delay, holding::in_time, poison::dead_letter_message, router::NEWER_DELAY};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tokio::sync::OwnedSemaphorePermit;
use tracing::{debug, info, warn};
use waybill_core::{
    ids::{AttemptId, DeliveryId},
    message::{DeliveryMessage, Parsed, parse},
    ports::{LockAnswer, LockRequest, QueueName, ReceivedMessage},
    state::{DocumentState, Reason},
};
use waybill_store::{Claim, ClaimRequest, Content, FinalMove, LoadedDelivery, MoveRequest};

/// In the order of ids: the same batch takes the same steps, which is what the simulation repeats.
type Tickets = BTreeMap<DeliveryId, Ticket>;

/// A look at somebody else's claim without a known end, and at that of another revision: a call is mostly over by then.
const SHORT_WAIT: Duration = Duration::from_secs(2);
/// A look at somebody else's lock.
const LOCK_WAIT: Duration = Duration::from_secs(5);
/// A document that is not ready although a message arrived: its readiness wakes the delivery, this is the fallback.
const DOCUMENT_WAIT: Duration = Duration::from_secs(10);

impl Deliverer {
    /// Takes a batch as far as it goes. Every message ends deleted, or stays in the queue to come back by itself.
    pub(super) async fn handle(
        self: &Arc<Self>,
        messages: Vec<ReceivedMessage>,
        mut permits: OwnedSemaphorePermit,
        stopping: tokio_util::sync::CancellationToken,
    ) {
        let mut tickets = self.parse(messages, &mut permits).await;
        drop(permits);
        let ids: Vec<DeliveryId> = tickets.keys().copied().collect();
        let loaded = self.load.submit_all(ids.clone()).await;
        let mut deliveries = Vec::with_capacity(ids.len());
        for (id, answer) in ids.iter().zip(loaded) {
            match answer {
                Ok(Ok(Some(delivery))) => deliveries.push(delivery),
                // No such row (a restored database, say): nothing can ever come of this message.
                Ok(Ok(None)) => self.acknowledge(tickets.remove(id)),
                Ok(Err(Unavailable)) | Err(_) => drop(tickets.remove(id)),
            }
        }
        let open = self.settle_without_claim(deliveries, &mut tickets).await;
        let open = self.pass_the_lock(open, &mut tickets).await;
        self.claim_and_send(open, tickets, stopping).await;
    }

    /// Step 1.
    async fn parse(&self, messages: Vec<ReceivedMessage>, permits: &mut OwnedSemaphorePermit) -> Tickets {
        let mut tickets = Tickets::new();
        let mut later = Vec::new();
        for message in messages {
            match parse::<DeliveryMessage>(&message.body) {
                Parsed::Message(parsed) => {
                    let held = self.holder.take(message.receipt);
                    match tickets.entry(parsed.delivery) {
                        std::collections::btree_map::Entry::Occupied(mut seen) => seen.get_mut().messages.push(held),
                        std::collections::btree_map::Entry::Vacant(free) => {
                            free.insert(Ticket { messages: vec![held], _permit: permits.split(1) });
                        }
                    }
                }
                Parsed::Newer(_) => later.push((message.receipt, NEWER_DELAY)),
                Parsed::Malformed(reason) => {
                    if dead_letter_message(&self.context, QueueName::Delivery, &message, &reason).await {
                        self.deletions.add(vec![message.receipt]);
                    }
                }
            }
        }
        delay(&self.context, QueueName::Delivery, &later).await;
        tickets
    }

    /// Deletes a message in the background, with its neighbours.
    pub(super) fn acknowledge(&self, ticket: Option<Ticket>) {
        if let Some(ticket) = ticket {
            self.deletions.add(ticket.messages.iter().map(|held| held.receipt().clone()).collect());
        }
    }

    /// Steps 2, 3 and 5: what needs no claim. Returns the deliveries that want one.
    async fn settle_without_claim(
        &self,
        deliveries: Vec<LoadedDelivery>,
        tickets: &mut Tickets,
    ) -> Vec<LoadedDelivery> {
        let (mut moves, mut waits, mut open) = (Vec::new(), Vec::new(), Vec::new());
        for delivery in deliveries {
            match look(&delivery) {
                Look::Acknowledge => self.acknowledge(tickets.remove(&delivery.id)),
                Look::Finish(to) => moves.push((delivery, to)),
                Look::Wait(delay) => waits.push((delivery, delay)),
                Look::Claim => open.push(delivery),
            }
        }
        self.finish(moves, tickets).await;
        self.defer(waits, tickets).await;
        open
    }

    async fn finish(&self, moves: Vec<(LoadedDelivery, FinalMove)>, tickets: &mut Tickets) {
        if moves.is_empty() {
            return;
        }
        let requests: Vec<_> =
            moves.iter().map(|(d, to)| MoveRequest { delivery: d.id, version: d.version, to: to.clone() }).collect();
        match self.context.store.finish(&requests).await {
            Ok(moved) => {
                for (delivery, to) in moves {
                    let ticket = tickets.remove(&delivery.id);
                    // A delivery that moved on meanwhile was somebody else's: its message comes back and is looked at anew.
                    if moved.contains(&delivery.id) {
                        if let Some(trace) = &delivery.trace {
                            info!(delivery = %delivery.id, job = %delivery.job, trace_id = trace.trace_id(), "deliver.finished_without_a_call");
                        }
                        if let FinalMove::Failed { reason, dead_letter: true, .. } = to {
                            self.dead_letter(&[(delivery.tenant, delivery.job, delivery.id, reason)]).await;
                        }
                        self.job_may_have_ended(&delivery);
                        self.acknowledge(ticket);
                    }
                }
            }
            Err(error) => {
                warn!(rows = moves.len(), error = &error as &dyn std::error::Error, "deliver.finish_failed");
                moves.iter().for_each(|(d, _)| drop(tickets.remove(&d.id)));
            }
        }
    }

    /// Puts deliveries off. The wait lives in the row (`due_at`), and only then is the message deleted: SQS's receive count is left to
    /// count crashes, and a wait may be longer than a queue can delay.
    async fn defer(&self, waits: Vec<(LoadedDelivery, Duration)>, tickets: &mut Tickets) {
        if waits.is_empty() {
            return;
        }
        let items: Vec<_> = waits.iter().map(|(d, delay)| (d.id, d.version, *delay)).collect();
        match self.context.store.defer(&items).await {
            Ok(()) => waits.iter().for_each(|(d, _)| self.acknowledge(tickets.remove(&d.id))),
            Err(error) => {
                warn!(rows = waits.len(), error = &error as &dyn std::error::Error, "deliver.defer_failed");
                waits.iter().for_each(|(d, _)| drop(tickets.remove(&d.id)));
            }
        }
    }

    /// Step 4: the Redis lock, a cheap first gate. A held lock never acknowledges a message that its row does not remember.
    async fn pass_the_lock(&self, open: Vec<LoadedDelivery>, tickets: &mut Tickets) -> Vec<LoadedDelivery> {
        if open.is_empty() {
            return open;
        }
        let requests: Vec<_> = open.iter().map(lock_request).collect();
        let answers = match self.context.lock.acquire(&requests, self.context.settings.timings.lock_ttl).await {
            Ok(answers) => answers,
            Err(error) => {
                // The claim is the authority; it goes on without the gate.
                metrics::counter!("waybill_lock_skipped_total").increment(open.len() as u64);
                debug!(error = %error, "deliver.lock_unavailable");
                return open;
            }
        };
        let (mut through, mut refused) = (Vec::new(), Vec::new());
        for (delivery, answer) in open.into_iter().zip(answers) {
            match answer {
                LockAnswer::Acquired | LockAnswer::HeldBySelf => through.push(delivery),
                LockAnswer::HeldByOther(owner) => refused.push((delivery, owner)),
            }
        }
        let waits = self.take_from_the_final(refused, &mut through).await;
        self.defer(waits.into_iter().map(|delivery| (delivery, LOCK_WAIT)).collect(), tickets).await;
        through
    }

    /// Locks of deliveries that are final guard nothing any more: whoever sent the same content before other content went out, or died
    /// between its result and the release. They are given back in their owner's name and asked for once more. What was sent for good was
    /// found when it was loaded, and the claim looks again. Returns what has to wait.
    async fn take_from_the_final(
        &self,
        refused: Vec<(LoadedDelivery, String)>,
        through: &mut Vec<LoadedDelivery>,
    ) -> Vec<LoadedDelivery> {
        let owners: Vec<DeliveryId> = refused.iter().filter_map(|(_, owner)| owner.parse().ok()).collect();
        if owners.is_empty() {
            return refused.into_iter().map(|(delivery, _)| delivery).collect();
        }
        let over = self.context.store.find_final(&owners).await.unwrap_or_default();
        let over: HashSet<String> = over.iter().map(DeliveryId::to_string).collect();
        let (free, mut waits): (Vec<_>, Vec<_>) = refused.into_iter().partition(|(_, owner)| over.contains(owner));
        let stale: Vec<_> = free
            .iter()
            .map(|(delivery, owner)| LockRequest { key: delivery.identity.lock_key(), owner: owner.clone() })
            .collect();
        let again: Vec<_> = free.iter().map(|(delivery, _)| lock_request(delivery)).collect();
        let lock = &self.context.lock;
        let answers = match lock.release(&stale).await {
            Ok(_) => lock.acquire(&again, self.context.settings.timings.lock_ttl).await,
            Err(error) => Err(error),
        };
        for (place, refused) in free.into_iter().enumerate() {
            match answers.as_ref().map(|answers| answers.get(place)) {
                Ok(Some(LockAnswer::Acquired | LockAnswer::HeldBySelf)) => through.push(refused.0),
                Ok(Some(LockAnswer::HeldByOther(_)) | None) | Err(_) => waits.push(refused),
            }
        }
        waits.into_iter().map(|(delivery, _)| delivery).collect()
    }

    /// Steps 6 to 10.
    async fn claim_and_send(
        self: &Arc<Self>,
        open: Vec<LoadedDelivery>,
        mut tickets: Tickets,
        stopping: tokio_util::sync::CancellationToken,
    ) {
        if open.is_empty() {
            return;
        }
        let open = self.with_contents(open, &mut tickets).await;
        let requests: Vec<ClaimRequest> = open
            .iter()
            .map(|(d, _)| ClaimRequest {
                delivery: d.id,
                token: self.context.chance.token(),
                attempt: AttemptId(self.context.chance.id()),
            })
            .collect();
        // Measured before the claim is asked for: the claim ends no earlier than this plus its length.
        let asked = self.context.clock.monotonic();
        let claims = self.claim.submit_all(requests.clone()).await;
        let (mut moves, mut waits) = (Vec::new(), Vec::new());
        for (((delivery, content), request), claim) in open.into_iter().zip(requests).zip(claims) {
            match claim {
                Ok(Ok(Some(Claim::Granted { version: _, attempts, position, again }))) => {
                    let ticket = tickets.remove(&delivery.id);
                    let granted = Granted {
                        token: request.token,
                        attempt: request.attempt,
                        attempts,
                        again,
                        position: self.context.steps().entry(position),
                        until: asked + self.context.settings.timings.claim_ttl,
                    };
                    let (worker, stopping) = (self.clone(), stopping.clone());
                    tokio::spawn(async move {
                        in_time(QueueName::Delivery, worker.send(delivery, content, granted, ticket, stopping)).await
                    });
                }
                Ok(Ok(Some(Claim::AlreadySent { by }))) => moves.push((delivery, FinalMove::Duplicate { of: by })),
                Ok(Ok(Some(Claim::InProgress { until_in, .. }))) => {
                    waits.push((delivery, until_in.unwrap_or(SHORT_WAIT).max(SHORT_WAIT)))
                }
                Ok(Ok(Some(Claim::Superseded { by }))) => moves.push((delivery, FinalMove::Superseded { by })),
                Ok(Ok(Some(Claim::RevisionInProgress { until_in, .. }))) => {
                    waits.push((delivery, until_in.unwrap_or(SHORT_WAIT).max(SHORT_WAIT)))
                }
                // Its row remembers; the end of the job before it wakes it.
                Ok(Ok(Some(Claim::NotItsTurn { .. }))) => self.acknowledge(tickets.remove(&delivery.id)),
                Ok(Ok(Some(Claim::OrderTimedOut))) => moves.push((
                    delivery,
                    FinalMove::Failed { reason: Reason::OrderingTimeout, detail: String::new(), dead_letter: true },
                )),
                // The scheduler settles an expired claim within its next round.
                Ok(Ok(Some(Claim::Expired { .. }))) => waits.push((delivery, SHORT_WAIT)),
                // Final by now, or another message of this delivery was faster; an open row is due at the end of that claim.
                Ok(Ok(Some(Claim::NotClaimable { .. }))) => self.acknowledge(tickets.remove(&delivery.id)),
                // Unanswered: the message comes back; a claim that was made all the same expires and is reconciled.
                Ok(Ok(None)) | Ok(Err(Unavailable)) | Err(_) => drop(tickets.remove(&delivery.id)),
            }
        }
        self.finish(moves, &mut tickets).await;
        self.defer(waits, &mut tickets).await;
    }

    async fn with_contents(
        &self,
        open: Vec<LoadedDelivery>,
        tickets: &mut Tickets,
    ) -> Vec<(LoadedDelivery, Arc<Content>)> {
        let mut found: HashMap<ContentKey, Arc<Content>> = HashMap::new();
        let mut wanted: Vec<ContentKey> = Vec::new();
        for key in open.iter().map(content_key) {
            match self.recent_contents.get(&key) {
                Some(content) => drop(found.insert(key, content)),
                None if !wanted.contains(&key) => wanted.push(key),
                None => {}
            }
        }
        let answers = self.contents.submit_all(wanted.clone()).await;
        for (key, answer) in wanted.into_iter().zip(answers) {
            if let Ok(Ok(Some(content))) = answer {
                self.recent_contents.put(key, content.clone(), content.data.len() + 1_024);
                found.insert(key, content);
            }
        }
        let mut out = Vec::with_capacity(open.len());
        for delivery in open {
            match found.get(&content_key(&delivery)) {
                Some(content) => out.push((delivery, content.clone())),
                None => drop(tickets.remove(&delivery.id)),
            }
        }
        out
    }
}

fn content_key(delivery: &LoadedDelivery) -> ContentKey {
    (delivery.job, delivery.route.0, delivery.route.1)
}

pub(super) fn lock_request(delivery: &LoadedDelivery) -> LockRequest {
    LockRequest { key: delivery.identity.lock_key(), owner: delivery.id.to_string() }
}

#[derive(Debug, PartialEq, Eq)]
enum Look {
    /// Nothing is left to do, or the row itself remembers when to go on.
    Acknowledge,
    Finish(FinalMove),
    Wait(Duration),
    Claim,
}

/// What a loaded row asks for.
fn look(delivery: &LoadedDelivery) -> Look {
    // SENDING and UNKNOWN rows are due at the end of their claim or window; the scheduler acts then.
    if !delivery.state.is_claimable() {
        return Look::Acknowledge;
    }
    if delivery.cancelled {
        return Look::Finish(FinalMove::Cancelled);
    }
    if delivery.expired {
        return Look::Finish(FinalMove::Expired);
    }
    if let Some(of) = delivery.sent_by {
        return Look::Finish(FinalMove::Duplicate { of });
    }
    if let Some(by) = delivery.superseded_by {
        return Look::Finish(FinalMove::Superseded { by });
    }
    // A repeated message that came before the retry is due: the row remembers when.
    if delivery.early {
        return Look::Acknowledge;
    }
    let Some(document) = &delivery.document else { return Look::Claim };
    match document.state {
        DocumentState::Ready => Look::Claim,
        DocumentState::Pending | DocumentState::Rendering => Look::Wait(DOCUMENT_WAIT),
        DocumentState::Failed => Look::Finish(FinalMove::Failed {
            reason: document.reason.unwrap_or(Reason::DocumentRenderFailed),
            detail: "its document could not be rendered".into(),
            dead_letter: true,
        }),
    }
}
