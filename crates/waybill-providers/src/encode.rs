//! Attachments in JSON: base64 written straight into the request, without a copy of the text on the way.

use base64::{display::Base64Display, engine::general_purpose::STANDARD as BASE64};
use serde::Serializer;

pub(crate) fn base64<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&Base64Display::new(bytes, &BASE64))
}
