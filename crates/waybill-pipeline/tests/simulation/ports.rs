//! The ports of one process: the testkit's fakes behind the gate.

use crate::{
    gate::{Fault, Kind, Verdict},
    outside::{Mutant, Outside},
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use std::{collections::HashMap, sync::Arc, sync::Mutex, time::Duration};
use tokio::time::Instant;
use waybill_core::{
    mail::OutgoingMail,
    outcome::Outcome,
    ports::{
        EntryError, FeedbackKind, Lock, LockAnswer, LockError, LockRequest, ObjectError, ObjectInfo, ObjectStore,
        OutgoingMessage, Provider, PutOutcome, Queue, QueueDepth, QueueError, QueueName, Receipt, ReceivedMessage,
        RenderFailure, RenderRequest, RenderedDocument, Renderer,
    },
};
use waybill_testkit::fakes::FakeRenderer;

/// One process's way to the outside.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) outside: Arc<Outside>,
    pub(crate) process: usize,
}

impl Line {
    async fn pass(&self, kind: Kind, label: &str) -> Verdict {
        self.outside.gate.pass(self.process, kind, label.to_owned()).await
    }

    /// Does `act` outside of this process, unless the verdict is that nothing is done: then `None`.
    async fn call<T: Send + 'static>(
        &self,
        kind: Kind,
        label: &str,
        act: impl FnOnce(Arc<Outside>, Verdict) -> BoxFuture<'static, T> + Send + 'static,
    ) -> Option<T> {
        let outside = self.outside.clone();
        let called = self.outside.gate.call(self.process, kind, label.to_owned(), move |verdict| {
            let refused = verdict.fault == Some(Fault::Refused);
            Box::pin(async move { if refused { None } else { Some(act(outside, verdict).await) } })
        });
        let (verdict, done) = called.await;
        self.answer(verdict, label).await;
        done.filter(|_| verdict.fault != Some(Fault::AnswerLost))
    }

    async fn answer(&self, verdict: Verdict, label: &str) {
        if verdict.hold_answer {
            self.outside.gate.pass(self.process, Kind::Answer, format!("answer of {label}")).await;
        }
    }
}

pub(crate) struct SimQueue {
    line: Line,
    /// What was received by this process, for the check of what is deleted.
    bodies: Mutex<HashMap<Receipt, String>>,
}

fn reset() -> QueueError {
    QueueError("connection reset".into())
}

impl SimQueue {
    pub(crate) fn new(line: Line) -> Self {
        Self { line, bodies: Mutex::default() }
    }
}

