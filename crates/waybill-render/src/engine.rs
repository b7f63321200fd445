//! Runs the typesetter and keeps its memory small.
//!
//! Typst memoizes the steps of its layout in process-wide caches (the `comemo` crate) that grow with every render and
//! are never emptied by themselves. Two documents share almost nothing, so a cache that outlives its render is only a
//! leak. Therefore each render ends with an eviction: the last one that runs clears everything; one that ends beside
//! others only drops what nobody used for a few renders, so that it does not take away what its neighbours still use.
//! (Losing an entry early costs time and never changes a page.) What stays are empty tables and the pages that the
//! allocator keeps: some megabytes after usual documents, some tens after one of many pages, and no more each time.

use std::sync::atomic::{AtomicUsize, Ordering};

use typst::diag::SourceDiagnostic;
use typst::foundations::Smart;
use typst_layout::PagedDocument;
use typst_pdf::PdfOptions;

use crate::RenderedPdf;
use crate::error::RenderError;
use crate::world::TemplateWorld;

/// How many renders an unused cache entry survives while other renders are running.
const KEPT_RENDERS: usize = 4;

static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Counts a render as running, and evicts when it ends (by a panic, too).
struct RunningRender;

impl RunningRender {
    fn begin() -> Self {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for RunningRender {
    fn drop(&mut self) {
        let others = RUNNING.fetch_sub(1, Ordering::SeqCst) - 1;
        typst::comemo::evict(if others == 0 { 0 } else { KEPT_RENDERS });
    }
}

/// Sets a template with its view (the JSON that it reads) and exports the PDF.
pub(crate) fn typeset(template: &str, view: String) -> Result<RenderedPdf, RenderError> {
    let _running = RunningRender::begin();
    let document = lay_out(template, view)?;
    // No time stamp: the template sets the document's date from the data, and nothing else may vary.
    let options = PdfOptions { creator: Smart::Custom(Some("Waybill".to_owned())), ..PdfOptions::default() };
    let bytes = typst_pdf::pdf(&document, &options).map_err(|errors| first_message(&errors))?;
    Ok(RenderedPdf { bytes, pages: document.pages().len() })
}

/// The layout alone: pages of placed text, before they become a file.
pub(crate) fn lay_out(template: &str, view: String) -> Result<PagedDocument, RenderError> {
    let world = TemplateWorld::new(template, view)?;
    typst::compile::<PagedDocument>(&world).output.map_err(|errors| first_message(&errors))
}

fn first_message(errors: &[SourceDiagnostic]) -> RenderError {
    let message = errors.first().map_or_else(|| "no reason given".to_owned(), |first| first.message.to_string());
    RenderError::Typesetting { message }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
