//! Route: one decision per job, in one transaction, then one delivery message per recipient.
//!
//! A redelivered main message finds its job decided and decides nothing again; it only sends the messages of deliveries that are still
//! PENDING, and claims absorb the repeats. The main message is deleted last. Routers never call a provider.

use crate::{
    consume::{self, Handled, Handler},
    context::{Context, Lifecycle},
    deliver::dead_letter_by_id,
    order,
    poison::dead_letter_message,
};
use async_trait::async_trait;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};
use tracing::{error, info, warn};
use waybill_core::{
    event::recipient,
    ids::{DeliveryId, DocumentId, JobId, TenantId},
    json::{self, Json},
    message::{DeliveryMessage, JobMessage, Parsed, encode, parse},
    ports::{OutgoingMessage, QueueName, Receipt, ReceivedMessage},
    route::{JobFacts, Plan, plan},
    state::{JobState, Reason},
    trace::Traceparent,
};
use waybill_store::{RoutableJob, Routed, RoutedJob, RoutingOptions, StoreError};

/// Messages of a newer build come back after this.
pub(crate) const NEWER_DELAY: Duration = Duration::from_secs(30);
/// Delivery messages read and sent at a time.
const SEND_PAGE: i64 = 1_000;

/// Receives and routes until `life` stops.
pub async fn run(context: Arc<Context>, life: Lifecycle) {
    let router = Router { context: context.clone() };
    consume::run(context, QueueName::Main, life, &router).await;
}

struct Router {
    context: Arc<Context>,
}

#[async_trait]
impl Handler for Router {
    async fn handle(&self, messages: &[ReceivedMessage]) -> Handled {
        let context = &self.context;
        // In the order of ids: the same batch takes the same steps.
        let mut jobs: BTreeMap<JobId, Vec<Receipt>> = BTreeMap::new();
        let mut handled = Handled::default();
        for message in messages {
            match parse::<JobMessage>(&message.body) {
                Parsed::Message(parsed) => jobs.entry(parsed.job).or_default().push(message.receipt.clone()),
                Parsed::Newer(_) => handled.later.push((message.receipt.clone(), NEWER_DELAY)),
                Parsed::Malformed(reason) => {
                    if dead_letter_message(context, QueueName::Main, message, &reason).await {
                        handled.done.push(message.receipt.clone());
                    }
                }
            }
        }
        let (finished, available) = route_batch(context, &jobs.keys().copied().collect::<Vec<_>>()).await;
        handled.away = !available;
        for (job, receipts) in jobs {
            if finished.contains(&job) {
                handled.done.extend(receipts);
            }
        }
        handled
    }
}

/// Routes a batch; if the database is there and refuses it, each job alone, so that a row that this build can't read hurts only itself.
/// Returns the jobs that are done, and whether the database was there.
async fn route_batch(context: &Context, jobs: &[JobId]) -> (HashSet<JobId>, bool) {
    match route(context, jobs).await {
        Ok(finished) => (finished, true),
        Err(error) if error.is_unavailable() || jobs.len() == 1 => {
            warn!(jobs = jobs.len(), error = &error as &dyn std::error::Error, "router.failed");
            (HashSet::new(), !error.is_unavailable())
        }
        Err(_) => {
            let mut finished = HashSet::new();
            for job in jobs {
                match route(context, std::slice::from_ref(job)).await {
                    Ok(done) => finished.extend(done),
                    Err(error) => {
                        error!(job = %job, error = &error as &dyn std::error::Error, "router.job_failed");
                        if error.is_unavailable() {
                            return (finished, false);
                        }
                    }
                }
            }
            (finished, true)
        }
    }
}

