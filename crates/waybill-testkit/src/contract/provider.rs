//! The contract of [`waybill_core::ports::Provider`], held over HTTP against the sink, which plays the other side.
//!
//! The rule behind all of them: an adapter may be wrong about *why*, never about *whether the mail may have been taken*. So each fault
//! names the outcomes that are honest for it, and the sink's own count says what really happened.

use bytes::Bytes;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;
use waybill_core::{
    ids::{AttemptId, DeliveryId, JobId, TenantId},
    mail::{Attachment, OutgoingMail},
    outcome::Outcome,
    ports::Provider,
};
use waybill_sink::{Fault, FaultKind, Sink, SinkConfig};

/// Deadline of one call in this suite: long enough for two busy cores, short enough to be waited for.
pub const TIMEOUT: Duration = Duration::from_millis(1500);
/// How much later than its deadline a call may end.
const GRACE: Duration = Duration::from_millis(1000);

/// A sink of one's own and the provider that it plays. Stops when dropped.
pub struct FarSide {
    pub sink: Sink,
    pub url: String,
    kind: waybill_sink::Provider,
    _stop: DropGuard,
}

impl FarSide {
    /// # Panics
    /// When no loopback port can be had.
    pub async fn start(kind: waybill_sink::Provider) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        let url = format!("{}://{}", plain(kind), listener.local_addr().expect("a bound address"));
        let sink = Sink::new(SinkConfig::default());
        let stop = CancellationToken::new();
        match kind {
            waybill_sink::Provider::Smtp => drop(tokio::spawn(sink.clone().serve_smtp(listener, stop.clone()))),
            waybill_sink::Provider::Ses
            | waybill_sink::Provider::SendGrid
            | waybill_sink::Provider::Resend
            | waybill_sink::Provider::Postmark => drop(tokio::spawn(sink.clone().serve(listener, stop.clone()))),
        }
        Self { sink, url, kind, _stop: stop.drop_guard() }
    }

    fn arrange(&self, fault: FaultKind, delay: Option<Duration>) {
        let fault = Fault::new(self.kind, fault).times(1);
        self.sink.set_faults(vec![delay.into_iter().fold(fault, Fault::delay)]);
    }

    fn requests(&self) -> u64 {
        self.sink.requests(self.kind.as_str())
    }

    fn acceptances(&self, mail: &OutgoingMail) -> u64 {
        self.sink.acceptances_by_delivery().get(&mail.delivery.to_string()).copied().unwrap_or_default()
    }
}

/// The scheme of its addresses, without TLS; an `s` behind it is with TLS from the first byte.
fn plain(kind: waybill_sink::Provider) -> &'static str {
    if kind == waybill_sink::Provider::Smtp { "smtp" } else { "http" }
}

/// A mail with new ids.
pub fn mail() -> OutgoingMail {
    OutgoingMail {
        tenant: TenantId(Uuid::now_v7()),
        job: JobId(Uuid::now_v7()),
        delivery: DeliveryId(Uuid::now_v7()),
        attempt: AttemptId(Uuid::now_v7()),
        from: "no-reply@acme.example".into(),
        from_name: "Silva, Ana \"Nina\" (Vendas)".into(),
        to: "ada@example.com".into(),
        to_name: "漢字 Lovelace".into(),
        subject: "Invoice 17 – März".into(),
        text: "See the attachment.\n".into(),
        html: "<p>See the attachment.</p>".into(),
        attachments: vec![Attachment {
            filename: "invoice-17.pdf".into(),
            content_type: "application/pdf",
            bytes: Bytes::from_static(b"%PDF-1.7 not really"),
        }],
    }
}

