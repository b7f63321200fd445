//! Postmark, `POST /email`, and the server look-up that a token check uses.
//!
//! Source: <https://postmarkapp.com/developer/api/email-api>.

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
    exchange::{self, Played, Refusal, Wire, gateway_page},
    mail::{Mail, Provider},
    server::Hangup,
    sink::Sink,
};
use answers::PostmarkError;
use request::SendEmail;

/// Above the 10 MB of a message, which are checked with their own answer.
const MAX_BODY_BYTES: usize = 32 * 1024 * 1024;

pub(crate) fn routes() -> Router<Sink> {
    Router::new().route("/email", post(send_email)).route("/server", get(get_server))
}

struct Postmark;

impl Played for Postmark {
    fn provider(&self) -> Provider {
        Provider::Postmark
    }

    fn new_message_id(&self) -> String {
        uuid::Uuid::now_v7().to_string()
    }

    fn events(&self, mail: &Mail) -> Vec<Post> {
        events::after_acceptance(mail)
    }
}

impl Wire for Postmark {
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
    sink.counts().add_request(Provider::Postmark);
    if let Err(error) = may_call(&headers) {
        return error.into();
    }
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else {
        return gateway_page(StatusCode::PAYLOAD_TOO_LARGE, "413 Request Entity Too Large");
    };
    let checked = SendEmail::parse(&body).and_then(check::into_draft);
    drop(body);
    match checked {
        Ok(draft) => exchange::answer(&sink, &Postmark, hangup.map(|Extension(hangup)| hangup), vec![draft]).await,
        Err(error) => error.into(),
    }
}

async fn get_server(headers: HeaderMap) -> Response {
    match may_call(&headers) {
        Ok(()) => answers::server(),
        Err(error) => error.into(),
    }
}

fn may_call(headers: &HeaderMap) -> Result<(), PostmarkError> {
    let says = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if !says(header::ACCEPT).contains("json") {
        return Err(PostmarkError::accept());
    }
    let token = headers.get("x-postmark-server-token").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if token.trim().is_empty() { Err(PostmarkError::token()) } else { Ok(()) }
}
