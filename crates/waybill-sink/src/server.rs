//! The accept loop. It is our own, rather than axum's, because a fault must be able to reset its connection.

use std::{
    convert::Infallible,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, extract::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt as _;

/// How long requests may go on after shutdown was asked for.
const DRAIN: Duration = Duration::from_secs(3);

/// Between two bytes of an answer that trickles.
const DRIP: Duration = Duration::from_millis(50);

/// Lets a handler break the connection that its request came on. In the request's extensions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hangup {
    reset: CancellationToken,
    /// Set: the connection trickles before it goes.
    drips: Arc<AtomicBool>,
    shutdown: CancellationToken,
}

impl Hangup {
    /// Drops the connection with a TCP reset; never returns, since its task goes with the connection.
    pub(crate) async fn reset(&self) -> Infallible {
        self.reset.cancel();
        std::future::pending().await
    }

    /// From the next [`Hangup::reset`] on the connection sends the head of an answer, byte by byte and without an end, until the client
    /// has gone.
    pub(crate) fn drip(&self) {
        self.drips.store(true, Ordering::Release);
    }

    /// Waits for `silence`, or less if the server stops.
    pub(crate) async fn hold(&self, silence: Duration) {
        tokio::select! {
            () = tokio::time::sleep(silence) => {}
            () = self.shutdown.cancelled() => {}
        }
    }
}

/// Serves until `shutdown`, then lets running requests finish for a moment.
pub(crate) async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) -> io::Result<()> {
    let connections = TaskTracker::new();
    loop {
        let stream = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _peer)) => stream,
                Err(error) => {
                    // Out of file descriptors, mostly: the listener itself is fine, so wait instead of giving up.
                    tracing::warn!(%error, "sink.accept.failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        connections.spawn(serve_connection(stream, router.clone(), shutdown.clone()));
    }
    connections.close();
    if tokio::time::timeout(DRAIN, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "sink.shutdown.connections_left");
    }
    Ok(())
}

/// Ends when nobody reads any more.
async fn trickle(stream: &mut TcpStream) {
    let head = b"HTTP/1.1 200 OK\r\nx-padding: ".iter().copied().chain(std::iter::repeat(b'a'));
    for byte in head {
        if stream.write_all(&[byte]).await.is_err() {
            return;
        }
        tokio::time::sleep(DRIP).await;
    }
}

async fn serve_connection(stream: TcpStream, router: Router, shutdown: CancellationToken) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "sink.nodelay.failed");
    }
    let hangup = Hangup { shutdown: shutdown.clone(), ..Hangup::default() };
    let (reset, drips) = (hangup.reset.clone(), Arc::clone(&hangup.drips));
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(hangup.clone());
        router.clone().oneshot(request)
    });
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut stopping = false;
    loop {
        tokio::select! {
            biased;
            () = reset.cancelled() => {
                let mut stream = connection.into_parts().io.into_inner();
                if drips.load(Ordering::Acquire) {
                    tokio::select! { () = trickle(&mut stream) => {}, () = shutdown.cancelled() => {} }
                }
                if let Err(error) = stream.set_zero_linger() {
                    tracing::debug!(%error, "sink.reset.linger_failed");
                }
                return;
            }
            () = shutdown.cancelled(), if !stopping => {
                stopping = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
            ended = &mut connection => {
                // A client that goes away in the middle is business as usual here.
                if let Err(error) = ended {
                    tracing::trace!(%error, "sink.connection.ended");
                }
                return;
            }
        }
    }
}
