//! Mails for this crate's own tests.

use bytes::Bytes;
use uuid::Uuid;
use waybill_core::{
    ids::{AttemptId, DeliveryId, JobId, TenantId},
    mail::{Attachment, OutgoingMail},
};

pub(crate) fn mail() -> OutgoingMail {
    OutgoingMail {
        tenant: TenantId(Uuid::from_u128(1)),
        job: JobId(Uuid::from_u128(2)),
        delivery: DeliveryId(Uuid::from_u128(3)),
        attempt: AttemptId(Uuid::from_u128(4)),
        from: "no-reply@acme.example".into(),
        from_name: "Acme, Inc.".into(),
        to: "ada@example.com".into(),
        to_name: "Ada Lovelace".into(),
        subject: "Invoice 17".into(),
        text: "See the attachment.".into(),
        html: "<p>See the attachment.</p>".into(),
        attachments: Vec::new(),
    }
}

pub(crate) fn mail_with_attachment(octets: usize) -> OutgoingMail {
    let attachment = Attachment {
        filename: "invoice-17.pdf".into(),
        content_type: "application/pdf",
        bytes: Bytes::from(vec![0x25; octets]),
    };
    OutgoingMail { attachments: vec![attachment], ..mail() }
}
