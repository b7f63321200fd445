//! Templates of mails, with a producer's values in them. An input is up to four texts: the template, subject, name, data.

use super::as_text;
use waybill_core::{
    json::{self, Json},
    mail::{Filling, document_filename, fill, to_html},
};

pub(crate) const WORDS: &[&str] = &[
    "{subject}",
    "{type}",
    "{name}",
    "{data/a}",
    "{data/a/0}",
    "{data/~1}",
    "{",
    "}",
    "<script>",
    "&amp;",
    "\n\n",
    "\u{1f}",
    "{\"a\":\"x\"}",
];

pub(crate) fn check(input: &[u8]) {
    let Some(text) = as_text(input) else { return };
    let mut parts = text.splitn(4, '\u{1f}');
    let mut part = || parts.next().unwrap_or_default();
    let (template, subject, name, data) = (part(), part(), part(), part());
    let data = json::parse(data.as_bytes()).unwrap_or(Json::Null);
    let with = Filling { event_type: "order.placed", subject, name, data: &data };
    let filled = fill(template, with, false);
    let largest = [12, subject.len(), name.len(), data.to_text().len() * 6].into_iter().max().unwrap_or_default();
    assert!(filled.len() <= template.len() + template.matches('{').count() * largest, "values are not filled again");
    if !template.contains('{') {
        assert_eq!(filled, template);
    }
    let line = fill(template, with, true);
    assert!(!line.chars().any(char::is_control), "{line:?}");
    assert_eq!(line.chars().count(), filled.chars().count());
    html(&filled);
    let file = document_filename("purchase_order", subject);
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-');
    assert!(
        file.bytes().all(plain) && file.ends_with(".pdf") && file.len() <= 110 && !file.starts_with('.'),
        "{file:?}"
    );
}

/// No markup but ours.
fn html(text: &str) {
    let html = to_html(text);
    let rest =
        html.strip_prefix("<!doctype html><html><body style=\"font-family:sans-serif\">").expect("our beginning");
    let body = rest.strip_suffix("</body></html>").expect("our end");
    let without = body.replace("<p>", "").replace("</p>", "").replace("<br>", "");
    assert!(!without.contains(['<', '>', '"']), "{without:?}");
}
