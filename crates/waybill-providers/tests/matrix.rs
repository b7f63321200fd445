//! Every provider against every fault, over its real wire, and what becomes of the delivery: the pass is the product's own, the other side
//! is the sink, and the sink's counts say how often the recipient has the mail.

#![expect(clippy::unwrap_used, reason = "helpers of a test fail like the test itself")]

use std::{sync::Arc, time::Duration};
use waybill_core::{
    mail::OutgoingMail,
    outcome::{OnUnknown, Outcome},
    policy::RetryPolicy,
    ports::Provider,
    walk::{Next, Pass, Steps, Verdict},
};
use waybill_providers::{Settings, registry};
use waybill_sink::{Fault, FaultKind, Provider as Played};
use waybill_testkit::contract::provider::{FarSide, mail};

const TIMEOUT_MS: &str = "1000";
/// Providers in the order of the table's columns.
const COLUMNS: [(&str, Played); 5] = [
    ("ses", Played::Ses),
    ("sendgrid", Played::SendGrid),
    ("resend", Played::Resend),
    ("postmark", Played::Postmark),
    ("smtp", Played::Smtp),
];

/// A fault, what the call comes to at each provider, and how often it was taken all the same. `-`: it can't happen there.
type Row = (FaultKind, [&'static str; 5], u64);

#[rustfmt::skip]
const TABLE: &[Row] = {
    const U: &str = "unknown";
    const T: &str = "throttled";
    const R: &str = "rejected_message";
    &[
        //                                ses         sendgrid    resend      postmark    smtp
        (FaultKind::NoMessageId,         [U,          U,          U,          U,          U], 0),
        (FaultKind::TimeoutBeforeAccept, [U,          U,          U,          U,          U], 0),
        (FaultKind::TimeoutAfterAccept,  [U,          U,          U,          U,          U], 1),
        (FaultKind::Reset,               [U,          U,          U,          U,          U], 0),
        (FaultKind::ResetAfterAccept,    [U,          U,          U,          U,          U], 1),
        (FaultKind::Throttle,            [T,          T,          T,          T,          T], 0),
        (FaultKind::ThrottleBare,        [T,          T,          T,          T,          T], 0),
        (FaultKind::ThrottleRetryAfter,  [T,          T,          T,          T,          T], 0),
        (FaultKind::Unauthorized,        ["unusable", "unusable", "unusable", "unusable", "unusable"], 0),
        (FaultKind::TooLarge,            [R,          R,          R,          R,          R], 0),
        (FaultKind::Http500,             [U,          U,          U,          U,          "unavailable"], 0),
        (FaultKind::Http500AfterAccept,  [U,          U,          U,          U,          "-"], 1),
        (FaultKind::HtmlBody,            [U,          U,          U,          U,          U], 0),
        (FaultKind::NulBody,             [R,          R,          R,          R,          R], 0),
        // SES decides by its error code, and a body that is no JSON has none: refused, for whatever reason.
        (FaultKind::RawNulBody,          ["unavailable", R,       R,          R,          U], 0),
        (FaultKind::Drip,                [U,          U,          U,          U,          U], 1),
        (FaultKind::HugeBody,            [U,          U,          U,          U,          U], 1),
    ]
};

async fn provider(name: &str, url: &str) -> Arc<dyn Provider> {
    let find = |setting: &str| match setting {
        "AWS_ENDPOINT_URL_SESV2"
        | "WAYBILL_SENDGRID_BASE_URL"
        | "WAYBILL_RESEND_BASE_URL"
        | "WAYBILL_POSTMARK_BASE_URL"
        | "WAYBILL_SMTP_URL" => Some(url.to_owned()),
        "WAYBILL_SES_REGION" => Some("eu-central-1".to_owned()),
        "WAYBILL_SMTP_STARTTLS" => Some("false".to_owned()),
        "WAYBILL_RESEND_API_KEY" => Some("re_test".to_owned()),
        "AWS_ACCESS_KEY_ID"
        | "AWS_SECRET_ACCESS_KEY"
        | "WAYBILL_SENDGRID_API_KEY"
        | "WAYBILL_POSTMARK_SERVER_TOKEN" => Some("test".to_owned()),
        _ => setting.ends_with("_TIMEOUT_MS").then(|| TIMEOUT_MS.to_owned()),
    };
    (registry::find(name).unwrap().build)(&Settings::new(&find)).unwrap_or_else(|e| panic!("{e:?}")).await.unwrap()
}

/// A provider under test, and one behind it that is well.
struct Pair {
    providers: [Arc<dyn Provider>; 2],
    sides: [FarSide; 2],
}

impl Pair {
    async fn new(name: &str, played: Played) -> Self {
        let (second, other) = if name == "sendgrid" { ("ses", Played::Ses) } else { ("sendgrid", Played::SendGrid) };
        let sides = [FarSide::start(played).await, FarSide::start(other).await];
        let providers = [provider(name, &sides[0].url).await, provider(second, &sides[1].url).await];
        Self { providers, sides }
    }

    /// Acceptances of a mail at the first provider, and at both.
    fn acceptances(&self, mail: &OutgoingMail) -> (u64, u64) {
        let key = mail.delivery.to_string();
        let [first, second] = self
            .sides
            .each_ref()
            .map(|side| side.sink.acceptances_by_delivery().get(&key).copied().unwrap_or_default());
        (first, first + second)
    }

    /// One pass as a worker makes it, the time of the reconcile window left out. `told`: when the provider has the mail, its event comes.
    async fn walk(&self, mail: &OutgoingMail, policy: OnUnknown, told: bool) -> (Outcome, &'static str) {
        let retry = RetryPolicy::default();
        let steps = Steps::of(self.providers.iter().map(|p| p.idempotent()), Duration::from_secs(15));
        let mut pass = Pass::resume(0, steps.clone());
        let mut next = pass.start(&retry, 0, 0.0);
        let mut first = None;
        loop {
            match next {
                Next::Call(provider) => {
                    let outcome = self.providers[provider].send(mail).await;
                    next = pass.after(&outcome, policy, &retry, 0, 0.0);
                    first.get_or_insert(outcome);
                }
                Next::End(Verdict::Unknown { hold: false, position, .. }) => {
                    if told && self.acceptances(mail).1 > 0 {
                        return (first.unwrap(), "settled");
                    }
                    pass = Pass::resume(position, steps.clone());
                    next = pass.start(&retry, 0, 0.0);
                }
                Next::End(Verdict::Unknown { hold: true, .. }) => return (first.unwrap(), "held"),
                Next::End(Verdict::Sent { .. }) => return (first.unwrap(), "sent"),
                Next::End(Verdict::Failed { .. } | Verdict::Retry { .. } | Verdict::Hold { .. }) => {
                    return (first.unwrap(), "not sent");
                }
            }
        }
    }
}

/// Nothing is lost under any fault, and nothing is sent twice but under `failover` after an unknown outcome, and there not where a key can
/// tell.
async fn check(column: usize) {
    let (name, played) = COLUMNS[column];
    let pair = Pair::new(name, played).await;
    let key = registry::find(name).unwrap().idempotent.is_some();
    for (fault, outcomes, taken) in TABLE.iter().filter(|row| row.1[column] != "-") {
        let unknown = outcomes[column] == "unknown";
        let mut policies = vec![(OnUnknown::Reconcile, true), (OnUnknown::Failover, false), (OnUnknown::Hold, false)];
        // With a key not even a missing event doubles a mail.
        policies.extend(key.then_some((OnUnknown::Reconcile, false)));
        for (policy, told) in policies {
            let at = format!("{name}, {}, {}", fault.as_str(), policy.as_str());
            let mail = mail();
            pair.sides[0].sink.set_faults(vec![Fault::new(played, *fault).times(1)]);
            let (outcome, end) = pair.walk(&mail, policy, told).await;
            assert_eq!(outcome.as_str(), outcomes[column], "{at}: {outcome:?}");
            let (first, total) = pair.acceptances(&mail);
            let duplicates = total.saturating_sub(1);
            let expected = match policy {
                OnUnknown::Reconcile if unknown && *taken == 1 && told => ("settled", 1),
                OnUnknown::Hold if unknown => ("held", *taken),
                OnUnknown::Failover if unknown && *taken == 1 && !key => ("sent", 2),
                OnUnknown::Reconcile | OnUnknown::Failover | OnUnknown::Hold => ("sent", 1),
            };
            assert_eq!((end, total), expected, "{at}");
            assert!(first >= *taken, "{at}: what was taken is counted");
            assert!(duplicates == 0 || (policy == OnUnknown::Failover && unknown && !key), "{at}");
        }
    }
    for kind in FaultKind::ALL {
        let elsewhere = [
            FaultKind::Slow,
            FaultKind::Reject,
            FaultKind::DailyQuota,
            FaultKind::SendingPaused,
            FaultKind::AccountSuspended,
            FaultKind::UnverifiedIdentity,
        ];
        let known = elsewhere.contains(kind) || TABLE.iter().any(|row| row.0 == *kind);
        assert!(known, "{} is neither here nor in the contract alone", kind.as_str());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_provider_does_nothing_is_lost_and_only_failover_after_an_unknown_outcome_doubles() {
    tokio::join!(check(0), check(1), check(2), check(3), check(4));
}

/// How long to wait is said by a header where there is one.
#[tokio::test]
async fn a_retry_after_is_obeyed_and_none_is_made_up() {
    for (name, played) in COLUMNS {
        let pair = Pair::new(name, played).await;
        for (fault, seconds) in [(FaultKind::ThrottleRetryAfter, Some(7)), (FaultKind::ThrottleBare, None)] {
            pair.sides[0].sink.set_faults(vec![Fault::new(played, fault).times(1)]);
            let outcome = pair.providers[0].send(&mail()).await;
            let Outcome::Throttled { retry_after, .. } = outcome else { panic!("{name}: {outcome:?}") };
            // SMTP has no place for it.
            let expected = seconds.filter(|_| played != Played::Smtp).map(Duration::from_secs);
            assert_eq!(retry_after, expected, "{name} {}", fault.as_str());
        }
    }
}
