//! The request of `SendEmail` as it is on the wire. Large texts are borrowed from the body, not copied.

use std::borrow::Cow;

use serde::Deserialize;

use super::answers::SesError;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SendEmail<'a> {
    pub(super) from_email_address: Option<String>,
    #[serde(default)]
    pub(super) destination: Destination,
    #[serde(default)]
    pub(super) reply_to_addresses: Vec<String>,
    #[serde(borrow)]
    pub(super) content: Option<Content<'a>>,
    #[serde(default)]
    pub(super) email_tags: Vec<Tag>,
    pub(super) configuration_set_name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Destination {
    #[serde(default)]
    pub(super) to_addresses: Vec<String>,
    #[serde(default)]
    pub(super) cc_addresses: Vec<String>,
    #[serde(default)]
    pub(super) bcc_addresses: Vec<String>,
}

impl Destination {
    pub(super) fn all(&self) -> impl Iterator<Item = &String> {
        self.to_addresses.iter().chain(&self.cc_addresses).chain(&self.bcc_addresses)
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Content<'a> {
    #[serde(borrow)]
    pub(super) simple: Option<Simple<'a>>,
    #[serde(borrow)]
    pub(super) raw: Option<Raw<'a>>,
    pub(super) template: Option<Template>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Simple<'a> {
    pub(super) subject: Option<Text>,
    pub(super) body: Option<Texts>,
    #[serde(default)]
    pub(super) headers: Vec<Tag>,
    #[serde(borrow, default)]
    pub(super) attachments: Vec<WireAttachment<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Texts {
    pub(super) text: Option<Text>,
    pub(super) html: Option<Text>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Text {
    pub(super) data: String,
}

/// The name and value of a header or an e-mail tag.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Tag {
    pub(super) name: String,
    pub(super) value: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct WireAttachment<'a> {
    #[serde(borrow, default)]
    pub(super) raw_content: Cow<'a, str>,
    #[serde(default)]
    pub(super) file_name: String,
    pub(super) content_type: Option<String>,
    pub(super) content_disposition: Option<String>,
    pub(super) content_id: Option<String>,
    pub(super) content_description: Option<String>,
    pub(super) content_transfer_encoding: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Raw<'a> {
    #[serde(borrow, default)]
    pub(super) data: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Template {
    pub(super) template_name: Option<String>,
}

impl<'a> SendEmail<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, SesError> {
        // The parser's text names the place, never the content.
        serde_json::from_slice(body).map_err(|error| SesError::serialization(&error))
    }
}
