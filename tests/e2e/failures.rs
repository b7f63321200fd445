//! Providers that fail loudly, silently and ambiguously; dead letters and redrive.

use crate::support::{World, books::states};
use std::time::Duration;
use waybill_core::{outcome::OnUnknown, ports::QueueName};
use waybill_sink::{Fault, FaultKind, Provider};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_without_a_message_id_is_no_success_the_mail_arrives_through_sendgrid() {
    let world = World::new().await;
    let _process = world.start("all").await;
    world.sink.set_faults(vec![Fault::new(Provider::Ses, FaultKind::NoMessageId)]);
    let job = world.accept(&world.order("e1")).await;
    let finished = world.finished(&job).await;
    assert_eq!(finished["status"], "COMPLETED", "{finished:#}");
    world.all_sent_once(&[job]).await;
    assert!(world.sink.mails().iter().all(|mail| mail.provider == Provider::SendGrid));
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_after_acceptance_is_settled_by_the_provider_s_event() {
    let world = World::new().await;
    let _process = world.start("all").await;
    world.sink.set_faults(vec![Fault::new(Provider::Ses, FaultKind::TimeoutAfterAccept).times(3)]);
    let job = world.accept(&world.note("e1", "s1", 3)).await;
    world.all_sent_once(std::slice::from_ref(&job)).await;
    assert!(world.sink.mails().iter().all(|mail| mail.provider == Provider::Ses), "nobody asked SendGrid");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_hold_an_unknown_outcome_is_never_sent_again_by_itself() {
    let world = World::new().await;
    world.on_unknown(OnUnknown::Hold).await;
    let _process = world.start("all").await;
    world.sink.set_faults(vec![Fault::new(Provider::Ses, FaultKind::NoMessageId)]);
    let job = world.accept(&world.note("e1", "s1", 1)).await;
    world.until("held", "SELECT count(*) FROM deliveries WHERE state = 'UNKNOWN' AND held", |n| n == 1).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(states(&world.job(&job).await), ["UNKNOWN"]);
    assert_eq!(world.sink.requests("sendgrid"), 0);
    // A person looked it up: the provider does not have it.
    let delivery = world.job(&job).await["deliveries"]["data"][0]["delivery_id"].as_str().expect("an id").to_owned();
    world.sink.set_faults(Vec::new());
    world.cli(&["settle", &delivery, "--resend"]);
    world.all_sent_once(std::slice::from_ref(&job)).await;
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_every_provider_fails_until_attempts_run_out_it_is_a_dead_letter_that_redrive_sends_once() {
    let world = World::new().await;
    let process = world.start("all").await;
    world.sink.set_faults(vec![
        Fault::new(Provider::Ses, FaultKind::Http500),
        Fault::new(Provider::SendGrid, FaultKind::Http500),
    ]);
    let job = world.accept(&world.note("e1", "s1", 2)).await;
    let finished = world.finished(&job).await;
    assert_eq!((finished["status"].as_str(), states(&finished)), (Some("FAILED"), vec!["FAILED"; 2]));
    let delivery = &finished["deliveries"]["data"][0];
    assert_eq!(
        (delivery["reason"].as_str(), delivery["dead_lettered"].as_bool()),
        (Some("providers_exhausted"), Some(true))
    );
    assert!(delivery["explanation"].as_str().is_some_and(|words| words.len() > 30), "{delivery:#}");
    world.queue.until("entries on the dead-letter queue", QueueName::DeliveryDead, 2).await;
    assert!(
        process.log().contains("ALERT") && process.log().contains("waybill dlq list"),
        "an alert line with the next command"
    );

    world.sink.set_faults(Vec::new());
    let dry = world.cli(&["redrive", "--dry-run", "--json"]);
    let dry: serde_json::Value = serde_json::from_str(dry.lines().last().unwrap()).unwrap();
    assert_eq!((dry["matched"].as_u64(), dry["queued"].as_u64()), (Some(2), Some(0)), "{dry}");
    assert_eq!(world.sink.accepted(), 0);
    world.cli(&["redrive", "--yes"]);
    world.all_sent_once(std::slice::from_ref(&job)).await;
    assert_eq!(world.finished(&job).await["status"], "COMPLETED");
    // A second redrive finds nothing to do, and nothing is left on the dead-letter queue.
    let again: serde_json::Value =
        serde_json::from_str(world.cli(&["redrive", "--yes", "--json"]).lines().last().unwrap()).unwrap();
    assert_eq!(again["matched"].as_u64(), Some(0));
    assert_eq!(world.queue.depth(QueueName::DeliveryDead).await, 0);
    assert_eq!(world.sink.accepted(), 2);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_can_t_be_rendered_fails_its_deliveries_with_the_field_s_name() {
    let world = World::new().await;
    let _process = world.start("all").await;
    let mut order = world.order("e1");
    order["data"] = serde_json::json!({"nothing": "useful"});
    let job = world.accept(&order).await;
    let finished = world.finished(&job).await;
    assert_eq!(states(&finished), ["FAILED"; 3]);
    let delivery = &finished["deliveries"]["data"][0];
    assert_eq!(delivery["reason"], "document_render_failed");
    assert_eq!(delivery["attempt_count"], 0, "waiting is not an attempt");
    assert_eq!(world.sink.accepted(), 0, "no mail without its document");
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pg_04_an_answer_full_of_nuls_spoils_nothing() {
    let world = World::new().await;
    let _process = world.start("all").await;
    world.sink.set_faults(vec![Fault::new(Provider::Ses, FaultKind::NulBody)]);
    let job = world.accept(&world.note("e1", "s1", 3)).await;
    let books = world.all_sent_once(&[job]).await;
    assert_eq!(books.accepted, 3);
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_job_sends_nothing_more_and_a_retried_one_sends_what_was_dead() {
    let world = World::new().await;
    let _api = world.start("api").await;
    let job = world.accept(&world.note("e1", "s1", 2)).await;
    let cancel = world
        .http
        .post(format!("http://{}/jobs/{job}/cancel", world.api))
        .bearer_auth(&world.key)
        .send()
        .await
        .unwrap();
    assert_eq!(cancel.status().as_u16(), 200);
    let _router = world.start("router").await;
    let _worker = world.start("worker").await;
    let _scheduler = world.start("scheduler").await;
    assert_eq!(world.finished(&job).await["status"], "CANCELLED");

    world.sink.set_faults(vec![
        Fault::new(Provider::Ses, FaultKind::Http500),
        Fault::new(Provider::SendGrid, FaultKind::Http500),
    ]);
    let dead = world.accept(&world.note("e2", "s2", 2)).await;
    assert_eq!(world.finished(&dead).await["status"], "FAILED");
    world.sink.set_faults(Vec::new());
    let retry = world
        .http
        .post(format!("http://{}/jobs/{dead}/retry", world.api))
        .bearer_auth(&world.key)
        .send()
        .await
        .unwrap();
    assert!(retry.status().is_success());
    assert_eq!(world.finished(&dead).await["status"], "COMPLETED");
    assert_eq!(world.sink.accepted(), 2);
    world.close().await;
}

/// The first provider refuses everything; the second one delivers, and its events arrive.
async fn falls_back_to(second: Provider, name: &str) {
    let order = format!("ses,{name}");
    let world = World::with(&[("WAYBILL_PROVIDERS", &order), ("WAYBILL_RESEND_TIMEOUT_MS", "500")]).await;
    let _process = world.start("all").await;
    world.sink.set_faults(vec![Fault::new(Provider::Ses, FaultKind::Throttle)]);
    let job = world.accept(&world.order("e1")).await;
    world.all_sent_once(std::slice::from_ref(&job)).await;
    let mails = world.sink.mails();
    assert!(!mails.is_empty() && mails.iter().all(|mail| mail.provider == second), "{mails:?}");
    assert!(mails.iter().all(|mail| mail.attachments[0].content.starts_with(b"%PDF-")));
    // SMTP has no events.
    if second != Provider::Smtp {
        world.until("delivered", "SELECT count(*) FROM deliveries WHERE state <> 'DELIVERED'", |open| open == 0).await;
    }
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_that_ses_does_not_take_arrives_through_resend_and_its_signed_events_are_heard() {
    falls_back_to(Provider::Resend, "resend").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_that_ses_does_not_take_arrives_through_postmark_and_its_events_are_heard() {
    falls_back_to(Provider::Postmark, "postmark").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mail_that_ses_does_not_take_arrives_through_smtp() {
    falls_back_to(Provider::Smtp, "smtp").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pv_02_an_address_that_postmark_calls_inactive_is_not_tried_elsewhere() {
    let world = World::with(&[("WAYBILL_PROVIDERS", "postmark,sendgrid")]).await;
    let _process = world.start("all").await;
    let mut note = world.note("e1", "s1", 1);
    note["recipients"][0]["email"] = serde_json::json!("inactive@example.test");
    let job = world.accept(&note).await;
    let finished = world.finished(&job).await;
    let delivery = &finished["deliveries"]["data"][0];
    assert_eq!((delivery["state"].as_str(), delivery["reason"].as_str()), (Some("FAILED"), Some("recipient_rejected")));
    assert_eq!((world.sink.requests("postmark"), world.sink.requests("sendgrid"), world.sink.accepted()), (1, 0, 0));
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_resend_that_got_lost_is_settled_by_the_key_without_a_second_mail() {
    // With a window (its events are wired, and none comes) and without one.
    for wired in ["true", "false"] {
        let env = [
            ("WAYBILL_PROVIDERS", "resend,sendgrid"),
            ("WAYBILL_RESEND_TIMEOUT_MS", "500"),
            ("WAYBILL_RESEND_EVENTS_WIRED", wired),
        ];
        let world = World::with(&env).await;
        world.sink.set_events_target(None);
        let _process = world.start("all").await;
        world.sink.set_faults(vec![Fault::new(Provider::Resend, FaultKind::TimeoutAfterAccept).times(3)]);
        let job = world.accept(&world.order("e1")).await;
        world.all_sent_once(std::slice::from_ref(&job)).await;
        assert_eq!((world.sink.requests("resend"), world.sink.requests("sendgrid")), (6, 0), "wired: {wired}");
        let sent = world.job(&job).await;
        let ids: Vec<_> = world.sink.mails().into_iter().map(|mail| mail.message_id).collect();
        for delivery in sent["deliveries"]["data"].as_array().expect("deliveries") {
            let id = delivery["provider_message_id"].as_str().expect("an id").to_owned();
            assert!(ids.contains(&id), "the id of the one mail: {delivery:#}");
        }
        world.close().await;
    }
}