/// Runs every rule. `make` builds the adapter for a base URL, with [`TIMEOUT`] as its deadline.
///
/// # Panics
/// At the first rule that does not hold.
pub async fn run<M, F>(make: M, far: &FarSide)
where
    M: Fn(String) -> F,
    F: Future<Output = Arc<dyn Provider>>,
{
    let provider = make(far.url.clone()).await;
    assert_eq!(provider.timeout(), TIMEOUT, "the deadline is the one that was asked for");
    an_accepted_mail_has_an_id(&*provider, far).await;
    a_key_makes_of_two_calls_one_mail(&*provider, far).await;
    every_fault_has_an_honest_outcome(&*provider, far).await;
    a_slow_answer_is_waited_for_and_a_late_one_is_unknown(&*provider, far).await;
    parallel_calls_do_not_mix(&provider, far).await;
    what_can_t_be_carried_is_refused_without_a_call(&*provider, far).await;
    nobody_listening_is_certainly_not_accepted(make, far.kind).await;
}

async fn an_accepted_mail_has_an_id(provider: &dyn Provider, far: &FarSide) {
    let mail = mail();
    let outcome = timed(provider, &mail).await;
    let Outcome::Accepted { provider_message_id } = outcome else { panic!("not accepted: {outcome:?}") };
    let kept = far.sink.mails().remove(0);
    assert_eq!(kept.message_id, provider_message_id, "the id is the one that the provider's events will carry");
    assert_eq!((kept.recipients.as_slice(), kept.subject.as_str()), (&[mail.to.clone()][..], mail.subject.as_str()));
    assert_eq!(kept.text.as_deref().map(str::trim_end), Some(mail.text.trim_end()));
    assert_eq!(kept.html.as_deref().map(str::trim_end), Some(mail.html.trim_end()));
    assert_eq!(kept.attachments[0].content, mail.attachments[0].bytes);
    assert_eq!(kept.attachments[0].filename, mail.attachments[0].filename);
    let mut ids = BTreeMap::from([
        ("tenant_id".to_owned(), mail.tenant.to_string()),
        ("job_id".to_owned(), mail.job.to_string()),
        ("delivery_id".to_owned(), mail.delivery.to_string()),
    ]);
    // Where a repeated call has to be the same bytes, nothing may differ between two attempts.
    if provider.idempotent().is_none() {
        ids.insert("attempt_id".to_owned(), mail.attempt.to_string());
    }
    assert_eq!(kept.tags, ids, "our ids and nothing else");
    let automatic = kept.headers.iter().any(|h| h.name == "Auto-Submitted" && h.value == "auto-generated");
    assert!(automatic, "RFC 3834: {:?}", kept.headers);
}

async fn a_key_makes_of_two_calls_one_mail(provider: &dyn Provider, far: &FarSide) {
    let Some(life) = provider.idempotent() else { return };
    assert!(life > Duration::ZERO);
    for fault in [FaultKind::TimeoutAfterAccept, FaultKind::ResetAfterAccept, FaultKind::Http500AfterAccept] {
        let first = mail();
        far.arrange(fault, None);
        assert_eq!(timed(provider, &first).await.as_str(), "unknown", "{}", fault.as_str());
        // Another attempt at the same delivery.
        let again = OutgoingMail { attempt: AttemptId(Uuid::now_v7()), ..first.clone() };
        let outcome = timed(provider, &again).await;
        let Outcome::Accepted { provider_message_id } = outcome else { panic!("not settled: {outcome:?}") };
        assert_eq!(far.acceptances(&first), 1, "{}: one mail", fault.as_str());
        assert_eq!(far.sink.mails()[0].message_id, provider_message_id, "the id of the first");
    }
    // The first call is still being worked on: nobody knows.
    let slow = mail();
    far.arrange(FaultKind::Slow, Some(TIMEOUT / 2));
    let (first, second) = tokio::join!(timed(provider, &slow), async {
        tokio::time::sleep(TIMEOUT / 8).await;
        timed(provider, &slow).await
    });
    assert_eq!((first.as_str(), second.as_str()), ("accepted", "unknown"), "{second:?}");
    // The same key with another body: an earlier call may have been accepted, and this one was.
    let other = OutgoingMail { subject: "Another".into(), ..slow.clone() };
    assert_eq!(timed(provider, &other).await.as_str(), "unknown");
    assert_eq!(far.acceptances(&slow), 1);
}

