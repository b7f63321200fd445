//! What the renderer's Lambda does with one order: read it, typeset, store, answer.
//!
//! It never fails as a function: every fault, a panic of the typesetter too, is an answer of the contract
//! ([`waybill_core::ports::renderer_contract`]), so that the caller can tell "never" from "not now". What is left as a function error is
//! what nobody can answer for: no time, no memory.
//!
//! - A document that stands at the key is the result, whoever rendered it; it is looked for first, so a repeated order costs a read.
//! - Writes are conditional: of two renders at once one document stays, and both answer with that one.
//! - Nothing of a document's data is logged or answered, except JSON Pointers to what is wrong in it.
//!
//! To extend the contract: [`waybill_core::ports::renderer_contract`] says how versions get along.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use waybill_core::ports::{
    ObjectStore, PutOutcome, RenderFailure,
    renderer_contract::{RenderAnswer, RenderOrder},
};
use waybill_render::{RenderError, RenderedPdf};

/// The document types this function can set.
#[derive(Clone, Copy)]
struct Typesetter {
    template_version: fn(&str) -> Option<i32>,
    render: fn(&str, &str) -> Result<RenderedPdf, RenderError>,
}

const TYPESETTER: Typesetter =
    Typesetter { template_version: waybill_render::template_version, render: waybill_render::render };

/// Carries out one order, given as JSON text.
pub async fn handle(order: &str, objects: &dyn ObjectStore) -> RenderAnswer {
    handle_with(TYPESETTER, order, objects).await
}

async fn handle_with(typesetter: Typesetter, order: &str, objects: &dyn ObjectStore) -> RenderAnswer {
    let result = match RenderOrder::parse(order) {
        Ok(order) => carry_out(typesetter, order, objects).await,
        Err(failure) => Err(failure),
    };
    let answer = result.unwrap_or_else(RenderAnswer::from);
    match &answer {
        RenderAnswer::Rendered { size, .. } => tracing::info!(octets = size, "renderer.rendered"),
        RenderAnswer::Failed { kind, detail } => tracing::warn!(?kind, detail, "renderer.failed"),
    }
    answer
}

async fn carry_out(
    typesetter: Typesetter,
    order: RenderOrder,
    objects: &dyn ObjectStore,
) -> Result<RenderAnswer, RenderFailure> {
    let (key, version) = (order.object_key.clone(), order.template_version);
    check_version(typesetter, &order)?;
    // Errors don't count here: without the right to list, S3 says 403 for "not there". Writing will tell.
    if let Ok(Some(bytes)) = objects.get(&key).await {
        return answer(&bytes, version);
    }
    let bytes = typeset(typesetter, order).await?;
    match objects
        .put_if_absent(&key, bytes.clone(), "application/pdf")
        .await
        .map_err(|e| RenderFailure::of_objects(&e))?
    {
        PutOutcome::Created => answer(&bytes, version),
        PutOutcome::Existed => {
            let found = objects.get(&key).await.map_err(|e| RenderFailure::of_objects(&e))?;
            answer(&found.ok_or_else(|| RenderFailure::Temporary("the object vanished".into()))?, version)
        }
    }
}

/// A document of another template version would stand under a key that says something else.
fn check_version(typesetter: Typesetter, order: &RenderOrder) -> Result<(), RenderFailure> {
    let (document_type, wanted) = (&order.document_type, order.template_version);
    match (typesetter.template_version)(document_type) {
        Some(ours) if ours == wanted => Ok(()),
        Some(ours) => Err(RenderFailure::Temporary(format!(
            "the order wants version {wanted} of the template `{document_type}` and this renderer has {ours}"
        ))),
        // The caller knows it, or it had not asked: this function is older.
        None => Err(RenderFailure::Temporary(format!(
            "the order wants version {wanted} of the template `{document_type}` and this renderer has none"
        ))),
    }
}

async fn typeset(typesetter: Typesetter, order: RenderOrder) -> Result<Bytes, RenderFailure> {
    let rendered = tokio::task::spawn_blocking(move || (typesetter.render)(&order.document_type, &order.data)).await;
    match rendered {
        Ok(Ok(pdf)) => Ok(Bytes::from(pdf.bytes)),
        Ok(Err(error)) if error.is_permanent() => Err(RenderFailure::Permanent(error.to_string())),
        Ok(Err(error)) => Err(RenderFailure::Temporary(error.to_string())),
        Err(_) => Err(RenderFailure::Temporary("the typesetter panicked".into())),
    }
}

fn answer(pdf: &[u8], template_version: i32) -> Result<RenderAnswer, RenderFailure> {
    if !pdf.starts_with(b"%PDF-") {
        return Err(RenderFailure::Temporary(format!("the object at the key ({} octets) is not a PDF", pdf.len())));
    }
    let sha256 = hex::encode(Sha256::digest(pdf));
    Ok(RenderAnswer::Rendered { size: pdf.len() as u64, sha256, template_version })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
