//! Twilio SendGrid, `POST /v3/mail/send`, and the scopes look-up that a key check uses.
//!
//! Source: <https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send>.

mod answers;
mod check;
mod check_parts;
mod events;
mod request;

use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::{
    events::Post,
    exchange::{self, Played, Refusal, Wire},
    mail::{Mail, Provider},
    server::Hangup,
    sink::Sink,
};

/// 30 MB for the whole message.
const MAX_BODY_BYTES: usize = 30 * 1024 * 1024;

pub(crate) fn routes() -> Router<Sink> {
    Router::new().route("/v3/mail/send", post(send_mail)).route("/v3/scopes", get(get_scopes))
}

struct SendGrid;

impl Played for SendGrid {
    fn provider(&self) -> Provider {
        Provider::SendGrid
    }

    /// 22 characters of URL-safe base64, as real ids have.
    fn new_message_id(&self) -> String {
        URL_SAFE_NO_PAD.encode(uuid::Uuid::now_v7().as_bytes())
    }

    fn events(&self, mail: &Mail) -> Vec<Post> {
        events::after_acceptance(mail)
    }
}

impl Wire for SendGrid {
    fn accepted(&self, message_id: Option<&str>) -> Response {
        answers::accepted(message_id)
    }

    fn refused(&self, refusal: Refusal) -> Response {
        answers::refused(refusal)
    }
}

async fn send_mail(
    State(sink): State<Sink>,
    hangup: Option<Extension<Hangup>>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    sink.counts().add_request(Provider::SendGrid);
    if !has_bearer(&headers) {
        return answers::missing_key();
    }
    if !is_json(&headers) {
        return answers::wrong_content_type();
    }
    let Ok(body) = to_bytes(body, MAX_BODY_BYTES).await else { return answers::too_large() };
    let checked = request::SendMail::parse(&body).and_then(check::into_drafts);
    drop(body);
    match checked {
        Ok(checked) if checked.sandbox => StatusCode::OK.into_response(),
        Ok(checked) => exchange::answer(&sink, &SendGrid, hangup.map(|Extension(hangup)| hangup), checked.drafts).await,
        Err(errors) => answers::invalid(&errors),
    }
}

async fn get_scopes(headers: HeaderMap) -> Response {
    if has_bearer(&headers) { answers::scopes() } else { answers::missing_key() }
}

fn has_bearer(headers: &HeaderMap) -> bool {
    headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .is_some_and(|key| !key.trim().is_empty())
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|value| {
        value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
    })
}
