//! The mailbox for people. Everything a sender wrote is escaped by the templates; the policy below is the second wall.

mod list;
mod mail;
mod style;

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::mail::Provider;
pub(crate) use list::mailbox;
pub(crate) use mail::mail;

/// The frame around every page. `script` runs, nothing else does.
fn page(status: StatusCode, title: &str, script: Option<&str>, body: Markup) -> Response {
    let nonce = uuid::Uuid::new_v4().simple().to_string();
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style nonce=(nonce) { (PreEscaped(style::CSS)) }
                @if script.is_some() {
                    noscript { meta http-equiv="refresh" content="2"; }
                }
            }
            body {
                (body)
                @if let Some(script) = script {
                    script nonce=(nonce) { (PreEscaped(script)) }
                }
            }
        }
    };
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; \
         frame-src 'self'; form-action 'self'; base-uri 'none'"
    );
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    (status, headers, markup.into_string()).into_response()
}

pub(crate) fn not_found() -> Response {
    let body = html! {
        main class="empty" {
            h1 { "This mail is not here" }
            p { "The mailbox keeps only the newest mails, and it may have been emptied." }
            p { a href="/mailbox" { "Back to the mailbox" } }
        }
    };
    page(StatusCode::NOT_FOUND, "Not found", None, body)
}

fn badge(provider: Provider) -> Markup {
    html! { span class={ "badge " (provider.as_str()) } { (provider.label()) } }
}

/// `842 B`, `27.4 kB`, `3.1 MB`.
fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{}.{} kB", bytes / 1_000, bytes % 1_000 / 100),
        _ => format!("{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        assert_eq!([0, 999, 27_432, 3_199_999].map(size), ["0 B", "999 B", "27.4 kB", "3.1 MB"]);
    }
}
