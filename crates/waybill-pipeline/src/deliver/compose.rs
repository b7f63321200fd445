//! The mail of one delivery.

use super::{Deliverer, Granted};
use bytes::Bytes;
use std::sync::Arc;
use waybill_core::{
    address::EmailAddress,
    json,
    mail::{Attachment, Filling, OutgoingMail, document_filename, fill, to_html},
    outcome::Outcome,
    ports::ObjectError,
};
use waybill_store::{Content, LoadedDelivery, LoadedDocument};

/// Why there is no mail; turned into an outcome of the pass before any provider is called.
#[derive(Debug)]
pub(super) enum NoMail {
    /// Its document can't be read now; trying again later may help.
    Later(String),
    /// The row itself is bad.
    Never(String),
}

impl From<NoMail> for Outcome {
    fn from(no: NoMail) -> Self {
        match no {
            NoMail::Later(detail) => Outcome::Unavailable { detail },
            NoMail::Never(detail) => Outcome::RejectedMessage { detail },
        }
    }
}

impl Deliverer {
    pub(super) async fn compose(
        &self,
        delivery: &LoadedDelivery,
        content: &Arc<Content>,
        granted: &Granted,
    ) -> Result<OutgoingMail, NoMail> {
        let attachments = match &delivery.document {
            None => Vec::new(),
            Some(document) => vec![self.attachment(document, content, delivery).await?],
        };
        let never = |what: &str, e: &dyn std::fmt::Display| NoMail::Never(format!("{what}: {e}"));
        let data = json::parse(content.data.as_bytes()).map_err(|e| never("stored data", &e))?;
        let to = EmailAddress::parse(&delivery.recipient).map_err(|e| never("stored address", &e))?;
        let template = &content.spec.mail;
        let subject = content.subject.clone().unwrap_or_default();
        let with =
            Filling { event_type: &content.event_type, subject: &subject, name: &delivery.recipient_name, data: &data };
        let text = fill(&template.text, with, false);
        Ok(OutgoingMail {
            tenant: delivery.tenant,
            job: delivery.job,
            delivery: delivery.id,
            attempt: granted.attempt,
            from: template.from.clone(),
            from_name: template.from_name.clone(),
            to: to.sendable().map_err(|e| never("stored address", &e))?,
            to_name: delivery.recipient_name.clone(),
            subject: fill(&template.subject, with, true),
            html: to_html(&text),
            text,
            attachments,
        })
    }

    async fn attachment(
        &self,
        document: &LoadedDocument,
        content: &Content,
        delivery: &LoadedDelivery,
    ) -> Result<Attachment, NoMail> {
        let job = delivery.job.to_string();
        let filename = document_filename(&document.document_type, content.subject.as_deref().unwrap_or(&job));
        let bytes = self.document_bytes(document).await?;
        Ok(Attachment { filename, content_type: "application/pdf", bytes })
    }

    async fn document_bytes(&self, document: &LoadedDocument) -> Result<Bytes, NoMail> {
        let key = document.object_key.as_str();
        if let Some(bytes) = self.recent_documents.get(&key.to_owned()) {
            return Ok(bytes);
        }
        match self.context.objects.get(key).await {
            Ok(Some(bytes)) => {
                self.recent_documents.put(key.to_owned(), bytes.clone(), bytes.len());
                Ok(bytes)
            }
            Ok(None) => {
                self.render_again(document).await;
                Err(NoMail::Later(
                    "the document's row says READY and its object is not there; it is rendered again".into(),
                ))
            }
            Err(error @ (ObjectError::Unavailable(_) | ObjectError::Denied(_) | ObjectError::BadKey(_))) => {
                Err(NoMail::Later(format!("the document could not be read: {error}")))
            }
        }
    }

    /// Without this a document whose object was deleted could never be sent again, whatever a person tries.
    async fn render_again(&self, document: &LoadedDocument) {
        let deadline = self.context.settings.timings.document.deadline;
        match self.context.store.render_again(document.id, deadline).await {
            Ok(true) => {
                tracing::warn!(document = %document.id, "deliver.document_gone");
                self.context.documents_bell.notify_waiters();
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(document = %document.id, error = &error as &dyn std::error::Error, "deliver.render_again_failed");
            }
        }
    }
}
