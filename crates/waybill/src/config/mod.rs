//! Configuration from the environment: one struct per section, every error at once, and the table in docs/configuration.md from the same
//! calls that read the variables (`waybill config table`).

mod reader;

pub(crate) use reader::{ConfigErrors, Environment, Reader, Variable};

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};
use waybill_core::{
    event::EventLimits,
    policy::{DocumentTimings, RetryPolicy, Timings},
};
use waybill_pipeline::context::Settings;
use waybill_providers::registry::{self, ProviderKind};

/// Everything that a process needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) database: DatabaseConfig,
    /// None: the lock of one process (local mode, or a single `waybill all`).
    pub(crate) redis_url: Option<String>,
    pub(crate) api: ApiConfig,
    pub(crate) providers: ProvidersConfig,
    pub(crate) settings: Settings,
    pub(crate) data_dir: PathBuf,
    pub(crate) alerts: AlertsConfig,
    /// `json` or `text`.
    pub(crate) log_json: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct DatabaseConfig {
    pub(crate) url: String,
    pub(crate) connections: u32,
    pub(crate) acquire_timeout: Duration,
}

#[derive(Debug, Clone)]
pub(crate) struct ApiConfig {
    pub(crate) listen: SocketAddr,
    /// `/metrics` and health, apart from the public port.
    pub(crate) ops_listen: Option<SocketAddr>,
    /// From the signal to closing the listener.
    pub(crate) drain_delay: Duration,
    /// From the signal to cutting what still runs.
    pub(crate) stop_timeout: Duration,
    pub(crate) body_read_timeout: Duration,
}

#[derive(Clone)]
pub(crate) struct ProvidersConfig {
    /// In the order in which they are tried.
    pub(crate) order: Vec<&'static ProviderKind>,
    /// Where each provider's folder reads its own settings from.
    pub(crate) environment: Environment,
    /// Password of the providers' event webhooks (HTTP Basic); none: `/inbound` is closed.
    pub(crate) inbound_secret: Option<waybill_crypto::Secret>,
}

