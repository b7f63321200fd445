//! Amazon SES, API v2: `SendEmail` in its REST-JSON form, and the account look-up that a health check uses.
//!
//! Source: <https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html>. Signatures are not verified,
//! since the sink knows no secrets; a request without an `Authorization` header is refused.

mod address;
mod answers;
mod check;
mod events;
mod request;

use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    extract::State,
    http::{HeaderMap, header},
    response::Response,
    routing::{get, post},
};

use crate::{
    events::Post,
    exchange::{self, Played, Refusal, Wire},
    mail::{Mail, Provider},
    server::Hangup,
    sink::Sink,
};
use answers::SesError;
use request::SendEmail;

/// Far above the 40 MB of a message, which is checked with its own answer.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

pub(crate) fn routes() -> Router<Sink> {
    Router::new().route("/v2/email/outbound-emails", post(send_email)).route("/v2/email/account", get(get_account))
}

struct Ses;

impl Played for Ses {
    fn provider(&self) -> Provider {
        Provider::Ses
    }

    /// The shape of real ids: a hexadecimal prefix, a UUID, a suffix.
    fn new_message_id(&self) -> String {
        let id = uuid::Uuid::now_v7();
        format!("0107{}-{}-000000", &id.simple().to_string()[..12], id)
    }

    fn events(&self, mail: &Mail) -> Vec<Post> {
        events::after_acceptance(mail)
    }
}

impl Wire for Ses {
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
    sink.counts().add_request(Provider::Ses);
    if !headers.contains_key(header::AUTHORIZATION) {
        return SesError::missing_authorization().into();
    }
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else { return SesError::body_too_large().into() };
    let checked = SendEmail::parse(&body).and_then(check::into_draft);
    drop(body);
    match checked {
        Ok(draft) => exchange::answer(&sink, &Ses, hangup.map(|Extension(hangup)| hangup), vec![draft]).await,
        Err(error) => error.into(),
    }
}

async fn get_account(headers: HeaderMap) -> Response {
    if !headers.contains_key(header::AUTHORIZATION) {
        return SesError::missing_authorization().into();
    }
    answers::account()
}
