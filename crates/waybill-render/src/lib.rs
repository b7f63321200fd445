//! The document types and their typesetting.
//!
//! [`render`] takes a document type's name and an event's `data` as JSON text, and gives back a PDF. The data is
//! checked and every amount is computed *before* typesetting, so that a wrong field is answered with its JSON Pointer
//! and not with a half-set page.
//!
//! What it refuses: unknown types, data with missing or wrong fields, totals that do not add up. It reads no file, asks
//! no network and knows no clock: the typesetter sees the embedded template, the data and the embedded fonts only.
//!
//! Invariants:
//! - The same input gives the same bytes. The only date in a PDF is the document's own.
//! - Text from the data is never markup: it reaches the template as strings of a JSON file, never as source.
//! - No amount goes through a binary float: numbers are read from their JSON text and computed as whole minor units.
//! - An idle process keeps no typesetting results (see `engine.rs` on the cache) and parses fonts on first use.
//!
//! To add a document type: a template in `templates/`, a module that turns the data's JSON into the template's view
//! (see `purchase_order/`), one line in `registry.rs`, and a golden test. A change that alters a finished page needs a
//! higher `template_version`, because the version is part of a document's identity.
//!
//! Glyphs: Libertinus Serif covers Latin, Greek, Cyrillic and Hebrew; DejaVu Sans Mono fills in Arabic letters and
//! many symbols. Chinese, Japanese, Korean, Thai, the Indic scripts and emoji are *not* covered: their characters come
//! out as empty boxes, though copying the text from the PDF still gives the right characters.

mod currency;
mod date;
mod decimal;
mod engine;
mod error;
mod fonts;
mod pointer;
mod purchase_order;
mod registry;
#[cfg(test)]
mod testing;
mod text;
mod world;

pub use error::RenderError;

/// A finished document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedPdf {
    /// The PDF file; starts with `%PDF-`.
    pub bytes: Vec<u8>,
    /// How many pages it has; at least 1.
    pub pages: usize,
}

/// The names of all document types, as a route spells them.
pub fn document_types() -> &'static [&'static str] {
    registry::NAMES
}

/// The version of a type's template, a part of the document's identity: a higher version is a new document, even for
/// the same data. `None` if there is no such type.
pub fn template_version(document_type: &str) -> Option<i32> {
    registry::find(document_type).map(|found| found.template_version)
}

/// Typesets one document. `data` is the event's `data` as JSON text (text, so that no number is rounded on its way).
///
/// Blocking and CPU heavy (milliseconds per page): call it from a thread that may block. May be called from several
/// threads at once.
///
/// # Errors
///
/// [`RenderError::UnknownType`] and [`RenderError::BadData`] are permanent; see [`RenderError::is_permanent`].
pub fn render(document_type: &str, data: &str) -> Result<RenderedPdf, RenderError> {
    let found = registry::find(document_type)
        .ok_or_else(|| RenderError::UnknownType { document_type: document_type.to_owned() })?;
    let view = (found.prepare)(data)?;
    engine::typeset(found.template, view)
}
