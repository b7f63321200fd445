//! Intake: events that come from EventBridge by queue instead of `POST /events`, with the same meaning.
//!
//! A batch is one commit, whoever its tenants are, and a message is deleted only after it. A consumer that dies in between leaves messages
//! that come again and are found to be repeats, by the event's own `source` and `id`, as posts are. So do EventBridge's own repeats and
//! archive replays. What can never be accepted goes to the dead-letter queue with its reason; what can't be accepted now comes back.

mod envelope;
mod payload;

use crate::{
    accept::{AcceptAnswer, AcceptError, Acceptor},
    consume::{self, Handled, Handler},
    context::{Context, Lifecycle},
    poison::{Refusal, refuse},
};
use async_trait::async_trait;
use envelope::{Detail, Envelope};
use futures::future::join_all;
use payload::NoPayload;
use std::{collections::HashMap, sync::Arc, time::Duration};
use tracing::warn;
use waybill_core::{
    event::{Event, EventLimits},
    ids::TenantId,
    ports::{QueueName, ReceivedMessage},
    trace::Traceparent,
};

/// Whoever holds the event's key has committed by then, or never will.
const BUSY_DELAY: Duration = Duration::from_secs(2);

/// Receives and accepts until `life` stops.
pub async fn run(context: Arc<Context>, acceptor: Acceptor, life: Lifecycle) {
    let intake = Intake { context: context.clone(), acceptor };
    consume::run(context, QueueName::Intake, life, &intake).await;
}

/// Reads a message as [`run`] does and does nothing about it. `max_bytes`: of the event.
///
/// # Errors
/// Why it would go to the dead-letter queue: a stable word, a colon, and the detail, which repeats nothing of the message's values.
pub fn check(body: &str, limits: &EventLimits, max_bytes: usize) -> Result<(), String> {
    let read = || envelope::read(body).and_then(|found| envelope::detail(found.detail.get(), limits, max_bytes));
    read().map(drop).map_err(|refusal| format!("{}: {}", refusal.reason, refusal.detail))
}

struct Intake {
    context: Arc<Context>,
    acceptor: Acceptor,
}

/// What becomes of one message.
enum Fate {
    /// A job stands for it, now or since an earlier message.
    Accepted(&'static str),
    Refused(Refusal),
    /// It comes back, after this or by itself.
    Back(Option<Duration>),
    /// As `Back`, and the database was away.
    Away,
    /// It comes back as long as it has receptions left; then this is why not.
    BackUntil(Refusal),
}

impl Fate {
    fn of(answer: Result<AcceptAnswer, AcceptError>) -> Self {
        match answer {
            Ok(AcceptAnswer::New(_)) => Self::Accepted("new"),
            Ok(AcceptAnswer::Replay(_)) => Self::Accepted("replay"),
            Ok(AcceptAnswer::KeyReused(job)) => Self::Refused(Refusal::new(
                "idempotency_key_reused",
                format!("the event's source and id belong to {job}, whose content is another"),
            )),
            Ok(AcceptAnswer::Busy) => Self::Back(Some(BUSY_DELAY)),
            Err(AcceptError::Unavailable) => Self::Away,
            Err(AcceptError::Internal) => {
                Self::BackUntil(Refusal::new("could_not_be_stored", "the database refused the event; see the log"))
            }
        }
    }
}

#[async_trait]
impl Handler for Intake {
    async fn handle(&self, messages: &[ReceivedMessage]) -> Handled {
        let envelopes: Vec<_> = messages.iter().map(|message| envelope::read(&message.body)).collect();
        let sources: Vec<&str> = envelopes.iter().flatten().map(|envelope| envelope.source.as_str()).collect();
        let tenants = match self.context.store.find_intake_tenants(&sources).await {
            Ok(tenants) => tenants,
            Err(error) => {
                warn!(messages = messages.len(), error = &error as &dyn std::error::Error, "intake.sources_not_read");
                return Handled { away: error.is_unavailable(), ..Handled::default() };
            }
        };
        let tenants = &tenants;
        let read = messages.iter().zip(envelopes).map(|(message, envelope)| async move {
            let (tenant, event) = self.read(envelope, tenants).await?;
            Ok((tenant, Event { trace: Traceparent::of(message), ..event }))
        });
        let read: Vec<Result<_, Fate>> = join_all(read).await;
        let (mut fates, mut places, mut events) = (Vec::with_capacity(messages.len()), Vec::new(), Vec::new());
        for (place, read) in read.into_iter().enumerate() {
            // An event's fate is the answer that it gets; a missing one would not be taken for success.
            fates.push(read.map_or_else(
                |fate| fate,
                |event| {
                    places.push(place);
                    events.push(event);
                    Fate::Back(None)
                },
            ));
        }
        for (place, answer) in places.into_iter().zip(self.acceptor.accept_batch(&events).await) {
            fates[place] = Fate::of(answer);
        }
        self.conclude(messages, fates).await
    }
}

impl Intake {
    /// The event of one message, and whose it is.
    async fn read(
        &self,
        envelope: Result<Envelope<'_>, Refusal>,
        tenants: &HashMap<String, TenantId>,
    ) -> Result<(TenantId, Event), Fate> {
        let envelope = envelope.map_err(Fate::Refused)?;
        let Some(tenant) = tenants.get(&envelope.source) else {
            let detail = "no tenant takes events of the envelope's source: waybill tenants intake";
            return Err(Fate::Refused(Refusal::new("unknown_source", detail)));
        };
        let settings = &self.context.settings;
        let detail = envelope::detail(envelope.detail.get(), &settings.limits, settings.max_body_bytes);
        let event = match detail.map_err(Fate::Refused)? {
            Detail::Event(event) => *event,
            Detail::ClaimCheck(check) => {
                let bytes = payload::fetch(self.context.objects.as_ref(), &check).await.map_err(|none| match none {
                    NoPayload::Refused(refusal) => Fate::Refused(refusal),
                    NoPayload::Missing => Fate::BackUntil(Refusal::new("payload_missing", "no object has this key")),
                    NoPayload::Unavailable => Fate::Back(None),
                })?;
                envelope::payload(&bytes, &settings.limits).map_err(Fate::Refused)?
            }
        };
        Ok((*tenant, event))
    }

    async fn conclude(&self, messages: &[ReceivedMessage], fates: Vec<Fate>) -> Handled {
        let mut handled = Handled::default();
        for (message, fate) in messages.iter().zip(fates) {
            let last = message.receive_count >= self.context.settings.timings.max_receive_count;
            let result = match fate {
                Fate::Accepted(result) => {
                    handled.done.push(message.receipt.clone());
                    result
                }
                Fate::BackUntil(refusal) if last => self.refuse(message, &refusal, &mut handled).await,
                Fate::Refused(refusal) => self.refuse(message, &refusal, &mut handled).await,
                Fate::Back(Some(delay)) => {
                    handled.later.push((message.receipt.clone(), delay));
                    "back"
                }
                Fate::Back(None) | Fate::BackUntil(_) => "back",
                Fate::Away => {
                    handled.away = true;
                    "back"
                }
            };
            metrics::counter!("waybill_intake_messages_total", "result" => result).increment(1);
        }
        handled
    }

    async fn refuse(&self, message: &ReceivedMessage, refusal: &Refusal, handled: &mut Handled) -> &'static str {
        if !refuse(&self.context, QueueName::Intake, message, refusal).await {
            return "back";
        }
        handled.done.push(message.receipt.clone());
        "refused"
    }
}