/// Fault, the outcomes that are honest for it, and how often the mail was really taken.
const FAULTS: &[(FaultKind, &[&str], u64)] = &[
    (FaultKind::NoMessageId, &["unknown"], 0),
    (FaultKind::TimeoutBeforeAccept, &["unknown"], 0),
    (FaultKind::TimeoutAfterAccept, &["unknown"], 1),
    (FaultKind::Reset, &["unknown"], 0),
    (FaultKind::ResetAfterAccept, &["unknown"], 1),
    (FaultKind::Http500, &["unknown"], 0),
    (FaultKind::Http500AfterAccept, &["unknown"], 1),
    (FaultKind::HtmlBody, &["unknown"], 0),
    (FaultKind::Throttle, &["throttled"], 0),
    (FaultKind::ThrottleBare, &["throttled"], 0),
    (FaultKind::ThrottleRetryAfter, &["throttled"], 0),
    (FaultKind::TooLarge, &["rejected_message"], 0),
    (FaultKind::Drip, &["unknown"], 1),
    (FaultKind::HugeBody, &["unknown"], 1),
    (FaultKind::Unauthorized, &["unusable"], 0),
    (FaultKind::DailyQuota, &["unusable"], 0),
    (FaultKind::SendingPaused, &["unusable"], 0),
    (FaultKind::AccountSuspended, &["unusable"], 0),
    (FaultKind::UnverifiedIdentity, &["unusable"], 0),
    (FaultKind::Reject, &["rejected_message"], 0),
    (FaultKind::NulBody, &["rejected_message", "unavailable"], 0),
    (FaultKind::RawNulBody, &["rejected_message", "unavailable"], 0),
];

/// The rows that are others in SMTP: a negative reply after the message is certain (RFC 5321 section 4.2.5), and one that can't be read is
/// none. A server that refuses what it has accepted breaks that protocol, so nothing honest can be said of it.
const SMTP_FAULTS: &[(FaultKind, &[&str], u64)] = &[
    (FaultKind::Http500, &["unavailable"], 0),
    (FaultKind::NulBody, &["rejected_message"], 0),
    (FaultKind::RawNulBody, &["unknown"], 0),
];

fn faults(kind: waybill_sink::Provider) -> impl Iterator<Item = (FaultKind, &'static [&'static str], u64)> {
    let smtp = kind == waybill_sink::Provider::Smtp;
    FAULTS.iter().copied().filter(move |row| !smtp || row.0 != FaultKind::Http500AfterAccept).map(move |row| {
        let other = SMTP_FAULTS.iter().find(|other| smtp && other.0 == row.0);
        other.copied().unwrap_or(row)
    })
}

async fn every_fault_has_an_honest_outcome(provider: &dyn Provider, far: &FarSide) {
    for (fault, honest, taken) in faults(far.kind) {
        let name = fault.as_str();
        let mail = mail();
        let before = far.requests();
        far.arrange(fault, None);
        let outcome = timed(provider, &mail).await;
        assert!(honest.contains(&outcome.as_str()), "{name}: {outcome:?}");
        assert_eq!(far.requests() - before, 1, "{name}: one call is one request, whatever happens to it");
        assert_eq!(far.acceptances(&mail), taken, "{name}");
        let detail = outcome.detail();
        assert!(!detail.is_empty() && !detail.contains(['\0', '@']), "{name}: not storable: {detail:?}");
        let next = self::mail();
        let outcome = timed(provider, &next).await;
        assert_eq!(outcome.as_str(), "accepted", "the call after {name}: {outcome:?}");
    }
    for kind in FaultKind::ALL {
        let covered = *kind == FaultKind::Slow || FAULTS.iter().any(|(fault, ..)| fault == kind);
        assert!(covered, "{} is in no row of this suite", kind.as_str());
    }
}