/// Decides on the jobs that are still PENDING and sends the messages of all of them. Returns the jobs whose messages were all sent.
///
/// # Errors
/// [`StoreError`] when nothing could be loaded.
pub async fn route(context: &Context, ids: &[JobId]) -> Result<HashSet<JobId>, StoreError> {
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    let jobs = context.store.load_jobs_for_routing(ids).await?;
    // A message for a job that isn't there (a restored database, say) has nothing to say.
    let mut finished: HashSet<JobId> = ids.iter().copied().filter(|id| jobs.iter().all(|job| job.job != *id)).collect();
    if !finished.is_empty() {
        warn!(jobs = finished.len(), "router.unknown_jobs");
    }
    let undecidable: HashSet<JobId> = jobs.iter().filter(|job| is_undecidable(job)).map(|job| job.job).collect();
    let decided: Vec<RoutedJob> = jobs
        .iter()
        .filter(|job| job.state == JobState::Pending && !undecidable.contains(&job.job))
        .map(|job| decide(context, job))
        .collect();
    let mut failed = record(context, &decided).await?;
    failed.extend(undecidable);
    let sendable: Vec<JobId> = jobs.iter().map(|job| job.job).filter(|job| !failed.contains(job)).collect();
    if decided.iter().any(|job| !job.plan.documents.is_empty()) {
        context.documents_bell.notify_waiters();
    }
    let traces: Traces<'_> = jobs.iter().filter_map(|job| Some((job.job, job.trace.as_ref()?))).collect();
    for job in sendable.iter().filter(|job| traces.contains_key(job)) {
        info!(job = %job, trace_id = traces[job].trace_id(), "router.routed");
    }
    let unsent = send_messages(context, &sendable, &traces).await?;
    let nothing: Vec<JobId> =
        decided.iter().filter(|d| d.plan.deliveries.iter().all(|p| p.failed.is_some())).map(|d| d.job).collect();
    if !nothing.is_empty() {
        order::refresh(context, &nothing).await?;
        // Some have ended with the decision itself.
        if jobs.iter().any(|job| job.ordered && nothing.contains(&job.job)) {
            order::advance(context, &nothing).await?;
        }
    }
    finished.extend(sendable.into_iter().filter(|job| !unsent.contains(job)));
    Ok(finished)
}

type Traces<'a> = HashMap<JobId, &'a Traceparent>;

/// A route that a newer build wrote: whoever decides without it loses its recipients for good. The message comes back, and the job stays
/// PENDING until a process that can read all of its routes takes it.
fn is_undecidable(job: &RoutableJob) -> bool {
    let Some(route) = job.unreadable_route.as_deref().filter(|_| job.state == JobState::Pending) else { return false };
    error!(job = %job.job, route, "router.unreadable_route");
    true
}

fn decide(context: &Context, job: &RoutableJob) -> RoutedJob {
    let plan = match facts(job) {
        Ok(facts) => plan(&facts, &job.routes, context.settings.limits.max_recipients, &|document| {
            context.renderer.template_version(document)
        }),
        Err(problem) => Plan { nothing: Some((Reason::NoRecipients, problem)), ..Plan::default() },
    };
    RoutedJob {
        job: job.job,
        tenant: job.tenant,
        document_ids: plan.documents.iter().map(|_| DocumentId(context.chance.id())).collect(),
        delivery_ids: plan.deliveries.iter().map(|_| DeliveryId(context.chance.id())).collect(),
        plan,
    }
}

/// Reads back what accept stored; it was checked there, so a failure here is a bad row and hurts only its own job.
fn facts(job: &RoutableJob) -> Result<JobFacts, String> {
    let data = json::parse(job.data.as_bytes()).map_err(|e| format!("stored data: {e}"))?;
    let recipients = json::parse(job.recipients.as_bytes()).map_err(|e| format!("stored recipients: {e}"))?;
    let recipients = recipients
        .as_array()
        .unwrap_or_default()
        .iter()
        .map(|r: &Json| recipient(r).map_err(|(at, _, detail)| format!("stored recipients{at}: {detail}")));
    Ok(JobFacts {
        tenant: job.tenant,
        job: job.job,
        subject: job.subject.clone(),
        revision: job.revision.clone(),
        recipients: recipients.collect::<Result<_, _>>()?,
        data,
    })
}

