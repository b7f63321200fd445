//! The purchase order: data, amounts, and the view that its template sets.
//!
//! The data (see `data.rs` for every field):
//!
//! ```json
//! {"order_number": "PO-4711", "order_date": "2026-11-30", "currency": "EUR",
//!  "buyer": {"name": "...", "address": ["..."]}, "supplier": {"name": "...", "address": ["..."]},
//!  "lines": [{"description": "...", "quantity": 2, "unit": "pcs", "unit_price": "19.90"}], "tax_rate": 20}
//! ```
//!
//! Line totals are computed, never taken over. A subtotal or total in the data is a check: if it is not what the lines
//! add up to, the document is refused, because one of the two would be a lie on paper.

mod amounts;
mod data;
mod view;

use crate::error::RenderError;
use crate::pointer;

/// Checks the data and gives the view as JSON text.
pub(crate) fn prepare(data: &str) -> Result<String, RenderError> {
    let order: data::PurchaseOrder = pointer::parse(data)?;
    order.check()?;
    let amounts = amounts::Amounts::of(&order)?;
    let view = view::View::of(&order, &amounts);
    serde_json::to_string(&view).map_err(|error| RenderError::Typesetting { message: error.to_string() })
}

#[cfg(test)]
mod tests;