async fn a_slow_answer_is_waited_for_and_a_late_one_is_unknown(provider: &dyn Provider, far: &FarSide) {
    let (slow, late) = (mail(), mail());
    far.arrange(FaultKind::Slow, Some(TIMEOUT / 3));
    assert_eq!(timed(provider, &slow).await.as_str(), "accepted");

    far.arrange(FaultKind::Slow, Some(TIMEOUT + Duration::from_millis(300)));
    assert_eq!(timed(provider, &late).await.as_str(), "unknown");
    // And it was taken after all: the reason why a time-out is never "not accepted".
    let deadline = Instant::now() + Duration::from_secs(10);
    while far.acceptances(&late) == 0 {
        assert!(Instant::now() < deadline, "the sink never took the late mail");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn parallel_calls_do_not_mix(provider: &Arc<dyn Provider>, far: &FarSide) {
    const CALLS: usize = 20;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..CALLS {
        let provider = Arc::clone(provider);
        calls.spawn(async move {
            let mail = mail();
            (provider.send(&mail).await, mail.delivery.to_string())
        });
    }
    for (outcome, delivery) in calls.join_all().await {
        let Outcome::Accepted { provider_message_id } = outcome else { panic!("not accepted: {outcome:?}") };
        let mails = far.sink.mails();
        let mine: Vec<_> = mails.iter().filter(|m| m.delivery_id() == Some(&delivery)).collect();
        assert_eq!(mine.len(), 1);
        assert_eq!(mine[0].message_id, provider_message_id, "each call has its own mail's id");
    }
}

async fn what_can_t_be_carried_is_refused_without_a_call(provider: &dyn Provider, far: &FarSide) {
    let before = far.requests();
    let too_large = Attachment {
        filename: "large.pdf".into(),
        content_type: "application/pdf",
        bytes: Bytes::from(vec![0; provider.max_encoded_bytes() / 4 * 3]),
    };
    for (mail, expected) in [
        (OutgoingMail { attachments: vec![too_large], ..mail() }, "rejected_message"),
        (OutgoingMail { to: "søren@example.test".into(), ..mail() }, "rejected_recipient"),
        (OutgoingMail { to: "a@example.test\r\nBcc: b@example.test".into(), ..mail() }, "rejected_recipient"),
        (OutgoingMail { from: "nobody".into(), ..mail() }, "rejected_message"),
    ] {
        let outcome = timed(provider, &mail).await;
        assert_eq!(outcome.as_str(), expected, "{outcome:?}");
        assert!(!outcome.detail().contains('@') || outcome.detail().contains("`@`"), "{outcome:?}");
    }
    assert_eq!(far.requests(), before, "nothing was sent");
}

async fn nobody_listening_is_certainly_not_accepted<M, F>(make: M, kind: waybill_sink::Provider)
where
    M: Fn(String) -> F,
    F: Future<Output = Arc<dyn Provider>>,
{
    let port_of_nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
        listener.local_addr().expect("a bound address").port()
    };
    let provider = make(format!("{}://127.0.0.1:{port_of_nobody}", plain(kind))).await;
    let outcome = timed(&*provider, &mail()).await;
    assert_eq!(outcome.as_str(), "unavailable", "refused: {outcome:?}");

    // Accepts connections and says nothing: with TLS, the handshake is before the first byte of the request.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
    let address = silent.local_addr().expect("a bound address");
    let provider = make(format!("{}s://{address}", plain(kind))).await;
    let outcome = timed(&*provider, &mail()).await;
    assert_eq!(outcome.as_str(), "unavailable", "no TLS handshake: {outcome:?}");

    // Without TLS the same silence follows the request of HTTP; in SMTP the server speaks first.
    let provider = make(format!("{}://{address}", plain(kind))).await;
    let outcome = timed(&*provider, &mail()).await;
    let honest = if kind == waybill_sink::Provider::Smtp { "unavailable" } else { "unknown" };
    assert_eq!(outcome.as_str(), honest, "silence: {outcome:?}");
}

async fn timed(provider: &dyn Provider, mail: &OutgoingMail) -> Outcome {
    tokio::time::timeout(provider.timeout() + GRACE, provider.send(mail)).await.expect("the adapter keeps its deadline")
}
