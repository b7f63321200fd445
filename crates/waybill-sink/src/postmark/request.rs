//! The request of `POST /email` as it is on the wire. Attachments are borrowed from the body, not copied.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;

use super::answers::PostmarkError;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct SendEmail<'a> {
    pub(super) from: String,
    /// Mailboxes with commas between, as in `cc` and `bcc`.
    pub(super) to: String,
    pub(super) cc: Option<String>,
    pub(super) bcc: Option<String>,
    pub(super) subject: String,
    pub(super) text_body: Option<String>,
    pub(super) html_body: Option<String>,
    pub(super) headers: Vec<WireHeader>,
    #[serde(borrow)]
    pub(super) attachments: Vec<WireAttachment<'a>>,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) message_stream: Option<String>,
    pub(super) track_links: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct WireHeader {
    pub(super) name: String,
    pub(super) value: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct WireAttachment<'a> {
    #[serde(default)]
    pub(super) name: String,
    #[serde(borrow, default)]
    pub(super) content: Cow<'a, str>,
    #[serde(default)]
    pub(super) content_type: String,
}

impl<'a> SendEmail<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, PostmarkError> {
        serde_json::from_slice(body).map_err(|error| match error.classify() {
            serde_json::error::Category::Data => PostmarkError::refused(403, "Incompatible JSON."),
            serde_json::error::Category::Io
            | serde_json::error::Category::Syntax
            | serde_json::error::Category::Eof => PostmarkError::refused(402, "Invalid JSON."),
        })
    }
}
