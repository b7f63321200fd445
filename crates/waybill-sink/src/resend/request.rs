//! The request of `POST /emails` as it is on the wire. Attachments are borrowed from the body, not copied.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;
use serde_json::Value;

use super::answers::ResendError;

#[derive(Debug, Deserialize)]
pub(super) struct SendEmail<'a> {
    pub(super) from: Option<String>,
    #[serde(default)]
    pub(super) to: OneOrMany,
    #[serde(default)]
    pub(super) cc: OneOrMany,
    #[serde(default)]
    pub(super) bcc: OneOrMany,
    #[serde(default)]
    pub(super) reply_to: OneOrMany,
    pub(super) subject: Option<String>,
    pub(super) text: Option<String>,
    pub(super) html: Option<String>,
    pub(super) template: Option<Value>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(borrow, default)]
    pub(super) attachments: Vec<WireAttachment<'a>>,
    #[serde(default)]
    pub(super) tags: Vec<Tag>,
}

/// A text or an array of texts.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    #[default]
    None,
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(super) fn all(&self) -> &[String] {
        match self {
            OneOrMany::None => &[],
            OneOrMany::One(one) => std::slice::from_ref(one),
            OneOrMany::Many(many) => many,
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct WireAttachment<'a> {
    #[serde(borrow)]
    pub(super) content: Option<Cow<'a, str>>,
    pub(super) path: Option<String>,
    pub(super) filename: Option<String>,
    pub(super) content_type: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Tag {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) value: String,
}

impl<'a> SendEmail<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, ResendError> {
        serde_json::from_slice(body)
            .map_err(|error| ResendError::invalid("validation_error", format!("Invalid request body: {error}")))
    }
}
