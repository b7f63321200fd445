//! Where the simulation holds a process: before each statement, before each call of a port, and, if the seed wants it, before the answer.
//!
//! Whatever a process does to the world outside passes here and waits until the simulation lets it go, with a verdict. Between two such
//! points a process only computes, so who is let go next is all the interleaving there is.

use futures::future::BoxFuture;
use std::{
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::{sync::oneshot, time::Instant};
use waybill_core::ports::QueueName;

/// What waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Statement,
    Send,
    /// A long poll: goes on when a message is there, or at its end.
    Receive {
        queue: QueueName,
        until: Instant,
    },
    Delete,
    Extend,
    Lock,
    Provider,
    Object,
    Render,
    /// It was done; the answer is on its way.
    Answer,
}

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing was done, and the caller hears so.
    Refused,
    /// It was done, and the caller hears of an error, or nothing.
    AnswerLost,
    /// Nothing was done, and the caller hears nothing.
    Silence,
    /// A message is handed out a second time at once.
    Twice,
    /// No more than one message is handed out.
    One,
    /// Messages become visible later, in seconds.
    Late(u64),
    /// By the provider: this recipient.
    Recipient,
    /// By the provider: this account, today.
    Account,
    /// By the provider: too fast.
    Throttled,
    /// 2xx without an id. It was accepted.
    NoId,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) fault: Option<Fault>,
    /// The answer waits at the gate as well.
    pub(crate) hold_answer: bool,
}

pub(crate) struct Waiting {
    /// In the order of arrival.
    pub(crate) number: u64,
    pub(crate) process: usize,
    pub(crate) kind: Kind,
    pub(crate) label: String,
    /// Does at the outside what was asked for, and answers.
    act: Box<dyn FnOnce(Verdict) -> BoxFuture<'static, ()> + Send>,
    /// Dropped with the future that waits.
    waits: Weak<()>,
}

#[derive(Default)]
struct Inner {
    arrived: u64,
    waiting: Vec<Waiting>,
}

/// One per seed.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    inner: Arc<Mutex<Inner>>,
}

impl Gate {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits to be let go. Dropped by a time-out or with its process it is gone.
    pub(crate) fn pass(
        &self,
        process: usize,
        kind: Kind,
        label: String,
    ) -> impl Future<Output = Verdict> + Send + 'static {
        let passed = self.call(process, kind, label, |_| Box::pin(async {}));
        async move { passed.await.0 }
    }

    /// Waits to be let go; then `act` is done outside of the process, on the time there, and its result comes back with the verdict.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        process: usize,
        kind: Kind,
        label: String,
        act: impl FnOnce(Verdict) -> BoxFuture<'static, T> + Send + 'static,
    ) -> impl Future<Output = (Verdict, T)> + Send + 'static {
        let (answer, answered) = oneshot::channel();
        let here = Arc::new(());
        let act = move |verdict| -> BoxFuture<'static, ()> {
            // Whoever is gone by now hears nothing; it was done all the same.
            Box::pin(async move { drop(answer.send((verdict, act(verdict).await))) })
        };
        let mut inner = self.inner();
        inner.arrived += 1;
        let number = inner.arrived;
        inner.waiting.push(Waiting { number, process, kind, label, act: Box::new(act), waits: Arc::downgrade(&here) });
        async move {
            let _here = here;
            match answered.await {
                Ok(answer) => answer,
                // The seed is over.
                Err(_) => std::future::pending().await,
            }
        }
    }

    /// What waits now, in the order of arrival, as the eye sees it.
    pub(crate) fn look<T>(&self, see: impl Fn(&Waiting) -> Option<T>) -> Vec<T> {
        let mut inner = self.inner();
        inner.waiting.retain(|w| w.waits.strong_count() > 0);
        inner.waiting.iter().filter_map(see).collect()
    }

    /// Lets a call go: what has to be done for it at the outside.
    pub(crate) fn open(&self, number: u64, verdict: Verdict) -> Option<BoxFuture<'static, ()>> {
        let mut inner = self.inner();
        let at = inner.waiting.iter().position(|w| w.number == number)?;
        Some((inner.waiting.remove(at).act)(verdict))
    }
}
