//! An SMTP server that takes submissions (RFC 5321, RFC 6409), on a listener of its own. No TLS: it is for loopback.
//!
//! What it checks: the order of commands, addresses, line lengths and line ends (a bare LF is how a second message is smuggled in), size,
//! and that the message can be read back. It sends no bounces: SMTP has no events.

mod dialogue;
mod faults;
mod session;

use std::{io, time::Duration};

use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    events::Post,
    exchange::Played,
    mail::{Mail, Provider},
    sink::Sink,
};

/// How long dialogues may go on after shutdown was asked for.
const DRAIN: Duration = Duration::from_secs(3);

pub(crate) struct Smtp;

impl Played for Smtp {
    fn provider(&self) -> Provider {
        Provider::Smtp
    }

    /// The text of the last reply, as Postfix words it.
    fn new_message_id(&self) -> String {
        format!("2.0.0 Ok: queued as {}", uuid::Uuid::now_v7().simple())
    }

    fn events(&self, _mail: &Mail) -> Vec<Post> {
        Vec::new()
    }
}

pub(crate) async fn serve(sink: Sink, listener: TcpListener, shutdown: CancellationToken) -> io::Result<()> {
    let sessions = TaskTracker::new();
    loop {
        let stream = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _peer)) => stream,
                Err(error) => {
                    // Out of file descriptors, mostly: the listener itself is fine, so wait instead of giving up.
                    tracing::warn!(%error, "sink.smtp.accept_failed");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            },
        };
        let (sink, stop) = (sink.clone(), shutdown.clone());
        sessions.spawn(async move {
            let session = session::Session::new(sink, stream);
            // A client that goes away in the middle is business as usual here.
            tokio::select! { _ = session.run() => {}, () = stop.cancelled() => {} }
        });
    }
    sessions.close();
    if tokio::time::timeout(DRAIN, sessions.wait()).await.is_err() {
        tracing::warn!(open = sessions.len(), "sink.smtp.sessions_left");
    }
    Ok(())
}
