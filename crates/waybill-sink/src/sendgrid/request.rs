//! The request of `mail/send` as it is on the wire. Attachments are borrowed from the body, not copied.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;
use serde_json::Value;

use super::answers::FieldError;

#[derive(Debug, Deserialize)]
pub(super) struct SendMail<'a> {
    #[serde(default)]
    pub(super) personalizations: Vec<Personalization>,
    pub(super) from: Option<Contact>,
    pub(super) reply_to: Option<Contact>,
    pub(super) subject: Option<String>,
    #[serde(default)]
    pub(super) content: Vec<ContentPart>,
    #[serde(borrow, default)]
    pub(super) attachments: Vec<WireAttachment<'a>>,
    pub(super) template_id: Option<String>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) categories: Vec<String>,
    #[serde(default)]
    pub(super) custom_args: BTreeMap<String, Value>,
    pub(super) send_at: Option<i64>,
    #[serde(default)]
    pub(super) mail_settings: MailSettings,
}

#[derive(Debug, Deserialize)]
pub(super) struct Personalization {
    #[serde(default)]
    pub(super) to: Vec<Contact>,
    #[serde(default)]
    pub(super) cc: Vec<Contact>,
    #[serde(default)]
    pub(super) bcc: Vec<Contact>,
    pub(super) from: Option<Contact>,
    pub(super) subject: Option<String>,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) custom_args: BTreeMap<String, Value>,
}

impl Personalization {
    pub(super) fn recipients(&self) -> impl Iterator<Item = &Contact> {
        self.to.iter().chain(&self.cc).chain(&self.bcc)
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Contact {
    #[serde(default)]
    pub(super) email: String,
    pub(super) name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ContentPart {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) value: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct WireAttachment<'a> {
    #[serde(borrow, default)]
    pub(super) content: Cow<'a, str>,
    #[serde(default)]
    pub(super) filename: String,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) disposition: Option<String>,
    pub(super) content_id: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct MailSettings {
    #[serde(default)]
    pub(super) sandbox_mode: Switch,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Switch {
    #[serde(default)]
    pub(super) enable: bool,
}

impl<'a> SendMail<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, Vec<FieldError>> {
        serde_json::from_slice(body).map_err(|_| vec![FieldError::general("Bad Request")])
    }
}
