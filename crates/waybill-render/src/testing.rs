//! What the tests look at: the placed text of a laid-out document, page by page. No PDF reader is needed for that.

use serde_json::{Value, json};
use typst::layout::{Frame, FrameItem, Point};
use typst_layout::PagedDocument;

use crate::error::RenderError;
use crate::{engine, registry};

/// One run of text with the place of its left end and its width, in points from the page's top left corner.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) text: String,
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
}

pub(crate) type Pages = Vec<Vec<Run>>;

/// Lays out a document of the type, without exporting it.
pub(crate) fn lay_out(document_type: &str, data: &Value) -> Result<Pages, RenderError> {
    let found = registry::find(document_type).expect("a known type");
    let view = (found.prepare)(&data.to_string())?;
    engine::lay_out(found.template, view).map(|document| runs(&document))
}

pub(crate) fn runs(document: &PagedDocument) -> Pages {
    let page = |page: &typst_layout::Page| {
        let mut found = Vec::new();
        collect(&page.frame, Point::zero(), &mut found);
        found
    };
    document.pages().iter().map(page).collect()
}

fn collect(frame: &Frame, origin: Point, found: &mut Vec<Run>) {
    for (offset, item) in frame.items() {
        let place = origin + *offset;
        match item {
            FrameItem::Group(group) => {
                let moved = place + Point::new(group.transform.tx, group.transform.ty);
                collect(&group.frame, moved, found);
            }
            FrameItem::Text(text) => found.push(Run {
                text: text.text.to_string(),
                x: place.x.to_pt(),
                y: place.y.to_pt(),
                width: text.width().to_pt(),
            }),
            FrameItem::Shape(..) | FrameItem::Image(..) | FrameItem::Link(..) | FrameItem::Tag(_) => {}
        }
    }
}

/// The text of a page without any white space, so that line breaks make no difference.
pub(crate) fn squeezed(page: &[Run]) -> String {
    page.iter().flat_map(|run| run.text.chars()).filter(|c| !c.is_whitespace()).collect()
}

/// Whether a run of exactly this text is on the page.
pub(crate) fn has(page: &[Run], text: &str) -> bool {
    page.iter().any(|run| run.text == text)
}

/// The example event of the repository, its `data` only.
pub(crate) fn example() -> Value {
    let event: Value = serde_json::from_str(include_str!("../../../examples/purchase-order.json")).unwrap();
    event["data"].clone()
}

/// The smallest purchase order there is.
pub(crate) fn smallest() -> Value {
    json!({
        "order_number": "PO-1", "order_date": "2026-11-30", "currency": "EUR",
        "buyer": {"name": "Buyer", "address": []},
        "supplier": {"name": "Supplier", "address": []},
        "lines": [{"description": "Thing", "quantity": 1, "unit_price": "2.50"}],
    })
}
