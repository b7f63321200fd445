//! One trace context, from the event's message to its mails.

use crate::world::{World, event};
use serde_json::json;
use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
    time::Duration,
};
use waybill_core::{
    event::Event,
    ports::{OutgoingMessage, Queue, QueueName},
    trace::Traceparent,
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn order(id: &str) -> serde_json::Value {
    json!({"id": id, "source": "/orders", "type": "order.created", "data": {"number": id},
           "recipients": ["ana@example.test", "bob@example.test"]})
}

async fn send_in(w: &World, id: &str, traceparent: &str) {
    let body = json!({"source": "shop", "detail-type": "x", "detail": order(id)}).to_string();
    let attributes = vec![("traceparent".to_owned(), traceparent.to_owned())];
    let message = OutgoingMessage { body, attributes, ..OutgoingMessage::default() };
    assert_eq!(w.queue.send_batch(QueueName::Intake, &[message]).await.unwrap(), [Ok(())]);
}

async fn traceparents(w: &World, queue: QueueName) -> Vec<Option<String>> {
    let got = w.queue.receive(queue, 10, Duration::ZERO, Duration::ZERO).await.unwrap();
    got.iter().map(|m| Traceparent::of(m).map(|t| t.as_str().to_owned())).collect()
}

#[tokio::test]
async fn one_grep_finds_the_whole_way_of_a_mail() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let w = World::new().await;
    assert!(w.store.allow_intake_source(w.tenant, "shop").await.unwrap());
    send_in(&w, "1", TRACEPARENT).await;
    let intake = w.intake();
    w.until_empty(QueueName::Intake).await;
    intake.stop().await;
    w.published().await;
    assert_eq!(traceparents(&w, QueueName::Main).await, [Some(TRACEPARENT.into())]);
    let router = w.router();
    w.until_empty(QueueName::Main).await;
    router.stop().await;
    assert_eq!(traceparents(&w, QueueName::Delivery).await, [Some(TRACEPARENT.into()), Some(TRACEPARENT.into())]);
    w.work().await;
    assert_eq!(w.accepted().len(), 2);
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let found: Vec<&str> = text.lines().filter(|line| line.contains(TRACE)).collect();
    for (name, lines) in [("accept.accepted", 1), ("router.routed", 1), ("deliver.recorded", 2)] {
        assert_eq!(found.iter().filter(|line| line.contains(name)).count(), lines, "{name}: {found:?}");
    }
    assert!(!text.contains("@example.test"), "no address in the log");
}

#[tokio::test]
async fn a_trace_context_that_is_wrong_is_dropped_and_the_event_is_accepted() {
    let w = World::new().await;
    assert!(w.store.allow_intake_source(w.tenant, "shop").await.unwrap());
    send_in(&w, "1", "00-4bf92f3577b34da6a3ce929d0e0e4736-01").await;
    let intake = w.intake();
    w.until_empty(QueueName::Intake).await;
    intake.stop().await;
    assert_eq!(w.number("SELECT count(*) FROM jobs WHERE traceparent IS NULL").await, 1);
    w.published().await;
    assert_eq!(traceparents(&w, QueueName::Main).await, [None]);
}

#[tokio::test]
async fn a_posted_event_keeps_its_trace_context_in_its_job_and_a_repeat_does_not_change_it() {
    let w = World::new().await;
    let trace = |text: &str| Traceparent::parse(text);
    let first = Event { trace: trace(TRACEPARENT), ..event(&order("1")) };
    let job = w.accept(&first).await;
    let again = Event { trace: trace(&TRACEPARENT.replace("4bf", "5bf")), ..first };
    let answer = w.acceptor.accept(w.tenant, &again, None).await;
    assert_eq!(answer, Ok(waybill_pipeline::accept::AcceptAnswer::Replay(job)), "it is no part of the event");
    assert_eq!(w.sql("UPDATE jobs SET due_at = due_at WHERE traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' AND id = $1", &[job.0]).await, 1);
}
