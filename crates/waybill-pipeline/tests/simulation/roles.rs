//! What runs in which process.

use crate::{
    outside::Outside,
    ports::{Line, SimLock, SimObjects, SimProvider, SimQueue, SimRenderer},
    process::Process,
    world::{Answers, Ask, FRONT, SWEEPER, World},
};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::mpsc;
use waybill_core::{event::Event, ids::TenantId};
use waybill_pipeline::{
    accept::{AcceptAnswer, Acceptor},
    alerts::Alerter,
    context::{Context, Lifecycle, Settings},
    deliver, documents, feedback, router, scheduler,
};
use waybill_store::Store;
use waybill_testkit::clock::SeededChance;

fn settings() -> Settings {
    Settings {
        worker_concurrency: 10,
        worker_pollers: 1,
        queue_wait: Duration::from_secs(10),
        sweep_interval: Duration::from_secs(5),
        ..Settings::default()
    }
}

fn context(world: &World<'_>, number: usize) -> Arc<Context> {
    let outside: &Arc<Outside> = &world.outside;
    let line = Line { outside: outside.clone(), process: number };
    let store = Store::from_pool(world.database.slots[number].pool.clone());
    let provider = |name, events| Arc::new(SimProvider { line: line.clone(), name, events }) as _;
    Arc::new(Context {
        store: store.clone(),
        queue: Arc::new(SimQueue::new(line.clone())),
        lock: Arc::new(SimLock(line.clone())),
        objects: Arc::new(SimObjects(line.clone())),
        renderer: Arc::new(SimRenderer::new(line.clone())),
        providers: vec![provider("ses", world.plan.feedback.clone()), provider("sendgrid", Vec::new())],
        alerts: Alerter::new(store, vec![outside.alerts.clone()], Duration::from_secs(3_600)),
        clock: outside.clock.clone(),
        chance: Arc::new(SeededChance::new(world.seed.wrapping_mul(1_000).wrapping_add(world.started))),
        settings: settings(),
        documents_bell: tokio::sync::Notify::new(),
    })
}

/// Starts the roles of a process, inside of its runtime. Returns the way to the front, if it is that one.
pub(crate) fn start(world: &World<'_>, process: &Process, number: usize) -> Option<mpsc::UnboundedSender<Ask>> {
    let context = context(world, number);
    match number {
        FRONT => {
            process.spawn(router::run(context.clone(), Lifecycle::default()));
            let (sender, asked) = mpsc::unbounded_channel();
            let events: Arc<[Event]> = world.plan.events.clone().into();
            process.spawn(front(context, world.tenant, events, world.answers.clone(), asked));
            Some(sender)
        }
        SWEEPER => {
            process.spawn(scheduler::run(context, Lifecycle::default()));
            None
        }
        _ => {
            process.spawn(deliver::worker::run(context.clone(), Lifecycle::default()));
            if world.plan.route.document.is_some() {
                process.spawn(documents::run(context, Lifecycle::default()));
            }
            None
        }
    }
}

/// The API's side: each post and each provider's event is a request of its own.
async fn front(
    context: Arc<Context>,
    tenant: TenantId,
    events: Arc<[Event]>,
    answers: Arc<Mutex<Answers>>,
    mut asked: mpsc::UnboundedReceiver<Ask>,
) {
    let acceptor = Acceptor::start(context.clone());
    while let Some(ask) = asked.recv().await {
        let (context, acceptor, events, answers) = (context.clone(), acceptor.clone(), events.clone(), answers.clone());
        tokio::spawn(async move {
            match ask {
                Ask::Post(event) => match acceptor.accept(tenant, &events[event], None).await {
                    Ok(AcceptAnswer::New(job) | AcceptAnswer::Replay(job)) => {
                        answers.lock().unwrap().accepted.insert(event, job);
                    }
                    Ok(AcceptAnswer::KeyReused(_) | AcceptAnswer::Busy) | Err(_) => {}
                },
                Ask::Tell(event) => {
                    if feedback::record(&context, std::slice::from_ref(&event)).await.is_ok() {
                        answers.lock().unwrap().told.push(event.event_id);
                    }
                }
            }
        });
    }
}
