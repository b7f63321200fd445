//! The server's lifecycle (IN-03): an accept loop that ends in the order a load balancer needs.
//!
//! 1. `soft` is cancelled: `/readyz` fails at once. The listener stays and answers for `drain_delay`, because the balancer doesn't know
//!    yet; answers carry `Connection: close`.
//! 2. The drain delay is over: the listener closes, idle connections close, requests in flight finish.
//! 3. `hard` is cancelled (at any time): what is left is cut.

use crate::watched::Watched;
use axum::{Router, body::Body};
use hyper::{
    Request,
    body::Incoming,
    header::{CONNECTION, HeaderValue},
    server::conn::http1,
    service::{HttpService, service_fn},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::AsyncReadExt as _,
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;

/// When to stop.
#[derive(Debug, Clone)]
pub struct Shutdown {
    pub soft: CancellationToken,
    pub hard: CancellationToken,
    /// How long the listener stays after `soft`: longer than the balancer needs to see a failed readiness.
    pub drain_delay: Duration,
}

/// Bounds of the server.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// More wait in the kernel's backlog.
    pub max_connections: usize,
    /// From a connection's start to its first byte.
    pub first_byte_timeout: Duration,
    /// For one request's head, and for the idle time before it: longer than a load balancer's idle time-out (60 s at AWS by default),
    /// or the balancer meets connections that close under its hands.
    pub header_read_timeout: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        Self {
            max_connections: 4096,
            first_byte_timeout: Duration::from_secs(10),
            header_read_timeout: Duration::from_secs(75),
        }
    }
}

/// How the server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// Connections that `hard` has cut.
    pub cut: usize,
}

/// Serves until `soft` and the drain delay are over and every connection has ended, or `hard` has cut them.
pub async fn serve(listener: TcpListener, router: Router, shutdown: Shutdown, options: ServeOptions) -> Served {
    let permits = Arc::new(Semaphore::new(options.max_connections));
    let server = Arc::new(Server {
        router,
        soft: shutdown.soft.clone(),
        closing: CancellationToken::new(),
        hard: shutdown.hard.clone(),
        options,
        cut: AtomicUsize::new(0),
    });
    let tracker = TaskTracker::new();
    let mut drained = pin!(drained(&shutdown));
    loop {
        // The permit comes before the connection: one that can't be served stays in the backlog instead of being accepted and left.
        let accepted = async {
            let permit = permits.clone().acquire_owned().await.ok()?;
            Some((permit, listener.accept().await))
        };
        let accepted = tokio::select! { biased; () = &mut drained => break, accepted = accepted => accepted };
        match accepted {
            Some((permit, Ok((stream, _)))) => {
                let server = Arc::clone(&server);
                tracker.spawn(async move {
                    server.connection(stream).await;
                    drop(permit);
                });
            }
            Some((_, Err(error))) => {
                // Out of file handles, or the peer was gone already: neither is a reason to stop or to spin.
                tracing::warn!(name: "http.accept_failed", kind = ?error.kind(), "accepting a connection failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            None => break,
        }
    }
    drop(listener);
    server.closing.cancel();
    tracker.close();
    tracker.wait().await;
    Served { cut: server.cut.load(Ordering::Relaxed) }
}

async fn drained(shutdown: &Shutdown) {
    let soft = async {
        shutdown.soft.cancelled().await;
        tokio::time::sleep(shutdown.drain_delay).await;
    };
    tokio::select! { () = soft => {}, () = shutdown.hard.cancelled() => {} }
}

struct Server {
    router: Router,
    soft: CancellationToken,
    closing: CancellationToken,
    hard: CancellationToken,
    options: ServeOptions,
    cut: AtomicUsize,
}

impl Server {
    async fn connection(&self, stream: TcpStream) {
        // Small answers must not wait for the peer's delayed acknowledgement.
        let _ = stream.set_nodelay(true);
        tokio::select! {
            ready = tokio::time::timeout(self.options.first_byte_timeout, stream.readable()) => {
                if ready.is_err() {
                    return;
                }
            }
            () = self.closing.cancelled() => return,
            () = self.hard.cancelled() => return,
        }
        let service = service_fn(|request: Request<Incoming>| {
            let (router, soft) = (self.router.clone(), self.soft.clone());
            async move {
                let (head, body) = request.into_parts();
                let (body, read_to_end) = Watched::new(body);
                let mut response = router.oneshot(Request::from_parts(head, Body::new(body))).await?;
                // What is left of a body is thrown away, and the connection with it. A client that is not told would send its next
                // request into it.
                if soft.is_cancelled() || !read_to_end.get() {
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                Ok::<_, std::convert::Infallible>(response)
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.options.header_read_timeout)
            .serve_connection(TokioIo::new(stream), service);
        self.until_it_ends(connection).await;
    }

    async fn until_it_ends<S>(&self, mut connection: http1::Connection<TokioIo<TcpStream>, S>)
    where
        S: HttpService<Incoming, ResBody = Body>,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut told = false;
        loop {
            tokio::select! {
                _ = &mut connection => break,
                () = self.closing.cancelled(), if !told => {
                    told = true;
                    std::pin::Pin::new(&mut connection).graceful_shutdown();
                }
                () = self.hard.cancelled() => {
                    self.cut.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        }
        let stream = connection.into_parts().io.into_inner();
        tokio::select! { () = linger(stream) => {}, () = self.hard.cancelled() => {} }
    }
}

/// Reads on for a moment after the last answer. A refusal that comes before the body was read (401, 413) would else be lost: closing a
/// socket with unread bytes makes the kernel reset the connection, and the peer throws the answer away (RFC 9112 section 9.6).
async fn linger(mut stream: TcpStream) {
    let mut left: usize = 2 * 1024 * 1024;
    let mut buffer = vec![0u8; 16 * 1024];
    let reading = async {
        while left > 0 {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(n) => left = left.saturating_sub(n),
            }
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), reading).await;
}
