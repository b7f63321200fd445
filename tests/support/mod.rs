//! The harness of the black-box tests: a database and a sink of the test's own, and real `waybill` processes that can be killed.

// Each test binary uses a part of it.
#![allow(dead_code, reason = "shared by several test binaries")]

pub mod aws;
pub mod books;
pub mod gate;
pub mod queue;
pub mod queue_gate;
pub mod sqs_gate;

use aws::AwsUnderTest;
use queue::QueueUnderTest;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use waybill_core::{
    ids::{KeyId, RouteId, TenantId},
    mail::MailTemplate,
    outcome::OnUnknown,
    route::RouteSpec,
};
use waybill_crypto::ApiKey;
use waybill_sink::{EventsTarget, Provider, Sink, SinkConfig};
use waybill_store::{NewApiKey, Store};
use waybill_testkit::db::TestDb;

/// Password of the sink's provider events.
const INBOUND: &str = "inbound-secret-of-the-tests";

/// What the sink signs Resend's events with.
const WEBHOOK_SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

/// Short times, so that a test sees a claim expire; the inequalities of the protocol hold as in production.
const TIMES: [(&str, &str); 24] = [
    ("WAYBILL_SES_TIMEOUT_MS", "1000"),
    ("WAYBILL_SENDGRID_TIMEOUT_MS", "1000"),
    ("WAYBILL_RESEND_TIMEOUT_MS", "1000"),
    ("WAYBILL_POSTMARK_TIMEOUT_MS", "1000"),
    ("WAYBILL_SMTP_TIMEOUT_MS", "1000"),
    ("WAYBILL_CLAIM_MARGIN_MS", "200"),
    ("WAYBILL_HANDLER_TIMEOUT_MS", "2300"),
    ("WAYBILL_CLAIM_TTL_MS", "2600"),
    ("WAYBILL_QUEUE_VISIBILITY_MS", "14000"),
    ("WAYBILL_REQUEUE_AFTER_MS", "16000"),
    ("WAYBILL_RECONCILE_WINDOW_MS", "1200"),
    ("WAYBILL_RETRY_BASE_MS", "300"),
    ("WAYBILL_RETRY_CAP_MS", "1000"),
    ("WAYBILL_RETRY_HOLD_MS", "500"),
    ("WAYBILL_OUTBOX_GRACE_MS", "500"),
    ("WAYBILL_SCHEDULER_INTERVAL_MS", "100"),
    ("WAYBILL_QUEUE_WAIT_MS", "300"),
    ("WAYBILL_API_DRAIN_DELAY_MS", "0"),
    ("WAYBILL_STOP_TIMEOUT_MS", "8000"),
    ("WAYBILL_DATABASE_CONNECTIONS", "8"),
    ("WAYBILL_SES_EVENTS_WIRED", "true"),
    ("WAYBILL_SENDGRID_EVENTS_WIRED", "true"),
    ("WAYBILL_RESEND_EVENTS_WIRED", "true"),
    ("WAYBILL_POSTMARK_EVENTS_WIRED", "true"),
];

/// One test's world.
pub struct World {
    pub db: TestDb,
    pub store: Store,
    pub sink: Sink,
    pub sink_url: String,
    pub tenant: TenantId,
    pub key: String,
    pub api: SocketAddr,
    pub http: reqwest::Client,
    pub queue: QueueUnderTest,
    pub aws: Option<AwsUnderTest>,
    data: std::path::PathBuf,
    env: HashMap<String, String>,
    stop_sink: CancellationToken,
    started: Instant,
}

/// A running `waybill` process; killed when dropped.
pub struct Process {
    pub child: Child,
    log: std::path::PathBuf,
}

impl Process {
    /// SIGKILL, and waits for the end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn signal(&self, name: &str) {
        let done =
            Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status().expect("runs kill");
        assert!(done.success(), "kill -{name}");
    }

    /// Waits for the process to end by itself.
    pub async fn wait(&mut self, limit: Duration) -> Option<std::process::ExitStatus> {
        let started = Instant::now();
        while started.elapsed() < limit {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        None
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- log of a waybill process\n{}", self.log());
        }
    }
}

fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("its address")
}

pub fn mail(subject: &str) -> MailTemplate {
    MailTemplate {
        from: "orders@shop.example".into(),
        from_name: "Shop".into(),
        subject: subject.into(),
        text: "Hello {name}".into(),
    }
}

