//! Timings, attempts, limits and widths.

use super::{ProvidersConfig, Reader};
use std::time::Duration;
use waybill_core::{
    event::EventLimits,
    policy::{DocumentTimings, RetryPolicy, Timings},
};
use waybill_pipeline::context::Settings;

pub(super) fn read(r: &mut Reader, providers: &ProvidersConfig) -> Settings {
    let d = Settings::default();
    let ms = |duration: Duration| duration.as_millis() as u64;
    let t = d.timings;
    Settings {
        timings: Timings {
            provider_timeouts: providers.timeouts(),
            claim_margin: r.millis(
                "WAYBILL_CLAIM_MARGIN_MS",
                ms(t.claim_margin),
                "What must fit before a claim's end beside a call's deadline",
            ),
            claim_ttl: r.millis("WAYBILL_CLAIM_TTL_MS", ms(t.claim_ttl), "How long a claim lasts"),
            lock_ttl: r.millis("WAYBILL_LOCK_TTL_MS", ms(t.lock_ttl), "How long the Redis lock lasts"),
            handler_timeout: r.millis(
                "WAYBILL_HANDLER_TIMEOUT_MS",
                ms(t.handler_timeout),
                "The longest that one delivery may take",
            ),
            visibility_timeout: r.millis(
                "WAYBILL_QUEUE_VISIBILITY_MS",
                ms(t.visibility_timeout),
                "Queue: invisible for this long after a receive; whole seconds on SQS",
            ),
            max_receive_count: r.number(
                "WAYBILL_QUEUE_MAX_RECEIVES",
                t.max_receive_count,
                "Local queue: receives before a message is moved to the dead-letter queue; SQS has it in its redrive policy",
            ),
            queue_retention: r.millis("WAYBILL_QUEUE_RETENTION_MS", ms(t.queue_retention), "Queue: retention, for the check of the timings"),
            dead_letter_retention: r.millis(
                "WAYBILL_QUEUE_DEAD_RETENTION_MS",
                ms(t.dead_letter_retention),
                "Dead-letter queue: retention, for the check of the timings",
            ),
            reconcile_window: r.millis(
                "WAYBILL_RECONCILE_WINDOW_MS",
                ms(t.reconcile_window),
                "How long an unknown outcome waits for a provider's event",
            ),
            requeue_after: r.millis(
                "WAYBILL_REQUEUE_AFTER_MS",
                ms(t.requeue_after),
                "A queued row that nobody took is queued again after this",
            ),
            outbox_grace: r.millis(
                "WAYBILL_OUTBOX_GRACE_MS",
                ms(t.outbox_grace),
                "The relay publishes outbox rows older than this",
            ),
            max_crashes: r.number(
                "WAYBILL_MAX_CRASHES",
                t.max_crashes,
                "Attempts that never ended before a delivery is dead-lettered as worker_crashed",
            ),
            order_block: r.millis(
                "WAYBILL_ORDER_BLOCK_MS",
                ms(t.order_block),
                "How long a job with an ordering key may hold back the later ones of its key, from when it is first in line",
            ),
            document: DocumentTimings {
                max_attempts: r.number(
                    "WAYBILL_DOCUMENT_MAX_ATTEMPTS",
                    t.document.max_attempts,
                    "Renders before a document has failed",
                ),
                base: r.millis(
                    "WAYBILL_DOCUMENT_RETRY_BASE_MS",
                    ms(t.document.base),
                    "First pause between renders; doubles",
                ),
                cap: r.millis("WAYBILL_DOCUMENT_RETRY_CAP_MS", ms(t.document.cap), "Longest pause between renders"),
                render_timeout: r.millis(
                    "WAYBILL_DOCUMENT_RENDER_TIMEOUT_MS",
                    ms(t.document.render_timeout),
                    "Deadline of one render",
                ),
                claim_ttl: r.millis(
                    "WAYBILL_DOCUMENT_CLAIM_TTL_MS",
                    ms(t.document.claim_ttl),
                    "How long a render claim lasts",
                ),
                deadline: r.millis(
                    "WAYBILL_DOCUMENT_DEADLINE_MS",
                    ms(t.document.deadline),
                    "From routing to giving a document up",
                ),
            },
        },
        retry: RetryPolicy {
            max_attempts: r.number("WAYBILL_RETRY_MAX_ATTEMPTS", d.retry.max_attempts, "Passes over the provider list"),
            base: r.millis(
                "WAYBILL_RETRY_BASE_MS",
                ms(d.retry.base),
                "First pause between passes; doubles, with jitter",
            ),
            cap: r.millis("WAYBILL_RETRY_CAP_MS", ms(d.retry.cap), "Longest pause between passes"),
            hold_delay: r.millis(
                "WAYBILL_RETRY_HOLD_MS",
                ms(d.retry.hold_delay),
                "Pause while every provider account is unusable; burns no attempt",
            ),
        },
        limits: EventLimits {
            max_recipients: r.number("WAYBILL_EVENT_MAX_RECIPIENTS", d.limits.max_recipients, "Recipients per event"),
        },
        max_body_bytes: d.max_body_bytes,
        idempotency_ttl: r.millis(
            "WAYBILL_IDEMPOTENCY_TTL_MS",
            ms(d.idempotency_ttl),
            "How long a repeated event is answered with the first result",
        ),
        idempotency_wait: r.millis(
            "WAYBILL_IDEMPOTENCY_WAIT_MS",
            ms(d.idempotency_wait),
            "Wait for a post with the same key before answering 409",
        ),
        worker_concurrency: r.number(
            "WAYBILL_WORKER_CONCURRENCY",
            d.worker_concurrency,
            "Deliveries in flight per worker",
        ),
        worker_pollers: r.number("WAYBILL_WORKER_POLLERS", d.worker_pollers, "Receive loops per worker"),
        router_pollers: r.number("WAYBILL_ROUTER_POLLERS", d.router_pollers, "Receive loops per router"),
        render_concurrency: r.number("WAYBILL_RENDER_CONCURRENCY", d.render_concurrency, "Documents rendered at once"),
        queue_wait: r.millis("WAYBILL_QUEUE_WAIT_MS", ms(d.queue_wait), "Long poll; stopping waits for the last one. On SQS 1000 to 20000"),
        sweep_interval: r.millis(
            "WAYBILL_SCHEDULER_INTERVAL_MS",
            ms(d.sweep_interval),
            "Pause between two looks of the scheduler",
        ),
        stuck_after: r.millis(
            "WAYBILL_STUCK_AFTER_MS",
            ms(d.stuck_after),
            "Rows overdue by more than this ring an alert",
        ),
        outbox_lag_alert: r.millis(
            "WAYBILL_OUTBOX_LAG_ALERT_MS",
            ms(d.outbox_lag_alert),
            "An outbox older than this rings an alert",
        ),
    }
}
