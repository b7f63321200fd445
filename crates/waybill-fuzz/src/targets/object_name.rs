//! Keys of objects, and the names that files are shown under.

use super::as_text;
use waybill_aws::content_disposition;
use waybill_core::ports::{MAX_OBJECT_KEY_BYTES, check_object_key};

pub(crate) const WORDS: &[&str] =
    &["/", "..", ".", "\\", "\0", "%", ";", "\"", ".pdf", "\u{202e}", "\u{1f4e6}", "tenant/purchase-order", "'", "*"];

pub(crate) fn check(input: &[u8]) {
    let Some(text) = as_text(input) else { return };
    if check_object_key(text).is_ok() {
        assert!(!text.is_empty() && text.len() <= MAX_OBJECT_KEY_BYTES);
        // Joined to a folder it stays in it.
        let plain = |part| matches!(part, std::path::Component::Normal(_));
        assert!(std::path::Path::new(text).components().all(plain), "{text:?}");
    }
    let header = content_disposition(text);
    assert!(header.bytes().all(|b| b.is_ascii_graphic() || b == b' '), "{header:?}");
    assert!(header.len() < 2_048, "{}", header.len());
    assert!(header.starts_with("attachment"));
    assert!(matches!(header.matches('"').count(), 0 | 2), "{header:?}");
    assert_eq!(header.matches(';').count(), if header == "attachment" { 0 } else { 2 }, "{header:?}");
}