#[async_trait]
impl Queue for SimQueue {
    async fn send_batch(
        &self,
        queue: QueueName,
        messages: &[OutgoingMessage],
    ) -> Result<Vec<Result<(), EntryError>>, QueueError> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        // Statements answer in the order of their rows' places on disk, which is no seed's business. No entry is refused here.
        let mut messages = messages.to_vec();
        messages.sort_by(|a, b| a.body.cmp(&b.body));
        let label = format!("send {} x{}", queue.as_str(), messages.len());
        let send = move |outside: Arc<Outside>, verdict: Verdict| -> BoxFuture<'static, _> {
            if let Some(Fault::Late(seconds)) = verdict.fault {
                messages.iter_mut().for_each(|message| message.delay = Duration::from_secs(seconds));
            }
            let lost = outside.mutant == Some(Mutant::QueueLosesAndNobodySweeps) && queue == QueueName::Delivery;
            Box::pin(async move {
                if lost { Ok(vec![Ok(()); messages.len()]) } else { outside.queue.send_batch(queue, &messages).await }
            })
        };
        self.line.call(Kind::Send, &label, send).await.unwrap_or_else(|| Err(reset()))
    }

    async fn receive(
        &self,
        queue: QueueName,
        max: usize,
        wait: Duration,
        visibility: Duration,
    ) -> Result<Vec<ReceivedMessage>, QueueError> {
        let kind = Kind::Receive { queue, until: Instant::now() + wait };
        let receive = move |outside: Arc<Outside>, verdict: Verdict| -> BoxFuture<'static, _> {
            outside.queue.duplicate_next(usize::from(verdict.fault == Some(Fault::Twice)));
            let max = if verdict.fault == Some(Fault::One) { 1 } else { max };
            Box::pin(async move { outside.queue.receive(queue, max, Duration::ZERO, visibility).await })
        };
        let received = self.line.call(kind, &format!("receive {}", queue.as_str()), receive).await;
        let received = received.unwrap_or_else(|| Err(reset()))?;
        let bodies = received.iter().map(|message| (message.receipt.clone(), message.body.clone()));
        self.bodies.lock().unwrap().extend(bodies);
        Ok(received)
    }

    async fn delete_batch(
        &self,
        queue: QueueName,
        receipts: &[Receipt],
    ) -> Result<Vec<Result<(), EntryError>>, QueueError> {
        let label = format!("delete {} x{}", queue.as_str(), receipts.len());
        let receipts = receipts.to_vec();
        let bodies: Vec<Option<String>> = {
            let bodies = self.bodies.lock().unwrap();
            receipts.iter().map(|receipt| bodies.get(receipt).cloned()).collect()
        };
        let delete = move |outside: Arc<Outside>, _: Verdict| -> BoxFuture<'static, _> {
            Box::pin(async move {
                let deleted = outside.queue.delete_batch(queue, &receipts).await?;
                let gone = deleted.iter().zip(bodies).filter(|(result, _)| result.is_ok()).filter_map(|(_, body)| body);
                if queue == QueueName::Delivery {
                    gone.for_each(|body| outside.note_deleted(body));
                }
                Ok(deleted)
            })
        };
        self.line.call(Kind::Delete, &label, delete).await.unwrap_or_else(|| Err(reset()))
    }

    async fn change_visibility_batch(
        &self,
        queue: QueueName,
        entries: &[(Receipt, Duration)],
    ) -> Result<Vec<Result<(), EntryError>>, QueueError> {
        let label = format!("extend {} x{}", queue.as_str(), entries.len());
        let entries = entries.to_vec();
        let change = move |outside: Arc<Outside>, _: Verdict| -> BoxFuture<'static, _> {
            Box::pin(async move { outside.queue.change_visibility_batch(queue, &entries).await })
        };
        self.line.call(Kind::Extend, &label, change).await.unwrap_or_else(|| Err(reset()))
    }

    async fn depth(&self, queue: QueueName) -> Result<QueueDepth, QueueError> {
        self.line.outside.queue.depth(queue).await
    }
}

pub(crate) struct SimLock(pub(crate) Line);

#[async_trait]
impl Lock for SimLock {
    async fn acquire(&self, requests: &[LockRequest], ttl: Duration) -> Result<Vec<LockAnswer>, LockError> {
        let requests = requests.to_vec();
        let label = format!("lock x{}", requests.len());
        let acquire = move |outside: Arc<Outside>, _: Verdict| -> BoxFuture<'static, _> {
            Box::pin(async move { outside.lock.acquire(&requests, ttl).await })
        };
        self.0.call(Kind::Lock, &label, acquire).await.unwrap_or_else(|| Err(LockError("connection reset".into())))
    }

    async fn release(&self, requests: &[LockRequest]) -> Result<usize, LockError> {
        let requests = requests.to_vec();
        let label = format!("unlock x{}", requests.len());
        let release = move |outside: Arc<Outside>, _: Verdict| -> BoxFuture<'static, _> {
            Box::pin(async move { outside.lock.release(&requests).await })
        };
        self.0.call(Kind::Lock, &label, release).await.unwrap_or_else(|| Err(LockError("connection reset".into())))
    }
}

pub(crate) struct SimObjects(pub(crate) Line);

fn unavailable() -> ObjectError {
    ObjectError::Unavailable("connection reset".into())
}

impl SimObjects {
    async fn pass(&self, what: &str) -> Result<Verdict, ObjectError> {
        let verdict = self.0.pass(Kind::Object, what).await;
        if verdict.fault == Some(Fault::Refused) { Err(unavailable()) } else { Ok(verdict) }
    }
}

