//! Resend, `POST /emails`, and the domains look-up that a key check uses.
//!
//! Sources: <https://resend.com/docs/api-reference/emails/send-email> and the OpenAPI description (`resend/resend-openapi`).

mod answers;
mod check;
mod events;
mod request;

use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::Response,
    routing::{get, post},
};

use crate::{
    events::Post,
    exchange::{self, Order, Played, Refusal, Wire, gateway_page},
    idempotency::Begin,
    mail::{Mail, Provider},
    server::Hangup,
    sink::Sink,
};
use answers::ResendError;
use request::SendEmail;

/// Above the 40 MB of attachments, which are checked with their own answer.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
const MAX_KEY_CHARS: usize = 256;

pub(crate) fn routes() -> Router<Sink> {
    Router::new().route("/emails", post(send_email)).route("/domains", get(list_domains))
}

struct Resend;

impl Played for Resend {
    fn provider(&self) -> Provider {
        Provider::Resend
    }

    fn new_message_id(&self) -> String {
        uuid::Uuid::now_v7().to_string()
    }

    fn events(&self, mail: &Mail) -> Vec<Post> {
        events::after_acceptance(mail)
    }
}

impl Wire for Resend {
    fn accepted(&self, message_id: Option<&str>) -> Response {
        answers::accepted(message_id)
    }

    fn refused(&self, refusal: Refusal) -> Response {
        answers::refused(refusal)
    }
}

async fn send_email(
    State(sink): State<Sink>,
    hangup: Option<Extension<Hangup>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    sink.counts().add_request(Provider::Resend);
    if let Err(error) = may_call(&headers) {
        return error.into();
    }
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else {
        return gateway_page(StatusCode::PAYLOAD_TOO_LARGE, "413 Request Entity Too Large");
    };
    match order(&sink, &headers, &body) {
        Ok(order) => exchange::answer(&sink, &Resend, hangup.map(|Extension(hangup)| hangup), order).await,
        Err(error) => error.into(),
    }
}

fn order(sink: &Sink, headers: &HeaderMap, body: &[u8]) -> Result<Order, ResendError> {
    let draft = SendEmail::parse(body).and_then(check::into_draft)?;
    let key = match headers.get("idempotency-key") {
        None => None,
        Some(key) => {
            let key = key.to_str().ok().filter(|key| (1..=MAX_KEY_CHARS).contains(&key.len()));
            match sink.keys().begin(key.ok_or_else(ResendError::bad_key)?, body) {
                Begin::Go(key) => Some(key),
                Begin::Concurrent => return Err(ResendError::concurrent()),
                Begin::OtherBody => return Err(ResendError::other_body()),
            }
        }
    };
    Ok(Order { drafts: vec![draft], key })
}

async fn list_domains(headers: HeaderMap) -> Response {
    match may_call(&headers) {
        Ok(()) => answers::domains(),
        Err(error) => error.into(),
    }
}

fn may_call(headers: &HeaderMap) -> Result<(), ResendError> {
    if !headers.contains_key(header::USER_AGENT) {
        return Err(ResendError::no_user_agent());
    }
    let key = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .ok_or_else(ResendError::missing_key)?;
    if key.starts_with("re_") { Ok(()) } else { Err(ResendError::wrong_key()) }
}
