//! The sink itself: one cheap handle over the mailbox, the counts, the fault script and the event publisher.

use std::{collections::HashMap, io, sync::Arc};

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    control,
    counts::Counts,
    events::{EventsTarget, Publisher},
    exchange::{Order, Played},
    faults::{Fault, Script},
    idempotency::Keys,
    mail::{Mail, Provider},
    mailbox, postmark, resend, sendgrid, server, ses, smtp,
    store::MailStore,
};

/// How a sink starts out. All of it can be changed later, except the number of mails.
#[derive(Debug, Clone)]
pub struct SinkConfig {
    /// How many mails the mailbox keeps; counts stay exact beyond that. 20,000 by default.
    pub max_mails: usize,
    /// Where provider events go; `None`: nowhere.
    pub events: Option<EventsTarget>,
}

impl Default for SinkConfig {
    fn default() -> Self {
        SinkConfig { max_mails: 20_000, events: None }
    }
}

/// A running or not yet running sink. Clones share everything.
#[derive(Clone)]
pub struct Sink {
    inner: Arc<Inner>,
}

struct Inner {
    mails: MailStore,
    counts: Counts,
    faults: Script,
    keys: Keys,
    publisher: Publisher,
}

impl Sink {
    pub fn new(config: SinkConfig) -> Sink {
        let inner = Inner {
            mails: MailStore::new(config.max_mails),
            counts: Counts::default(),
            faults: Script::default(),
            keys: Keys::default(),
            publisher: Publisher::new(config.events),
        };
        Sink { inner: Arc::new(inner) }
    }

    /// Serves until `shutdown` is cancelled; requests that are still held by then get three more seconds.
    ///
    /// # Errors
    /// When the listener itself fails; never for one connection.
    pub async fn serve(self, listener: TcpListener, shutdown: CancellationToken) -> io::Result<()> {
        server::serve(listener, self.router(), shutdown).await
    }

    /// Serves SMTP until `shutdown` is cancelled, on a listener of its own.
    ///
    /// # Errors
    /// When the listener itself fails; never for one connection.
    pub async fn serve_smtp(self, listener: TcpListener, shutdown: CancellationToken) -> io::Result<()> {
        smtp::serve(self, listener, shutdown).await
    }

    /// Every route. Mounted in a server other than [`Sink::serve`], the reset faults can't reset the connection and
    /// break the answer's body off instead.
    pub fn router(&self) -> Router {
        Router::new()
            .merge(ses::routes())
            .merge(sendgrid::routes())
            .merge(resend::routes())
            .merge(postmark::routes())
            .merge(mailbox::routes())
            .merge(control::routes())
            .with_state(self.clone())
    }

    /// All acceptances since the start or the last reset.
    pub fn accepted(&self) -> u64 {
        self.inner.counts.accepted()
    }

    /// Acceptances per `delivery_id` tag.
    pub fn acceptances_by_delivery(&self) -> HashMap<String, u64> {
        self.inner.counts.deliveries()
    }

    /// Acceptances per `identity` tag.
    pub fn acceptances_by_identity(&self) -> HashMap<String, u64> {
        self.inner.counts.identities()
    }

    /// Requests to one provider's send route, refused ones included. 0 for a provider that the sink does not play.
    pub fn requests(&self, provider: &str) -> u64 {
        provider.parse::<Provider>().map_or(0, |provider| self.inner.counts.requests(provider))
    }

    /// Replaces the fault script.
    pub fn set_faults(&self, faults: Vec<Fault>) {
        self.inner.faults.replace(faults);
    }

    /// What is left of the fault script.
    pub fn remaining_faults(&self) -> Vec<Fault> {
        self.inner.faults.remaining()
    }

    /// Where provider events go from now on, retries of older ones included.
    pub fn set_events_target(&self, target: Option<EventsTarget>) {
        self.inner.publisher.set_target(target);
    }

    /// Lets `PUT /events-target` name hosts outside loopback, as in a compose network.
    pub fn allow_remote_events(&self) {
        self.inner.publisher.allow_remote();
    }

    /// The mails kept, newest first.
    pub fn mails(&self) -> Vec<Mail> {
        self.inner.mails.newest().iter().map(|mail| Mail::clone(mail)).collect()
    }

    /// Empties the mailbox; counts stay.
    pub fn clear_mailbox(&self) {
        self.inner.mails.clear();
    }

    /// Sets all counts to zero; the mailbox stays.
    pub fn reset_counts(&self) {
        self.inner.counts.reset();
    }

    pub(crate) fn store(&self) -> &MailStore {
        &self.inner.mails
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.inner.counts
    }

    pub(crate) fn faults(&self) -> &Script {
        &self.inner.faults
    }

    pub(crate) fn publisher(&self) -> &Publisher {
        &self.inner.publisher
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.inner.keys
    }

    /// Takes the mails of one request and returns their message id: for a repeated key the one that it had.
    pub(crate) fn accept(&self, played: &dyn Played, order: Order) -> String {
        if let Some(id) = order.key.as_ref().and_then(|key| key.answered()) {
            return id.to_owned();
        }
        let message_id = played.new_message_id();
        let now = chrono::Utc::now();
        for draft in order.drafts {
            let mail = draft.into_mail(played.provider(), message_id.clone(), now);
            self.inner.counts.add_acceptance(&mail);
            self.inner.publisher.publish(|| played.events(&mail), played.provider());
            self.inner.mails.push(mail);
        }
        if let Some(key) = order.key {
            key.remember(&message_id);
        }
        message_id
    }
}
