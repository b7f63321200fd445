//! What a provider says afterwards, over the real wire: adapter -> sink -> events back -> parser of the registry.

#![expect(clippy::unwrap_used, reason = "helpers of a test fail like the test itself")]

use axum::{Router, body::Bytes, extract::State, http::HeaderMap, routing::post};
use std::{sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::mpsc};
use waybill_core::{
    mail::OutgoingMail,
    outcome::Outcome,
    ports::{FeedbackEvent, FeedbackKind, Provider},
};
use waybill_crypto::Secret;
use waybill_providers::{Settings, registry, verify_basic};
use waybill_sink::{EventsTarget, Provider as Played};
use waybill_testkit::contract::provider::{FarSide, mail};

const WEBHOOK_SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

type Posted = (HeaderMap, Bytes);

/// Takes every post and hands it on; gives its address with credentials, as an operator enters it at the provider.
async fn receiver() -> (String, mpsc::UnboundedReceiver<Posted>) {
    async fn take(State(to): State<mpsc::UnboundedSender<Posted>>, headers: HeaderMap, body: Bytes) {
        to.send((headers, body)).unwrap();
    }
    let (to, posts) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/", post(take)).with_state(to)).await });
    (format!("http://waybill:s3cret@{address}/"), posts)
}

async fn provider(name: &str, url: &str) -> Arc<dyn Provider> {
    let find = |setting: &str| match setting {
        "WAYBILL_SES_REGION" => Some("eu-central-1".to_owned()),
        "AWS_ENDPOINT_URL_SESV2"
        | "WAYBILL_SENDGRID_BASE_URL"
        | "WAYBILL_RESEND_BASE_URL"
        | "WAYBILL_POSTMARK_BASE_URL" => Some(url.to_owned()),
        "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("anything".to_owned()),
        "WAYBILL_SENDGRID_API_KEY" => Some("SG.test".to_owned()),
        "WAYBILL_RESEND_API_KEY" => Some("re_test".to_owned()),
        "WAYBILL_POSTMARK_SERVER_TOKEN" => Some("pm-test".to_owned()),
        _ => None,
    };
    let kind = registry::find(name).unwrap();
    (kind.build)(&Settings::new(&find)).unwrap_or_else(|e| panic!("{e:?}")).await.unwrap()
}

/// Sends one mail and returns its id and the events that come back for it, until `last` is among them.
async fn feedback(
    name: &str,
    played: Played,
    to: &str,
    last: FeedbackKind,
) -> (OutgoingMail, String, Vec<FeedbackEvent>) {
    let far = FarSide::start(played).await;
    let (url, mut posts) = receiver().await;
    let target = EventsTarget::new(None, None).unwrap().with(played, Some(&url)).unwrap();
    far.sink.set_events_target(Some(target.signed_for_resend(WEBHOOK_SECRET).unwrap()));
    let secret = |name: &str| (name == "WAYBILL_RESEND_WEBHOOK_SECRET").then(|| WEBHOOK_SECRET.to_owned());
    let signature = (registry::find(name).unwrap().signature)(&Settings::new(&secret)).unwrap();
    let mail = OutgoingMail { to: to.into(), ..mail() };
    let outcome = provider(name, &far.url).await.send(&mail).await;
    let Outcome::Accepted { provider_message_id } = outcome else { panic!("{outcome:?}") };

    let parse = registry::find(name).unwrap().parse_events.unwrap();
    let mut events: Vec<FeedbackEvent> = Vec::new();
    while !events.iter().any(|event| event.kind == last) {
        let wait = tokio::time::timeout(Duration::from_secs(10), posts.recv()).await;
        let (headers, body) = wait.expect("an event in time").expect("the receiver lives");
        let authorization = headers.get("authorization").and_then(|value| value.to_str().ok());
        assert!(verify_basic(authorization, &Secret::from("waybill:s3cret")));
        assert!(!verify_basic(authorization, &Secret::from("waybill:other")));
        if let Some(signature) = &signature {
            let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
            let at: i64 = header("svix-timestamp").unwrap().parse().unwrap();
            assert_eq!(signature.verify(&header, &body, at), Ok(()));
            assert!(signature.verify(&header, &body[1..], at).is_err());
        }
        events.extend(parse(&body).unwrap());
    }
    (mail, provider_message_id, events)
}

async fn check(name: &'static str, played: Played) {
    for (to, expected) in [
        ("ada@example.com", &[FeedbackKind::Accepted, FeedbackKind::Delivered][..]),
        ("bounce@simulator.example", &[FeedbackKind::Accepted, FeedbackKind::Bounced]),
        ("complaint@simulator.example", &[FeedbackKind::Accepted, FeedbackKind::Delivered, FeedbackKind::Complained]),
    ] {
        let last = *expected.last().unwrap();
        let (mail, id, events) = feedback(name, played, to, last).await;
        let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
        // Postmark has no event for having taken a mail.
        let tells = |kind: &&FeedbackKind| played != Played::Postmark || **kind != FeedbackKind::Accepted;
        assert_eq!(kinds, expected.iter().filter(tells).copied().collect::<Vec<_>>(), "{name} {to}");
        for event in &events {
            assert_eq!(event.provider, name);
            // A provider with an idempotency key gets nothing that differs between two attempts.
            let attempt = Some(mail.attempt).filter(|_| registry::find(name).unwrap().idempotent.is_none());
            assert_eq!((event.delivery, event.attempt), (Some(mail.delivery), attempt), "{event:?}");
            assert_eq!(event.provider_message_id.as_deref(), Some(id.as_str()), "the id of the acceptance");
            assert!(event.at.is_some() && !event.detail.contains('@'), "{event:?}");
        }
        let mut ids: Vec<_> = events.iter().map(|event| &event.event_id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), events.len(), "every event has an id of its own");
    }
}

#[rustfmt::skip]
mod feedback_events {
    use super::*;
    #[tokio::test] async fn ses_08_events_settle_their_delivery() { check("ses", Played::Ses).await }
    #[tokio::test] async fn sg_02_events_settle_their_delivery() { check("sendgrid", Played::SendGrid).await }
    #[tokio::test] async fn pv_01_events_settle_their_delivery_and_are_signed() { check("resend", Played::Resend).await }
    #[tokio::test] async fn pv_02_events_settle_their_delivery() { check("postmark", Played::Postmark).await }
}
