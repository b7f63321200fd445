//! One request to a provider, from checked mail to answer: the part that is the same for every provider.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::{
    events::Post,
    faults::{FaultKind, Hit},
    mail::{Draft, Mail, Provider},
    server::Hangup,
    sink::Sink,
};

const DEFAULT_SILENCE: Duration = Duration::from_secs(120);
const DEFAULT_SLOWNESS: Duration = Duration::from_secs(3);

/// A fault that is an ordinary answer in the provider's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    ServerError,
    Throttled,
    Unauthorized,
    Rejected,
    DailyQuota,
    SendingPaused,
    AccountSuspended,
    UnverifiedIdentity,
    /// A refusal whose text contains U+0000.
    NulText,
}

/// How one provider says things.
pub(crate) trait Wire: Sync + 'static {
    fn provider(&self) -> Provider;
    fn new_message_id(&self) -> String;
    /// The success answer; `None` leaves the id out.
    fn accepted(&self, message_id: Option<&str>) -> Response;
    fn refused(&self, refusal: Refusal) -> Response;
    /// The provider's events after it took this mail, in the order it would send them.
    fn events(&self, mail: &Mail) -> Vec<Post>;
}

/// Answers a checked request: with the fault that is due, or by accepting it.
pub(crate) async fn answer(
    sink: &Sink,
    wire: &'static dyn Wire,
    hangup: Option<Hangup>,
    drafts: Vec<Draft>,
) -> Response {
    let hit = {
        let recipients: Vec<&str> =
            drafts.iter().flat_map(|draft| draft.recipients.iter().map(String::as_str)).collect();
        sink.faults().take(wire.provider(), &recipients)
    };
    match hit {
        None => wire.accepted(Some(&sink.accept(wire, drafts))),
        Some(hit) => play(sink, wire, hangup, hit, drafts).await,
    }
}

async fn play(sink: &Sink, wire: &'static dyn Wire, hangup: Option<Hangup>, hit: Hit, drafts: Vec<Draft>) -> Response {
    let refusal = match hit.kind {
        FaultKind::TimeoutBeforeAccept => return hold(hangup, hit.delay).await,
        FaultKind::TimeoutAfterAccept => {
            sink.accept(wire, drafts);
            return hold(hangup, hit.delay).await;
        }
        FaultKind::Slow => return accept_late(sink, wire, hit.delay.unwrap_or(DEFAULT_SLOWNESS), drafts).await,
        FaultKind::Reset => {
            pause(hit.delay).await;
            return reset(hangup).await;
        }
        FaultKind::ResetAfterAccept => {
            sink.accept(wire, drafts);
            pause(hit.delay).await;
            return reset(hangup).await;
        }
        FaultKind::NoMessageId => {
            pause(hit.delay).await;
            return wire.accepted(None);
        }
        FaultKind::HtmlBody => {
            pause(hit.delay).await;
            return bad_gateway();
        }
        FaultKind::RawNulBody => {
            pause(hit.delay).await;
            return raw_nul();
        }
        FaultKind::Http500AfterAccept => {
            sink.accept(wire, drafts);
            Refusal::ServerError
        }
        FaultKind::Http500 => Refusal::ServerError,
        FaultKind::Throttle => Refusal::Throttled,
        FaultKind::Unauthorized => Refusal::Unauthorized,
        FaultKind::Reject => Refusal::Rejected,
        FaultKind::NulBody => Refusal::NulText,
        FaultKind::DailyQuota => Refusal::DailyQuota,
        FaultKind::SendingPaused => Refusal::SendingPaused,
        FaultKind::AccountSuspended => Refusal::AccountSuspended,
        FaultKind::UnverifiedIdentity => Refusal::UnverifiedIdentity,
    };
    pause(hit.delay).await;
    wire.refused(refusal)
}

async fn pause(delay: Option<Duration>) {
    if let Some(delay) = delay {
        tokio::time::sleep(delay).await;
    }
}

/// Accepts in a task of its own: a real provider does not take a mail back because the caller lost patience.
async fn accept_late(sink: &Sink, wire: &'static dyn Wire, delay: Duration, drafts: Vec<Draft>) -> Response {
    let sink = sink.clone();
    let accepting = tokio::spawn(async move {
        tokio::time::sleep(delay).await;
        sink.accept(wire, drafts)
    });
    match accepting.await {
        Ok(message_id) => wire.accepted(Some(&message_id)),
        Err(_) => wire.refused(Refusal::ServerError),
    }
}

async fn hold(hangup: Option<Hangup>, silence: Option<Duration>) -> Response {
    let silence = silence.unwrap_or(DEFAULT_SILENCE);
    match &hangup {
        Some(hangup) => hangup.hold(silence).await,
        None => tokio::time::sleep(silence).await,
    }
    reset(hangup).await
}

/// On our own server, a TCP reset. Under another one (`Sink::router` mounted elsewhere) the nearest thing: a body that
/// breaks off.
async fn reset(hangup: Option<Hangup>) -> Response {
    if let Some(hangup) = hangup {
        let never: Infallible = hangup.reset().await;
        match never {}
    }
    let broken =
        futures::stream::once(async { Err::<Bytes, _>(std::io::Error::from(std::io::ErrorKind::ConnectionReset)) });
    Body::from_stream(broken).into_response()
}

fn bad_gateway() -> Response {
    const PAGE: &str = "<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n\
        <center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n";
    (StatusCode::BAD_GATEWAY, [(header::CONTENT_TYPE, "text/html")], PAGE).into_response()
}

fn raw_nul() -> Response {
    (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, "text/plain")], "upstream said\0 no").into_response()
}
