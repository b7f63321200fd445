//! The mailbox over HTTP: pages for a browser, JSON for programs, attachments as they were sent.

use axum::{
    Router,
    extract::{Path, Query, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use serde::Deserialize;

use crate::{
    mail::{Attachment, Mail},
    pages,
    problem::Problem,
    sink::Sink,
};

mod view;

pub(crate) use view::{MailView, Summary, attachment_url};

/// How many mails the page lists; the JSON list has all of them unless `limit` says otherwise.
const PAGE_MAILS: usize = 200;

pub(crate) fn routes() -> Router<Sink> {
    Router::new()
        .route("/mailbox", get(list).delete(empty))
        .route("/mailbox/{id}", get(one))
        .route("/mailbox/{id}/html", get(html_part))
        .route("/mailbox/{id}/attachments/{n}", get(attachment))
}

/// Which mails to list. All conditions must hold.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Filter {
    pub(crate) delivery_id: Option<String>,
    pub(crate) job_id: Option<String>,
    /// A part of the recipient, the subject, or one of the ids, in any case.
    pub(crate) q: Option<String>,
    pub(crate) limit: Option<usize>,
}

impl Filter {
    fn holds(&self, mail: &Mail) -> bool {
        let same =
            |wanted: &Option<String>, is: Option<&str>| wanted.as_deref().is_none_or(|wanted| is == Some(wanted));
        same(&self.delivery_id, mail.delivery_id())
            && same(&self.job_id, mail.job_id())
            && self.q.as_deref().is_none_or(|part| contains(mail, &part.trim().to_lowercase()))
    }
}

fn contains(mail: &Mail, part: &str) -> bool {
    [Some(mail.to.as_str()), Some(&mail.subject), mail.delivery_id(), mail.job_id()]
        .into_iter()
        .flatten()
        .any(|text| text.to_lowercase().contains(part))
}

async fn list(State(sink): State<Sink>, Query(filter): Query<Filter>, headers: HeaderMap) -> Response {
    let html = wants_html(&headers);
    let limit = filter.limit.unwrap_or(if html { PAGE_MAILS } else { usize::MAX });
    let kept = sink.store().newest();
    let mails = kept.iter().filter(|mail| filter.holds(mail)).take(limit);
    if html {
        let mails: Vec<_> = mails.collect();
        return pages::mailbox(&mails, kept.len(), &sink.counts().summary(), filter.q.as_deref().unwrap_or_default());
    }
    let summaries: Vec<Summary<'_>> = mails.map(|mail| Summary::of(mail)).collect();
    json(&summaries)
}

async fn empty(State(sink): State<Sink>) -> StatusCode {
    sink.clear_mailbox();
    StatusCode::NO_CONTENT
}

async fn one(State(sink): State<Sink>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    match sink.store().find(&id) {
        Some(mail) if wants_html(&headers) => pages::mail(&mail),
        Some(mail) => json(&MailView::of(&mail)),
        None if wants_html(&headers) => pages::not_found(),
        None => Problem::not_found("mail").into_response(),
    }
}

/// The HTML part on its own, for the frame of the mail page. The policy keeps it from running scripts, loading
/// anything from outside, or seeing the sink's origin; links may open in a new tab.
async fn html_part(State(sink): State<Sink>, Path(id): Path<String>) -> Response {
    const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
        sandbox allow-popups allow-popups-to-escape-sandbox";
    let Some(mail) = sink.store().find(&id) else { return Problem::not_found("mail").into_response() };
    let Some(html) = &mail.html else { return Problem::not_found("HTML part").into_response() };
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, with_base_target(html)).into_response()
}

/// Links of a mail open in a new tab, not inside the frame.
fn with_base_target(html: &str) -> String {
    const BASE: &str = "<base target=\"_blank\">";
    // After <head>, so that a leading doctype stays leading. ASCII lower-casing keeps byte positions.
    let head_end = html.to_ascii_lowercase().find("<head>").map_or(0, |at| at + "<head>".len());
    let (before, after) = html.split_at(head_end);
    format!("{before}{BASE}{after}")
}

async fn attachment(State(sink): State<Sink>, Path((id, n)): Path<(String, usize)>) -> Response {
    let mail = sink.store().find(&id);
    match mail.as_ref().and_then(|mail| mail.attachments.get(n)) {
        Some(attachment) => serve_attachment(attachment),
        None => Problem::not_found("attachment").into_response(),
    }
}

/// A sender chooses type and name, so only kinds that a browser shows without running anything are shown inline.
fn serve_attachment(attachment: &Attachment) -> Response {
    let kind = attachment.content_type.to_ascii_lowercase();
    let bare = kind.split(';').next().unwrap_or_default().trim();
    let inline = matches!(bare, "application/pdf" | "image/png" | "image/jpeg" | "image/gif" | "text/plain");
    let mut response = attachment.content.clone().into_response();
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_str(&attachment.content_type);
    headers.insert(header::CONTENT_TYPE, content_type.unwrap_or(HeaderValue::from_static("application/octet-stream")));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if bare != "application/pdf" {
        // Browsers refuse to show a PDF in a sandbox.
        headers.insert(
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; sandbox"),
        );
    }
    if let Ok(disposition) = HeaderValue::from_str(&disposition(inline, &attachment.filename)) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    response
}

/// RFC 6266: an ASCII name for old clients and the real one in `filename*` (RFC 8187).
fn disposition(inline: bool, filename: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_ ".contains(c) { c } else { '_' };
    let ascii: String = filename.chars().map(plain).collect();
    let mut encoded = String::new();
    for byte in filename.bytes() {
        if byte.is_ascii_alphanumeric() || b".-_".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    let kind = if inline { "inline" } else { "attachment" };
    format!("{kind}; filename=\"{ascii}\"; filename*=UTF-8''{encoded}")
}

/// Browsers name `text/html`; programs get JSON, whether they ask for it or for anything.
fn wants_html(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.contains("text/html") || value.contains("application/xhtml"))
}

fn json<T: serde::Serialize>(value: &T) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], axum::Json(value)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_can_not_break_out_of_its_header() {
        let header = disposition(true, "a\"\r\nX: y; rechnung ü.pdf");
        assert_eq!(
            header,
            "inline; filename=\"a___X_ y_ rechnung _.pdf\"; \
             filename*=UTF-8''a%22%0D%0AX%3A%20y%3B%20rechnung%20%C3%BC.pdf"
        );
    }

    #[test]
    fn the_base_element_goes_into_the_head() {
        assert_eq!(with_base_target("<!doctype html><HEAD><p>"), "<!doctype html><HEAD><base target=\"_blank\"><p>");
        assert_eq!(with_base_target("<p>"), "<base target=\"_blank\"><p>");
    }
}