impl std::fmt::Debug for ProvidersConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProvidersConfig")
            .field("order", &self.order.iter().map(|kind| kind.name).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct AlertsConfig {
    /// Slack-compatible incoming webhook.
    pub(crate) webhook_url: Option<waybill_crypto::Secret>,
    pub(crate) quiet: Duration,
}

impl Config {
    /// Reads the process's environment.
    ///
    /// # Errors
    /// Every variable that is wrong, with what it should be.
    pub(crate) fn from_env() -> Result<Config, ConfigErrors> {
        Self::read(Arc::new(|name: &str| std::env::var(name).ok()))
    }

    /// # Errors
    /// As [`Config::from_env`].
    pub(crate) fn read(environment: Environment) -> Result<Config, ConfigErrors> {
        let mut r = Reader::new(environment);
        let config = Self::sections(&mut r);
        for error in config.settings.timings.check().err().unwrap_or_default() {
            r.problem("timings", error.to_string());
        }
        let lookup = |name: &str| (config.providers.environment)(name);
        for kind in &config.providers.order {
            for error in (kind.build)(&waybill_providers::Settings::new(&lookup)).err().unwrap_or_default() {
                r.problem(error.name, error.problem.to_owned());
            }
        }
        r.finish(config)
    }

    /// The table of all variables, in the order in which they are read.
    pub(crate) fn table() -> Vec<Variable> {
        let mut reader = Reader::new(Arc::new(|_: &str| None));
        let _ = Self::sections(&mut reader);
        reader.variables().to_vec()
    }

    fn sections(r: &mut Reader) -> Config {
        let database = DatabaseConfig {
            url: r.required("DATABASE_URL", "PostgreSQL, 14 or newer: `postgres://user:password@host:5432/database`"),
            connections: r.number("WAYBILL_DATABASE_CONNECTIONS", 16, "Connections per process"),
            acquire_timeout: r.millis(
                "WAYBILL_DATABASE_ACQUIRE_TIMEOUT_MS",
                2_000,
                "Wait for a free connection before answering 503",
            ),
        };
        let redis_url = r.optional("REDIS_URL", "Redis or Valkey for the lock: `redis://host:6379`, `rediss://` with TLS. Not set: a lock inside the process, right for one process only");
        let providers = providers(r);
        let settings = settings(r, &providers);
        Config {
            database,
            redis_url,
            api: ApiConfig {
                listen: r.parsed("WAYBILL_API_LISTEN", "127.0.0.1:8080", "Address of the HTTP API"),
                ops_listen: r.optional_parsed("WAYBILL_OPS_LISTEN", "Address for `/metrics` and health, for every role; not set: no metrics, and health on the API's port only"),
                drain_delay: r.millis("WAYBILL_API_DRAIN_DELAY_MS", 5_000, "After SIGTERM: how long the listener stays open while readiness already fails"),
                stop_timeout: r.millis("WAYBILL_STOP_TIMEOUT_MS", 22_000, "After SIGTERM: when what still runs is cut. Below the platform's stop timeout"),
                body_read_timeout: r.millis("WAYBILL_API_BODY_TIMEOUT_MS", 10_000, "Total time for a request's body"),
            },
            providers,
            settings,
            data_dir: PathBuf::from(r.text("WAYBILL_DATA_DIR", ".waybill/data", "Folder of rendered documents")),
            alerts: AlertsConfig {
                webhook_url: r.optional("WAYBILL_ALERT_WEBHOOK_URL", "Slack-compatible incoming webhook for alerts; the log has them always").map(waybill_crypto::Secret::new),
                quiet: r.millis("WAYBILL_ALERT_QUIET_MS", 900_000, "One cause rings at most once in this time"),
            },
            log_json: r.parsed::<LogFormat>("WAYBILL_LOG_FORMAT", "text", "`text` or `json`") == LogFormat::Json,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogFormat {
    Text,
    Json,
}

impl std::str::FromStr for LogFormat {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("expected text or json"),
        }
    }
}

fn providers(r: &mut Reader) -> ProvidersConfig {
    let names = r.text("WAYBILL_PROVIDERS", "ses,sendgrid", "Mail providers in the order in which they are tried");
    let mut order = Vec::new();
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match registry::find(name) {
            Some(kind) => order.push(kind),
            None => r.problem(
                "WAYBILL_PROVIDERS",
                format!(
                    "`{name}` is not one of {}",
                    registry::PROVIDERS.iter().map(|k| k.name).collect::<Vec<_>>().join(", ")
                ),
            ),
        }
    }
    // Read by the provider's own folder; listed here for the table.
    r.document(
        "AWS_REGION",
        "required for SES",
        "Region of SES (`WAYBILL_SES_REGION` wins); credentials come from the AWS default chain",
    );
    r.document("AWS_ENDPOINT_URL_SESV2", "not set", "Another address for SES v2 (the provider sink, an emulator)");
    r.document(
        "WAYBILL_SES_CONFIGURATION_SET",
        "not set",
        "Configuration set whose events are sent to `/inbound/ses/default`",
    );
    r.document("WAYBILL_SES_TIMEOUT_MS", "`10000`", "Total deadline of one call");
    r.document(
        "WAYBILL_SES_EVENTS_WIRED",
        "`false`",
        "SES events reach `/inbound/ses/default`: unknown outcomes are reconciled instead of failed over",
    );
    r.document("WAYBILL_SENDGRID_API_KEY", "required for SendGrid", "API key with `mail.send`");
    r.document(
        "WAYBILL_SENDGRID_BASE_URL",
        "`https://api.sendgrid.com`",
        "Address of SendGrid (`https://api.eu.sendgrid.com` for EU subusers)",
    );
    r.document("WAYBILL_SENDGRID_TIMEOUT_MS", "`10000`", "Total deadline of one call");
    r.document("WAYBILL_SENDGRID_EVENTS_WIRED", "`false`", "SendGrid events reach `/inbound/sendgrid/default`");
    let inbound_secret = r.optional(
        "WAYBILL_INBOUND_SECRET",
        "Password of the providers' event webhooks (HTTP Basic, any user name); not set: `/inbound` is closed",
    );
    ProvidersConfig {
        order,
        environment: r.environment(),
        inbound_secret: inbound_secret.map(waybill_crypto::Secret::new),
    }
}

/// The deadline that a provider's folder reads for itself, for the check of the timings as a whole.
fn provider_timeout(environment: &Environment, kind: &ProviderKind) -> Duration {
    let set = environment(&format!("WAYBILL_{}_TIMEOUT_MS", kind.name.to_ascii_uppercase()));
    Duration::from_millis(set.and_then(|ms| ms.trim().parse().ok()).unwrap_or(10_000))
}

fn settings(r: &mut Reader, providers: &ProvidersConfig) -> Settings {
    let d = Settings::default();
    let ms = |duration: Duration| duration.as_millis() as u64;
    let provider_timeouts = providers.order.iter().map(|kind| provider_timeout(&providers.environment, kind)).collect();
    let t = d.timings;
    Settings {
        timings: Timings {
            provider_timeouts,
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
                "Queue: invisible for this long after a receive",
            ),
            max_receive_count: r.number(
                "WAYBILL_QUEUE_MAX_RECEIVES",
                t.max_receive_count,
                "Queue: receives before a message is moved to the dead-letter queue",
            ),
            queue_retention: r.millis("WAYBILL_QUEUE_RETENTION_MS", ms(t.queue_retention), "Queue: retention"),
            dead_letter_retention: r.millis(
                "WAYBILL_QUEUE_DEAD_RETENTION_MS",
                ms(t.dead_letter_retention),
                "Dead-letter queue: retention",
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
        queue_wait: r.millis("WAYBILL_QUEUE_WAIT_MS", ms(d.queue_wait), "Long poll; stopping waits for the last one"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn read(values: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
        let values: HashMap<String, String> = values.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Config::read(Arc::new(move |name: &str| values.get(name).cloned()))
    }

    #[test]
    fn the_defaults_need_only_a_database_and_the_providers_accounts() {
        let config = read(&[
            ("DATABASE_URL", "postgres://localhost/x"),
            ("AWS_REGION", "eu-central-1"),
            ("WAYBILL_SENDGRID_API_KEY", "SG.x"),
        ])
        .unwrap();
        assert_eq!(config.providers.order.iter().map(|k| k.name).collect::<Vec<_>>(), ["ses", "sendgrid"]);
    }

    #[test]
    fn every_wrong_variable_is_named_at_once() {
        let errors = read(&[
            ("WAYBILL_CLAIM_TTL_MS", "soon"),
            ("WAYBILL_API_LISTEN", "8080"),
            ("WAYBILL_PROVIDERS", "ses,pigeon"),
            ("WAYBILL_QUEUE_VISIBILITY_MS", "1000"),
        ])
        .unwrap_err()
        .to_string();
        for wanted in [
            "DATABASE_URL",
            "WAYBILL_CLAIM_TTL_MS",
            "WAYBILL_API_LISTEN",
            "pigeon",
            "the claim's expiry must be below the visibility timeout",
            "at least 6 times",
        ] {
            assert!(errors.contains(wanted), "{wanted} in {errors}");
        }
    }

    #[test]
    fn the_page_lists_every_variable_as_it_is() {
        let page = include_str!("../../../../docs/configuration.md");
        for variable in Config::table() {
            assert!(
                page.contains(&variable.row()),
                "docs/configuration.md lacks or misstates:\n{}\nrun `cargo run -- config table`",
                variable.row()
            );
        }
    }
}
