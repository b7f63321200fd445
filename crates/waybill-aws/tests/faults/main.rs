//! The adapters against an endpoint that fails in every documented way, and in some that are not.

#![allow(clippy::disallowed_methods, reason = "tests run on the real clock")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../fake_aws/mod.rs"]
mod fake_aws;

mod connecting;
mod events;
mod receiving;
mod sending;

use fake_aws::FakeAws;
use waybill_aws::{SqsConfig, SqsQueue};
use waybill_core::ports::{EntryError, OutgoingMessage};

async fn connected() -> (FakeAws, SqsQueue) {
    let fake = FakeAws::start().await;
    let queue = SqsQueue::connect(&fake.config().await, SqsConfig::new("waybill")).await.unwrap();
    (fake, queue)
}

fn message(body: impl Into<String>) -> OutgoingMessage {
    OutgoingMessage { body: body.into(), ..Default::default() }
}

fn messages(count: usize) -> Vec<OutgoingMessage> {
    (0..count).map(|n| message(format!("m{n}"))).collect()
}

/// Positions of temporary and of permanent failures.
fn failures(results: &[Result<(), EntryError>]) -> (Vec<usize>, Vec<usize>) {
    let of = |is: fn(&EntryError) -> bool| {
        let failed = results.iter().enumerate().filter(|(_, r)| r.as_ref().is_err_and(is));
        failed.map(|(index, _)| index).collect()
    };
    (of(|e| matches!(e, EntryError::Temporary(_))), of(|e| matches!(e, EntryError::Permanent(_))))
}