/// A route without a document, deduplicated.
pub fn plain_route() -> RouteSpec {
    RouteSpec {
        channel: "email".into(),
        document: None,
        recipients: None,
        dedupe: true,
        on_unknown: None,
        mail: mail("Note {subject}"),
    }
}

impl World {
    pub async fn new() -> World {
        Self::with(&[]).await
    }

    /// `env` is added to what each process gets.
    pub async fn with(env: &[(&str, &str)]) -> World {
        Self::on(TestDb::new().await, AwsUnderTest::start().await, env).await
    }

    /// On stacks that were deployed before.
    pub async fn deployed(stack: &Value, env: &[(&str, &str)]) -> World {
        Self::on(TestDb::new().await, Some(AwsUnderTest::deployed(stack).await), env).await
    }

    /// On a PostgreSQL of the test's own.
    pub async fn on_server(url: &str) -> World {
        Self::on(TestDb::on_server(url).await, AwsUnderTest::start().await, &[]).await
    }

    async fn on(db: TestDb, aws: Option<AwsUnderTest>, env: &[(&str, &str)]) -> World {
        let store = Store::from_pool(db.pool.clone());
        let tenant = TenantId(Uuid::now_v7());
        store.ensure_tenant(tenant, "test", None).await.expect("a tenant");
        let key = ApiKey::random(false).expect("random bytes");
        let scopes = ["events:write", "jobs:read", "jobs:write", "ops"].map(str::to_owned).to_vec();
        let new = NewApiKey {
            id: KeyId(Uuid::now_v7()),
            tenant,
            key_hash: key.hash(),
            prefix: key.hint().to_owned(),
            scopes,
            expires_at: None,
        };
        store.insert_api_key(&new).await.expect("a key");
        let api = free_address();
        let (sink, sink_url, smtp_url, stop_sink) = start_sink(api).await;
        let data = std::env::temp_dir().join(format!("waybill-test-{}", Uuid::now_v7().simple()));
        let mut all: HashMap<String, String> = TIMES.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        for (name, value) in [
            ("DATABASE_URL", db.url.as_str()),
            ("WAYBILL_API_LISTEN", &api.to_string()),
            ("AWS_ENDPOINT_URL_SESV2", &sink_url),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_REGION", "eu-central-1"),
            ("WAYBILL_SENDGRID_BASE_URL", &sink_url),
            ("WAYBILL_SENDGRID_API_KEY", "SG.test"),
            ("WAYBILL_RESEND_BASE_URL", &sink_url),
            ("WAYBILL_RESEND_API_KEY", "re_test"),
            ("WAYBILL_POSTMARK_BASE_URL", &sink_url),
            ("WAYBILL_POSTMARK_SERVER_TOKEN", "pm-test"),
            ("WAYBILL_SMTP_URL", &smtp_url),
            ("WAYBILL_SMTP_STARTTLS", "false"),
            ("WAYBILL_RESEND_WEBHOOK_SECRET", WEBHOOK_SECRET),
            ("WAYBILL_INBOUND_SECRET", INBOUND),
            ("WAYBILL_DATA_DIR", &data.to_string_lossy()),
            ("RUST_LOG", "info"),
        ] {
            all.insert(name.to_owned(), value.to_owned());
        }
        if let Ok(redis) = std::env::var("REDIS_URL") {
            all.insert("REDIS_URL".into(), redis);
        }
        all.extend(aws.iter().flat_map(AwsUnderTest::env).map(|(name, value)| (name.to_owned(), value)));
        all.extend(env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        let world = World {
            queue: QueueUnderTest::of(&db.pool, aws.as_ref()).await,
            aws,
            store,
            db,
            sink,
            sink_url,
            tenant,
            key: key.expose().to_owned(),
            api,
            http: reqwest::Client::new(),
            data,
            env: all,
            stop_sink,
            started: Instant::now(),
        };
        world.route("note.posted", plain_route()).await;
        let order =
            RouteSpec { document: Some("purchase_order".into()), mail: mail("Order {subject}"), ..plain_route() };
        world.route("order.placed", order).await;
        world
    }

    pub async fn route(&self, event_type: &str, spec: RouteSpec) {
        self.store.put_route(self.tenant, RouteId(Uuid::now_v7()), event_type, &spec).await.expect("a route");
    }

    pub async fn on_unknown(&self, policy: OnUnknown) {
        sqlx::query("UPDATE tenants SET on_unknown = $1 WHERE id = $2")
            .bind(policy.as_str())
            .bind(self.tenant.uuid())
            .execute(&self.db.pool)
            .await
            .expect("sets the policy");
    }

    /// Starts a process with a role and waits until it is ready where it has an API.
    pub async fn start(&self, role: &str) -> Process {
        self.start_with(role, &[]).await
    }

    pub async fn start_with(&self, role: &str, env: &[(&str, &str)]) -> Process {
        std::fs::create_dir_all(&self.data).expect("a data folder");
        let log = self.data.join(format!("{role}-{}.log", Uuid::now_v7().simple()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_waybill"));
        // Nothing of the caller's environment but what a process needs to run.
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .arg(role)
            .envs(&self.env)
            .envs(self.aws.iter().map(|aws| ("AWS_ENDPOINT_URL_SQS", aws.gate.url())))
            .envs(env.iter().copied());
        let file = std::fs::File::create(&log).expect("a log file");
        command.stdin(Stdio::null()).stdout(file.try_clone().expect("clones")).stderr(file);
        let mut process = Process { child: command.spawn().expect("starts waybill"), log };
        if matches!(role, "all" | "api") {
            let url = format!("http://{}/readyz", self.api);
            let started = Instant::now();
            while !self.http.get(&url).send().await.is_ok_and(|a| a.status().is_success()) {
                if let Ok(Some(status)) = process.child.try_wait() {
                    panic!("waybill {role} ended with {status}:\n{}", process.log());
                }
                assert!(started.elapsed() < Duration::from_secs(30), "waybill {role} is not ready:\n{}", process.log());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        // Every role says so once its signal handlers stand.
        let started = Instant::now();
        while !process.log().contains("waybill.started") {
            assert!(started.elapsed() < Duration::from_secs(30), "waybill {role} did not start:\n{}", process.log());
            if let Ok(Some(status)) = process.child.try_wait() {
                panic!("waybill {role} ended with {status}:\n{}", process.log());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        process
    }

    /// Runs the operator's command line with what an operator has: the database and the queue.
    pub fn cli(&self, args: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_waybill"))
            .env_clear()
            .args(args)
            .env("DATABASE_URL", &self.db.url)
            .envs(self.aws.iter().flat_map(AwsUnderTest::queue_env))
            .output()
            .expect("runs waybill");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// A file of this world's own.
    pub fn file(&self, name: &str, content: &str) -> String {
        std::fs::create_dir_all(&self.data).expect("a data folder");
        let path = self.data.join(name);
        std::fs::write(&path, content).expect("writes");
        path.to_string_lossy().into_owned()
    }

    /// An event without a document.
    pub fn note(&self, id: &str, subject: &str, recipients: usize) -> Value {
        let recipients: Vec<Value> =
            (0..recipients).map(|i| json!({"email": format!("r{i}@example.test"), "name": format!("R {i}")})).collect();
        json!({"id": id, "source": "/tests", "type": "note.posted", "subject": subject, "recipients": recipients, "data": {"text": subject}})
    }

    pub fn order(&self, id: &str) -> Value {
        let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/purchase-order.json"))
            .expect("the example");
        let mut order: Value = serde_json::from_str(&text).expect("the example is JSON");
        order["id"] = json!(id);
        order
    }

    pub async fn post(&self, event: &Value) -> reqwest::Response {
        self.http
            .post(format!("http://{}/events", self.api))
            .bearer_auth(&self.key)
            .json(event)
            .send()
            .await
            .expect("posts")
    }

    /// Posts until the answer is not 503 (a busy machine, a database that comes back) and returns the job's id.
    pub async fn accept(&self, event: &Value) -> String {
        let answer = self.post_patiently(event).await;
        let status = answer.status();
        let body: Value = answer.json().await.expect("a JSON answer");
        assert_eq!(status.as_u16(), 202, "{body}");
        body["job_id"].as_str().expect("a job id").to_owned()
    }

    pub async fn post_patiently(&self, event: &Value) -> reqwest::Response {
        self.patiently(|| self.post(event)).await
    }

    /// 503 with Retry-After means: nothing happened, come again.
    async fn patiently<F: Future<Output = reqwest::Response>>(&self, ask: impl Fn() -> F) -> reqwest::Response {
        for _ in 0..200 {
            let answer = ask().await;
            if answer.status().as_u16() != 503 {
                return answer;
            }
            assert!(answer.headers().contains_key("retry-after"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("still 503");
    }

    pub async fn job(&self, id: &str) -> Value {
        let url = format!("http://{}/jobs/{id}?limit=200", self.api);
        let answer =
            self.patiently(|| async { self.http.get(&url).bearer_auth(&self.key).send().await.expect("gets") }).await;
        assert_eq!(answer.status().as_u16(), 200);
        answer.json().await.expect("a JSON answer")
    }

    /// Waits until the job's status is final.
    pub async fn finished(&self, id: &str) -> Value {
        self.finished_within(id, Duration::from_secs(60)).await
    }

    pub async fn finished_within(&self, id: &str, limit: Duration) -> Value {
        let started = Instant::now();
        loop {
            let job = self.job(id).await;
            if !matches!(job["status"].as_str(), Some("PENDING" | "ROUTED")) {
                return job;
            }
            assert!(started.elapsed() < limit, "the job is not finished after {limit:?}: {job:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.db.pool).await.expect("counts")
    }

    /// Waits until a query counts what is wanted.
    pub async fn until(&self, what: &str, sql: &'static str, wanted: impl Fn(i64) -> bool) {
        let started = Instant::now();
        loop {
            let found = self.count(sql).await;
            if wanted(found) {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(40), "{what}: still {found}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub async fn close(self) {
        self.stop_sink.cancel();
        let _ = std::fs::remove_dir_all(&self.data);
        self.store.pool().close().await;
        self.db.close().await;
    }
}

async fn start_sink(api: SocketAddr) -> (Sink, String, String, CancellationToken) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let inbound = |provider: &str| format!("http://sink:{INBOUND}@{api}/inbound/{provider}/default");
    let events = EventsTarget::new(Some(&inbound("ses")), Some(&inbound("sendgrid")))
        .and_then(|events| events.with(Provider::Resend, Some(&inbound("resend"))))
        .and_then(|events| events.with(Provider::Postmark, Some(&inbound("postmark"))))
        .and_then(|events| events.signed_for_resend(WEBHOOK_SECRET))
        .expect("a loopback address and a secret");
    let sink = Sink::new(SinkConfig { events: Some(events), ..SinkConfig::default() });
    let stop = CancellationToken::new();
    tokio::spawn(sink.clone().serve(listener, stop.clone()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let smtp_url = format!("smtp://{}", listener.local_addr().expect("its address"));
    tokio::spawn(sink.clone().serve_smtp(listener, stop.clone()));
    (sink, url, smtp_url, stop)
}

/// Adds one line to the file that `cargo xtask crash` sums up.
pub fn report(books: &books::Books) {
    let Ok(path) = std::env::var("WAYBILL_CRASH_REPORT") else { return };
    use std::io::Write as _;
    let lost = books.not_final;
    let line = format!("{}\n", json!({"deliveries": books.deliveries, "lost": lost, "duplicates": books.doubled}));
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).expect("opens the report");
    file.write_all(line.as_bytes()).expect("writes the report");
}

fn services_folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("services")
}

/// A Redis that a test may flush.
pub fn own_redis() -> waybill_services::Redis {
    waybill_services::Redis::start(&waybill_services::RedisOptions::new(services_folder())).expect("starts a Redis")
}

pub async fn flush(redis: &waybill_services::Redis) {
    let client = redis::Client::open(redis.url()).expect("an address");
    let mut connection = client.get_multiplexed_async_connection().await.expect("connects");
    let () = redis::cmd("FLUSHALL").query_async(&mut connection).await.expect("flushes");
}

/// A PostgreSQL that a test may stop.
pub async fn own_postgres() -> waybill_services::Postgres {
    tokio::task::spawn_blocking(|| {
        let folder = services_folder();
        let options = waybill_services::PostgresOptions::new(
            waybill_services::DataDir::Keep(folder.join(format!("postgres-{}", Uuid::now_v7().simple()))),
            folder,
        );
        waybill_services::Postgres::start(&options).expect("starts a PostgreSQL")
    })
    .await
    .expect("starts")
}
