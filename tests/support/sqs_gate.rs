//! A gate in front of SQS: passes requests on to the emulator, and holds those of one kind for one queue, so that the process that waits
//! for their answer can be killed exactly there.
//!
//! What a dead process sent last may still be on its way. So the gate gets a new door (an address) when it is opened after a death, and
//! what comes through an older one goes nowhere.

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use serde_json::Value;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::watch;

const MAX_BODY: usize = 4 * 1024 * 1024;

#[derive(Clone)]
pub struct SqsGate {
    inner: Arc<Inner>,
}

struct Inner {
    /// Number and address of the door that is in use.
    door: Mutex<(usize, String)>,
    behind: String,
    prefix: String,
    http: reqwest::Client,
    hold: Mutex<Option<Hold>>,
}

/// Which requests stand at the gate.
#[derive(Clone)]
struct Hold {
    /// Such as `SendMessageBatch`.
    operation: &'static str,
    queue: &'static str,
    /// Entries that still pass.
    free: usize,
    at_the_gate: watch::Sender<AtTheGate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AtTheGate {
    waiting: usize,
    /// Their senders are dead.
    dropped: bool,
}

impl SqsGate {
    pub async fn start(behind: &str, prefix: &str) -> Self {
        let inner = Arc::new(Inner {
            door: Mutex::default(),
            behind: behind.trim_end_matches('/').to_owned(),
            prefix: prefix.to_owned(),
            http: reqwest::Client::new(),
            hold: Mutex::default(),
        });
        let gate = Self { inner };
        gate.new_door().await;
        gate
    }

    async fn new_door(&self) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let number = {
            let mut door = self.inner.door();
            *door = (door.0 + 1, url);
            door.0
        };
        let router = Router::new().fallback(pass).with_state((self.inner.clone(), number));
        tokio::spawn(async move { axum::serve(listener, router).await });
    }

    /// For the next process.
    pub fn url(&self) -> String {
        self.inner.door().1.clone()
    }

    /// From now on holds `operation` on `queue` once so many entries have passed.
    pub fn close(&self, operation: &'static str, queue: &'static str, free: usize) {
        let at_the_gate = watch::Sender::new(AtTheGate { waiting: 0, dropped: false });
        *self.inner.hold() = Some(Hold { operation, queue, free, at_the_gate });
    }

    pub async fn somebody_waits(&self) {
        let gate = self.inner.hold().as_ref().map(|hold| hold.at_the_gate.subscribe());
        let mut gate = gate.expect("a closed gate");
        let waits = tokio::time::timeout(Duration::from_secs(20), gate.wait_for(|gate| gate.waiting > 0));
        assert!(waits.await.is_ok(), "nobody came to the gate");
    }

    /// Drops the requests that wait and whatever else their process sent before it died; the next one comes through.
    pub async fn open_after_death(&self) {
        self.new_door().await;
        if let Some(hold) = self.inner.hold().take() {
            hold.at_the_gate.send_modify(|gate| gate.dropped = true);
        }
    }
}

impl Inner {
    fn door(&self) -> std::sync::MutexGuard<'_, (usize, String)> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold(&self) -> std::sync::MutexGuard<'_, Option<Hold>> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where this request has to wait, if it has to.
    fn must_wait(&self, headers: &HeaderMap, body: &[u8]) -> Option<watch::Sender<AtTheGate>> {
        let mut hold = self.hold();
        let hold = hold.as_mut()?;
        let target = headers.get("x-amz-target")?.to_str().ok()?;
        let body: Value = serde_json::from_slice(body).ok()?;
        let queue = format!("/{}-{}", self.prefix, hold.queue);
        if target != format!("AmazonSQS.{}", hold.operation) || !body["QueueUrl"].as_str()?.ends_with(&queue) {
            return None;
        }
        let entries = body["Entries"].as_array().map_or(1, Vec::len);
        if entries <= hold.free {
            hold.free -= entries;
            return None;
        }
        Some(hold.at_the_gate.clone())
    }
}

async fn pass(State((gate, door)): State<(Arc<Inner>, usize)>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, MAX_BODY).await else { return plain(StatusCode::PAYLOAD_TOO_LARGE) };
    if let Some(held) = gate.must_wait(&head.headers, &body) {
        held.send_modify(|gate| gate.waiting += 1);
        let _ = held.subscribe().wait_for(|gate| gate.dropped).await;
        return plain(StatusCode::BAD_GATEWAY);
    }
    if gate.door().0 != door {
        return plain(StatusCode::BAD_GATEWAY);
    }
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = gate.http.request(head.method, format!("{}{path}", gate.behind)).body(body);
    for (name, value) in head.headers.iter().filter(|(name, _)| !of_one_hop(name.as_str())) {
        request = request.header(name, value);
    }
    let Ok(answer) = request.send().await else { return plain(StatusCode::BAD_GATEWAY) };
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers().iter().filter(|(name, _)| !of_one_hop(name.as_str())) {
        response = response.header(name, value);
    }
    match answer.bytes().await {
        Ok(bytes) => response.body(Body::from(bytes)).unwrap_or_else(|_| plain(StatusCode::BAD_GATEWAY)),
        Err(_) => plain(StatusCode::BAD_GATEWAY),
    }
}

fn of_one_hop(header: &str) -> bool {
    matches!(header, "host" | "connection" | "content-length" | "transfer-encoding" | "keep-alive")
}

fn plain(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
