//! E-mail addresses.

use super::as_text;
use waybill_core::address::{EmailAddress, MAX_ADDRESS_OCTETS};

pub(crate) const WORDS: &[&str] = &[
    "@",
    "example.test",
    "ana",
    "+tag",
    ".",
    "=?utf-8?q?x?=",
    "xn--",
    "b\u{fc}cher.example",
    "\u{130}",
    "\u{1e9e}",
    "\u{ff20}",
    "\u{3002}",
    "\"",
    "[127.0.0.1]",
];

pub(crate) fn check(input: &[u8]) {
    let Some(text) = as_text(input) else { return };
    let Ok(address) = EmailAddress::parse(text) else { return };
    assert_eq!(address.as_given(), text.trim());
    assert!(address.as_given().len() <= MAX_ADDRESS_OCTETS);
    let key = address.key();
    assert_eq!(key, EmailAddress::parse(address.as_given()).expect("the same").key());
    // A key that is an address (folding may have made it too long) is its own key.
    if let Ok(again) = EmailAddress::parse(&key) {
        assert_eq!(again.key(), key, "{text:?}");
    }
    if let Ok(sent) = address.sendable() {
        assert!(sent.is_ascii() && sent.len() <= MAX_ADDRESS_OCTETS, "{sent:?}");
        assert!(sent.bytes().all(|b| b.is_ascii_graphic()), "nothing of it can end a header: {sent:?}");
        assert_eq!(EmailAddress::parse(&sent).expect("an address").key(), key, "what is sent to is what is compared");
    }
}