#[async_trait]
impl ObjectStore for SimObjects {
    async fn put_if_absent(&self, key: &str, bytes: Bytes, content_type: &str) -> Result<PutOutcome, ObjectError> {
        let verdict = self.pass("put").await?;
        let put = self.0.outside.objects.put_if_absent(key, bytes, content_type).await;
        self.0.answer(verdict, "put").await;
        if verdict.fault == Some(Fault::AnswerLost) { Err(unavailable()) } else { put }
    }

    async fn get(&self, key: &str) -> Result<Option<Bytes>, ObjectError> {
        self.pass("get").await?;
        self.0.outside.objects.get(key).await
    }

    async fn head(&self, key: &str) -> Result<Option<ObjectInfo>, ObjectError> {
        self.pass("head").await?;
        self.0.outside.objects.head(key).await
    }
}

pub(crate) struct SimRenderer {
    line: Line,
    inner: FakeRenderer,
}

impl SimRenderer {
    pub(crate) fn new(line: Line) -> Self {
        Self { inner: FakeRenderer::new(Arc::new(SimObjects(line.clone()))), line }
    }
}

#[async_trait]
impl Renderer for SimRenderer {
    async fn render(&self, request: &RenderRequest) -> Result<RenderedDocument, RenderFailure> {
        match self.line.pass(Kind::Render, "render").await.fault {
            Some(Fault::Refused) => Err(RenderFailure::Temporary("busy".into())),
            _ => self.inner.render(request).await,
        }
    }

    fn template_version(&self, document_type: &str) -> Option<i32> {
        self.inner.template_version(document_type)
    }
}

/// One account. Keeps its deadline like an adapter: what did not answer by then is unknown.
pub(crate) struct SimProvider {
    pub(crate) line: Line,
    pub(crate) name: &'static str,
    /// The events that it will tell about an accepted mail; none: they don't reach us.
    pub(crate) events: Vec<FeedbackKind>,
}

const DEADLINE: Duration = Duration::from_secs(10);

impl SimProvider {
    async fn call(&self, mail: &OutgoingMail) -> Outcome {
        let label = format!("{} {}", self.name, &mail.delivery.to_string()[24..]);
        let verdict = self.line.pass(Kind::Provider, &label).await;
        let detail = String::from("scripted");
        match verdict.fault {
            Some(Fault::Refused) => return Outcome::Unavailable { detail },
            Some(Fault::Recipient) => return Outcome::RejectedRecipient { detail },
            Some(Fault::Account) => return Outcome::Unusable { detail },
            Some(Fault::Throttled) => return Outcome::Throttled { retry_after: None, detail },
            Some(Fault::Silence) => return std::future::pending().await,
            Some(Fault::AnswerLost | Fault::NoId | Fault::Twice | Fault::One | Fault::Late(_)) | None => {}
        }
        let id = self.line.outside.accept(self.name, mail, &self.events);
        self.line.answer(verdict, &label).await;
        match verdict.fault {
            Some(Fault::AnswerLost) => std::future::pending().await,
            Some(Fault::NoId) => Outcome::Unknown { detail: "2xx without an id".into() },
            _ if self.line.outside.mutant == Some(Mutant::ProviderDenies) => Outcome::Unavailable { detail },
            _ => Outcome::Accepted { provider_message_id: id },
        }
    }
}

#[async_trait]
impl Provider for SimProvider {
    fn name(&self) -> &'static str {
        self.name
    }

    fn timeout(&self) -> Duration {
        DEADLINE
    }

    fn events_wired(&self) -> bool {
        !self.events.is_empty()
    }

    fn max_encoded_bytes(&self) -> usize {
        25 << 20
    }

    async fn send(&self, mail: &OutgoingMail) -> Outcome {
        let silence = Outcome::Unknown { detail: "no answer in time".into() };
        let outcome = tokio::time::timeout(DEADLINE, self.call(mail)).await.unwrap_or(silence);
        if matches!(outcome, Outcome::Unknown { .. }) {
            self.line.outside.leave_unknown(mail);
        }
        outcome
    }
}
