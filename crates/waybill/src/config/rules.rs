//! Rules between sections: what is right alone and wrong together.

use super::{Config, ObjectsChoice, QueueChoice, Reader, RendererChoice};
use std::time::Duration;

/// Longest long poll (SQS quota), and the shortest that is one: SQS counts in seconds, and zero would ask without a pause.
const SQS_WAIT: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(20);
/// What the answer of a long poll may take on top of its wait, with the request that puts messages back.
const POLL_SLACK: Duration = Duration::from_secs(1);

pub(super) fn check(config: &Config, r: &mut Reader) {
    for error in config.settings.timings.check().err().unwrap_or_default() {
        r.problem("timings", error.to_string());
    }
    stopping(config, r);
    let lookup = |name: &str| (config.providers.environment)(name);
    for kind in &config.providers.order {
        for error in (kind.build)(&waybill_providers::Settings::new(&lookup)).err().unwrap_or_default() {
            r.problem(error.name, error.problem.to_owned());
        }
    }
    for kind in waybill_providers::registry::PROVIDERS {
        if let Err(error) = (kind.signature)(&waybill_providers::Settings::new(&lookup)) {
            r.problem(error.name, error.problem.to_owned());
        }
    }
    adapters(config, r);
}

/// What the stop waits for has to fit into it: the last long poll, which is never dropped (what it brings is put back unread), and beside
/// it the call that each delivery in flight is in; no delivery begins a second one then.
fn stopping(config: &Config, r: &mut Reader) {
    let (settings, stop) = (&config.settings, config.api.stop_timeout);
    let poll = settings.queue_wait + POLL_SLACK;
    if poll >= stop {
        r.problem(
            "WAYBILL_QUEUE_WAIT_MS",
            format!("the last long poll and a second must be below WAYBILL_STOP_TIMEOUT_MS: {poll:?} against {stop:?}"),
        );
    }
    let call = settings.timings.provider_timeouts.iter().max().copied().unwrap_or_default();
    let call = call + settings.timings.claim_margin;
    if call >= stop {
        r.problem(
            "WAYBILL_STOP_TIMEOUT_MS",
            format!(
                "the longest provider timeout and WAYBILL_CLAIM_MARGIN_MS must be below it: {call:?} against {stop:?}"
            ),
        );
    }
    if config.api.drain_delay >= stop {
        let drain = config.api.drain_delay;
        r.problem(
            "WAYBILL_API_DRAIN_DELAY_MS",
            format!("must be below WAYBILL_STOP_TIMEOUT_MS: {drain:?} against {stop:?}"),
        );
    }
}

fn adapters(config: &Config, r: &mut Reader) {
    let adapters = &config.adapters;
    if matches!(adapters.queue, QueueChoice::Sqs { .. }) && !SQS_WAIT.contains(&config.settings.queue_wait) {
        let wait = config.settings.queue_wait;
        r.problem("WAYBILL_QUEUE_WAIT_MS", format!("{wait:?}: SQS waits from 1000 to 20000 ms"));
    }
    if let RendererChoice::Lambda { timeout, .. } = &adapters.renderer {
        let render = config.settings.timings.document.render_timeout;
        if *timeout >= render {
            r.problem(
                "WAYBILL_RENDERER_TIMEOUT_MS",
                format!("must be below WAYBILL_DOCUMENT_RENDER_TIMEOUT_MS: {timeout:?} against {render:?}"),
            );
        }
        if matches!(adapters.objects, ObjectsChoice::Disk { .. }) {
            r.problem(
                "WAYBILL_RENDERER",
                "lambda writes documents to S3: set WAYBILL_OBJECTS=s3 and WAYBILL_BUCKET to the function's bucket"
                    .into(),
            );
        }
    }
}

pub(super) fn warnings(config: &Config) -> Vec<&'static str> {
    let mut out = Vec::new();
    if matches!(config.adapters.queue, QueueChoice::Sqs { .. }) {
        if config.redis_url.is_none() {
            out.push(
                "WAYBILL_QUEUE=sqs without REDIS_URL: several workers have no lock between them; the claim in PostgreSQL still lets only one of them send",
            );
        }
        if matches!(config.adapters.objects, ObjectsChoice::Disk { .. }) {
            out.push(
                "WAYBILL_QUEUE=sqs with WAYBILL_OBJECTS=disk: a worker on another machine does not see the documents that this one renders",
            );
        }
    }
    out
}
