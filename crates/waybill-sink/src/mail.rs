//! What an accepted mail looks like, whichever provider took it.

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A provider that this sink can play.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    Ses,
    SendGrid,
    Resend,
    Postmark,
    Smtp,
}

impl Provider {
    pub const ALL: [Provider; 5] =
        [Provider::Ses, Provider::SendGrid, Provider::Resend, Provider::Postmark, Provider::Smtp];

    /// The name used in JSON and in fault scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Provider::Ses => "ses",
            Provider::SendGrid => "sendgrid",
            Provider::Resend => "resend",
            Provider::Postmark => "postmark",
            Provider::Smtp => "smtp",
        }
    }

    /// The name for people.
    pub fn label(self) -> &'static str {
        match self {
            Provider::Ses => "Amazon SES",
            Provider::SendGrid => "SendGrid",
            Provider::Resend => "Resend",
            Provider::Postmark => "Postmark",
            Provider::Smtp => "SMTP",
        }
    }

    pub(crate) fn index(self) -> usize {
        match self {
            Provider::Ses => 0,
            Provider::SendGrid => 1,
            Provider::Resend => 2,
            Provider::Postmark => 3,
            Provider::Smtp => 4,
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Provider {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Provider::ALL.into_iter().find(|provider| provider.as_str() == name).ok_or(())
    }
}

/// One header of a mail, in the order and spelling it was sent with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Header {
    pub name: String,
    pub value: String,
}

/// One attachment. Equal contents share one allocation in the mailbox.
#[derive(Debug, Clone)]
pub struct Attachment {
    pub filename: String,
    pub content_type: String,
    pub content: Bytes,
    pub sha256: [u8; 32],
}

impl Attachment {
    /// `content_type` empty: guessed from the file name, as the providers do.
    pub(crate) fn new(filename: String, content_type: &str, content: Vec<u8>) -> Self {
        let content_type =
            if content_type.is_empty() { guess_type(&filename).to_owned() } else { content_type.to_owned() };
        let sha256 = Sha256::digest(&content).into();
        Attachment { filename, content_type, content: Bytes::from(content), sha256 }
    }
}

fn guess_type(filename: &str) -> &'static str {
    let extension = filename.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    match extension.as_deref() {
        Some("pdf") => "application/pdf",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("csv") => "text/csv",
        Some("txt") => "text/plain",
        Some("xml") => "application/xml",
        Some("json") => "application/json",
        Some(_) | None => "application/octet-stream",
    }
}

/// One mail that a provider took.
#[derive(Debug, Clone)]
pub struct Mail {
    /// Id in the mailbox; a UUIDv7, so ids sort by arrival.
    pub id: String,
    pub provider: Provider,
    /// What the provider answered, or would have answered had a fault not swallowed it.
    pub message_id: String,
    /// The recipient's address; several are joined with `, `.
    pub to: String,
    /// Every recipient, `To` first, then `Cc` and `Bcc`.
    pub recipients: Vec<String>,
    pub from: String,
    pub subject: String,
    pub text: Option<String>,
    pub html: Option<String>,
    pub headers: Vec<Header>,
    /// SES email tags, SendGrid custom arguments, Resend tags, Postmark metadata, our own header in SMTP.
    pub tags: BTreeMap<String, String>,
    pub attachments: Vec<Attachment>,
    /// Lists that only matter for the provider's events, such as SendGrid's categories.
    pub(crate) labels: Vec<String>,
    pub received_at: DateTime<Utc>,
}

impl Mail {
    /// The `delivery_id` tag.
    pub fn delivery_id(&self) -> Option<&str> {
        self.tags.get("delivery_id").map(String::as_str)
    }

    /// The `job_id` tag.
    pub fn job_id(&self) -> Option<&str> {
        self.tags.get("job_id").map(String::as_str)
    }

    /// The `identity` tag.
    pub fn identity(&self) -> Option<&str> {
        self.tags.get("identity").map(String::as_str)
    }
}

/// A checked mail that has not been accepted yet.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) recipients: Vec<String>,
    pub(crate) from: String,
    pub(crate) subject: String,
    pub(crate) text: Option<String>,
    pub(crate) html: Option<String>,
    pub(crate) headers: Vec<Header>,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) labels: Vec<String>,
    pub(crate) attachments: Vec<Attachment>,
}

impl Draft {
    pub(crate) fn into_mail(self, provider: Provider, message_id: String, received_at: DateTime<Utc>) -> Arc<Mail> {
        Arc::new(Mail {
            id: uuid::Uuid::now_v7().simple().to_string(),
            provider,
            message_id,
            to: self.recipients.join(", "),
            recipients: self.recipients,
            from: self.from,
            subject: self.subject,
            text: self.text,
            html: self.html,
            headers: self.headers,
            tags: self.tags,
            attachments: self.attachments,
            labels: self.labels,
            received_at,
        })
    }
}