/// One transaction for the batch; if the database refuses it, one for each job. Returns the jobs that could not be recorded.
async fn record(context: &Context, decided: &[RoutedJob]) -> Result<HashSet<JobId>, StoreError> {
    let timings = &context.settings.timings;
    let options = RoutingOptions { requeue_after: timings.requeue_after, document_deadline: timings.document.deadline };
    let mut failed = HashSet::new();
    if decided.is_empty() {
        return Ok(failed);
    }
    let recorded = match context.store.record_routing(decided, &options).await {
        Ok(routed) => routed,
        Err(error) if error.is_unavailable() => return Err(error),
        Err(_) => {
            let mut routed = Routed::default();
            for job in decided {
                match context.store.record_routing(std::slice::from_ref(job), &options).await {
                    Ok(one) => {
                        routed.jobs.extend(one.jobs);
                        routed.dead.extend(one.dead);
                    }
                    Err(error) => {
                        error!(job = %job.job, error = &error as &dyn std::error::Error, "router.job_failed");
                        failed.insert(job.job);
                    }
                }
            }
            routed
        }
    };
    metrics::counter!("waybill_jobs_routed_total").increment(recorded.jobs.len() as u64);
    if let Err(error) = dead_letter_by_id(context, &recorded.dead, Reason::DocumentRenderFailed).await {
        // The rows are the authority, and a redrive finds them.
        warn!(
            deliveries = recorded.dead.len(),
            error = &error as &dyn std::error::Error,
            "router.dead_letters_not_told"
        );
    }
    let refused = decided
        .iter()
        .filter(|d| recorded.jobs.contains(&d.job))
        .filter_map(|d| d.plan.nothing.as_ref().map(|n| (d.job, n)));
    for (job, (reason, _)) in refused {
        info!(job = %job, reason = reason.as_str(), "router.job_without_deliveries");
    }
    Ok(failed)
}

/// Sends the messages of deliveries that are PENDING. Returns the jobs whose main messages have to come back.
async fn send_messages(context: &Context, jobs: &[JobId], traces: &Traces<'_>) -> Result<HashSet<JobId>, StoreError> {
    let mut unsent = HashSet::new();
    let mut after = None;
    while !jobs.is_empty() {
        let page = context.store.list_unsent_pending(jobs, after, SEND_PAGE).await?;
        let traced: Vec<_> = page.iter().map(|(tenant, id, job)| (*tenant, *id, traces.get(job).copied())).collect();
        let sent = send_traced(context, &traced).await;
        if sent.contains(&false) {
            // Which job it was doesn't matter: the main messages of all of them come back, and only what is still PENDING is sent again.
            unsent.extend(jobs);
        }
        after = page.last().map(|(_, delivery, _)| *delivery);
        if page.len() < SEND_PAGE as usize {
            break;
        }
    }
    Ok(unsent)
}

/// Sends one message per delivery; entries that the queue did not take are tried once more. Returns per entry whether it was taken. What
/// was not is found again by its row's `due_at`.
pub(crate) async fn send_delivery_messages(context: &Context, deliveries: &[(TenantId, DeliveryId)]) -> Vec<bool> {
    send_traced(context, &deliveries.iter().map(|(tenant, id)| (*tenant, *id, None)).collect::<Vec<_>>()).await
}

/// As [`send_delivery_messages`], each with its job's trace context where the caller has it at hand. The worker has it from the row.
async fn send_traced(context: &Context, deliveries: &[(TenantId, DeliveryId, Option<&Traceparent>)]) -> Vec<bool> {
    let mut taken = vec![false; deliveries.len()];
    for _ in 0..2 {
        let open: Vec<usize> = (0..deliveries.len()).filter(|i| !taken[*i]).collect();
        if open.is_empty() {
            break;
        }
        let messages: Vec<OutgoingMessage> = open
            .iter()
            .map(|i| OutgoingMessage {
                body: encode(&DeliveryMessage::new(deliveries[*i].1)),
                group: Some(deliveries[*i].0.to_string()),
                attributes: deliveries[*i].2.iter().map(|trace| trace.attribute()).collect(),
                ..OutgoingMessage::default()
            })
            .collect();
        match context.queue.send_batch(QueueName::Delivery, &messages).await {
            Ok(results) => open.iter().zip(results).for_each(|(i, result)| taken[*i] = result.is_ok()),
            Err(error) => warn!(entries = open.len(), error = %error, "router.send_failed"),
        }
    }
    let missing = taken.iter().filter(|t| !**t).count();
    if missing > 0 {
        warn!(entries = missing, "router.entries_not_taken");
    }
    taken
}
