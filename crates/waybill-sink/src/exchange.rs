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
    idempotency::KeyInUse,
    mail::{Draft, Mail, Provider},
    server::Hangup,
    sink::Sink,
};

pub(crate) const DEFAULT_SILENCE: Duration = Duration::from_secs(120);
pub(crate) const DEFAULT_SLOWNESS: Duration = Duration::from_secs(3);

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

/// What one provider makes of a mail that it took.
pub(crate) trait Played: Sync + 'static {
    fn provider(&self) -> Provider;
    fn new_message_id(&self) -> String;
    /// The provider's events after it took this mail, in the order it would send them.
    fn events(&self, mail: &Mail) -> Vec<Post>;
}

/// How one provider says things over HTTP.
pub(crate) trait Wire: Played {
    /// The success answer; `None` leaves the id out.
    fn accepted(&self, message_id: Option<&str>) -> Response;
    fn refused(&self, refusal: Refusal) -> Response;
}

/// The mails that a checked request asks for.
pub(crate) struct Order {
    pub(crate) drafts: Vec<Draft>,
    /// Where the provider knows idempotency keys and the request had one.
    pub(crate) key: Option<KeyInUse>,
}

impl From<Vec<Draft>> for Order {
    fn from(drafts: Vec<Draft>) -> Self {
        Order { drafts, key: None }
    }
}

/// Answers a checked request: with the fault that is due, or by accepting it.
pub(crate) async fn answer(
    sink: &Sink,
    wire: &'static dyn Wire,
    hangup: Option<Hangup>,
    order: impl Into<Order>,
) -> Response {
    let order = order.into();
    let hit = {
        let recipients: Vec<&str> =
            order.drafts.iter().flat_map(|draft| draft.recipients.iter().map(String::as_str)).collect();
        sink.faults().take(wire.provider(), &recipients)
    };
    match hit {
        None => wire.accepted(Some(&sink.accept(wire, order))),
        Some(hit) => play(sink, wire, hangup, hit, order).await,
    }
}

async fn play(sink: &Sink, wire: &'static dyn Wire, hangup: Option<Hangup>, hit: Hit, order: Order) -> Response {
    let refusal = match hit.kind {
        FaultKind::TimeoutBeforeAccept => return hold(hangup, hit.delay).await,
        FaultKind::TimeoutAfterAccept => {
            sink.accept(wire, order);
            return hold(hangup, hit.delay).await;
        }
        FaultKind::Slow => return accept_late(sink, wire, hit.delay.unwrap_or(DEFAULT_SLOWNESS), order).await,
        FaultKind::Reset => {
            pause(hit.delay).await;
            return reset(hangup).await;
        }
        FaultKind::ResetAfterAccept => {
            sink.accept(wire, order);
            pause(hit.delay).await;
            return reset(hangup).await;
        }
        FaultKind::NoMessageId => {
            pause(hit.delay).await;
            return wire.accepted(None);
        }
        FaultKind::HtmlBody => {
            pause(hit.delay).await;
            return gateway_page(StatusCode::BAD_GATEWAY, "502 Bad Gateway");
        }
        FaultKind::RawNulBody => {
            pause(hit.delay).await;
            return raw_nul();
        }
        FaultKind::Http500AfterAccept => {
            sink.accept(wire, order);
            Refusal::ServerError
        }
        FaultKind::Drip => {
            sink.accept(wire, order);
            return drip(hangup).await;
        }
        FaultKind::HugeBody => {
            sink.accept(wire, order);
            return huge(wire.accepted(None));
        }
        FaultKind::TooLarge => {
            pause(hit.delay).await;
            return gateway_page(StatusCode::PAYLOAD_TOO_LARGE, "413 Request Entity Too Large");
        }
        FaultKind::ThrottleBare => {
            pause(hit.delay).await;
            return StatusCode::TOO_MANY_REQUESTS.into_response();
        }
        FaultKind::ThrottleRetryAfter => {
            pause(hit.delay).await;
            return (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "7")]).into_response();
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
async fn accept_late(sink: &Sink, wire: &'static dyn Wire, delay: Duration, order: Order) -> Response {
    let sink = sink.clone();
    let accepting = tokio::spawn(async move {
        tokio::time::sleep(delay).await;
        sink.accept(wire, order)
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

/// On our own server, a head that comes byte by byte and does not end; elsewhere like a reset.
async fn drip(hangup: Option<Hangup>) -> Response {
    if let Some(hangup) = &hangup {
        hangup.drip();
    }
    reset(hangup).await
}

/// The answer's status with a body of 16 MiB that is nothing.
fn huge(answer: Response) -> Response {
    let (mut parts, _) = answer.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(vec![b'a'; 16 << 20]))
}

/// What a gateway says before the provider is asked.
pub(crate) fn gateway_page(status: StatusCode, title: &str) -> Response {
    let page = format!(
        "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n\
         <hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
    );
    (status, [(header::CONTENT_TYPE, "text/html")], page).into_response()
}

fn raw_nul() -> Response {
    (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, "text/plain")], "upstream said\0 no").into_response()
}
