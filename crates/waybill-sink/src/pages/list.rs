//! The list of mails, which keeps itself fresh.

use std::sync::Arc;

use axum::{http::StatusCode, response::Response};
use maud::{Markup, html};

use super::{badge, page, size};
use crate::{counts::Summary, mail::Mail, mailbox::attachment_url};

/// Swaps in the newest list every two seconds, unless the reader is marking text or looking elsewhere.
const SCRIPT: &str = r#"
const list = document.getElementById('live');
let shown;
async function refresh() {
  if (document.hidden || String(getSelection())) return;
  try {
    const answer = await fetch(location.href, { headers: { accept: 'text/html' } });
    if (!answer.ok) return;
    const fresh = (await answer.text()).split('<main id="live">')[1].split('</main>')[0];
    if (fresh !== shown) list.innerHTML = shown = fresh;
  } catch { /* the sink is restarting; try again */ }
}
setInterval(refresh, 2000);
document.getElementById('empty').addEventListener('click', async () => {
  await fetch('/mailbox', { method: 'DELETE' });
  refresh();
});
"#;

/// `kept` is the number of mails in the mailbox, `mails` are the ones to show, newest first.
pub(crate) fn mailbox(mails: &[&Arc<Mail>], kept: usize, counts: &Summary, search: &str) -> Response {
    let body = html! {
        header class="bar" {
            h1 { a href="/mailbox" { "Mailbox" } }
            form action="/mailbox" method="get" {
                input type="search" name="q" value=(search) placeholder="Recipient, subject or id" aria-label="Search";
            }
            button id="empty" type="button" title="Remove all mails; counts stay" { "Empty" }
        }
        main id="live" {
            (totals(counts))
            @if mails.is_empty() {
                (nothing(search))
            } @else {
                (table(mails))
                p class="note" {
                    @if mails.len() < kept { "Showing " (mails.len()) " of " (kept) " mails. " }
                    "Times are UTC."
                }
            }
        }
    };
    page(StatusCode::OK, "Mailbox", Some(SCRIPT), body)
}

fn totals(counts: &Summary) -> Markup {
    html! {
        ul class="totals" {
            li { b { (counts.accepted) } " accepted" }
            @for (provider, accepted) in counts.accepted_by_provider() {
                li { (badge(provider)) b { (accepted) } }
            }
            @let duplicates = counts.duplicate_deliveries();
            @if duplicates > 0 {
                li class="warn" { b { (duplicates) } " deliveries accepted more than once" }
            }
        }
    }
}

fn nothing(search: &str) -> Markup {
    html! {
        div class="empty" {
            @if search.is_empty() {
                h2 { "No mails yet" }
                p { "Mails that a provider accepts appear here by themselves." }
            } @else {
                h2 { "Nothing found" }
                p { "No mail in the mailbox matches “" (search) "”." }
            }
        }
    }
}

fn table(mails: &[&Arc<Mail>]) -> Markup {
    html! {
        table class="mails" {
            thead { tr { th { "Received" } th { "Accepted by" } th { "To" } th { "Subject" } th { "Attachments" } } }
            tbody {
                @for mail in mails { (row(mail)) }
            }
        }
    }
}

/// Lets a long address break after its `@`, not in the middle of a word.
fn address(address: &str) -> Markup {
    html! {
        @match address.rsplit_once('@') {
            Some((local, domain)) => { (local) "@" wbr; (domain) }
            None => (address),
        }
    }
}

fn row(mail: &Mail) -> Markup {
    let subject = if mail.subject.trim().is_empty() { "(no subject)" } else { &mail.subject };
    html! {
        tr {
            td class="time" {
                time datetime=(mail.received_at.to_rfc3339()) title=(mail.received_at.to_rfc3339()) {
                    (mail.received_at.format("%H:%M:%S"))
                }
            }
            td { (badge(mail.provider)) }
            td class="to" { (address(&mail.to)) }
            td class="subject" {
                a href={ "/mailbox/" (mail.id) } { (subject) }
                @if let Some(id) = mail.delivery_id() { div class="id" { (id) } }
            }
            td class="files" {
                @for (n, file) in mail.attachments.iter().enumerate() {
                    a class="file" href=(attachment_url(mail, n)) target="_blank" {
                        (file.filename) " " small { (size(file.content.len())) }
                    }
                }
            }
        }
    }
}
