//! One mail in full.

use axum::{http::StatusCode, response::Response};
use maud::{Markup, html};

use super::{badge, page, size};
use crate::{mail::Mail, mailbox::attachment_url};

pub(crate) fn mail(mail: &Mail) -> Response {
    let subject = if mail.subject.trim().is_empty() { "(no subject)" } else { &mail.subject };
    let body = html! {
        header class="bar" { p { a href="/mailbox" { "← Mailbox" } } }
        main {
            h1 class="subject" { (subject) }
            (facts(mail))
            @if !mail.attachments.is_empty() { (attachments(mail)) }
            (bodies(mail))
            (table("Headers", mail.headers.iter().map(|header| (&header.name, &header.value))))
            (table("Tags", mail.tags.iter()))
        }
    };
    page(StatusCode::OK, subject, None, body)
}

fn facts(mail: &Mail) -> Markup {
    let ids =
        [("Delivery", mail.delivery_id()), ("Job", mail.job_id()), ("Message id", Some(mail.message_id.as_str()))];
    html! {
        dl class="facts" {
            dt { "From" } dd { (mail.from) }
            dt { "To" } dd { (mail.to) }
            dt { "Received" } dd { (mail.received_at.format("%Y-%m-%d %H:%M:%S%.3f UTC")) }
            dt { "Accepted by" } dd { (badge(mail.provider)) }
            @for (name, id) in ids {
                @if let Some(id) = id { dt { (name) } dd class="id" { (id) } }
            }
        }
    }
}

fn attachments(mail: &Mail) -> Markup {
    html! {
        section {
            h2 { "Attachments" }
            p class="files" {
                @for (n, file) in mail.attachments.iter().enumerate() {
                    a class="file" href=(attachment_url(mail, n)) target="_blank" {
                        (file.filename) " " small { (size(file.content.len())) " · " (file.content_type) }
                    }
                }
            }
        }
    }
}

fn bodies(mail: &Mail) -> Markup {
    html! {
        @if mail.html.is_some() {
            section {
                h2 { "HTML" }
                iframe title="HTML part" src={ "/mailbox/" (mail.id) "/html" }
                    sandbox="allow-popups allow-popups-to-escape-sandbox" {}
            }
        }
        @if let Some(text) = &mail.text {
            section {
                h2 { "Text" }
                pre { (text) }
            }
        }
    }
}

fn table<'a>(title: &str, rows: impl ExactSizeIterator<Item = (&'a String, &'a String)>) -> Markup {
    html! {
        @if rows.len() > 0 {
            details open[rows.len() < 12] {
                summary { (title) " " span class="count" { (rows.len()) } }
                table class="pairs" {
                    @for (name, value) in rows { tr { th { (name) } td { (value) } } }
                }
            }
        }
    }
}
