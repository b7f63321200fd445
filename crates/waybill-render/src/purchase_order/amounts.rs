//! The amounts of a purchase order, computed exactly.
//!
//! Each line is rounded to the currency's minor unit (half away from zero) and the rounded lines are added, so that the
//! column adds up on paper. The tax is computed on the sum.

use super::data::PurchaseOrder;
use crate::decimal::{Decimal, Minor};
use crate::error::RenderError;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Amounts {
    /// In the order of the lines.
    pub(crate) lines: Vec<Minor>,
    pub(crate) subtotal: Minor,
    pub(crate) tax: Option<Minor>,
    pub(crate) total: Minor,
}

impl Amounts {
    pub(crate) fn of(order: &PurchaseOrder) -> Result<Self, RenderError> {
        let minor = order.currency.minor();
        let lines = line_totals(order, minor)?;
        let mut subtotal = Minor(0);
        for (index, line) in lines.iter().enumerate() {
            subtotal = subtotal.plus(*line).ok_or_else(|| too_large(format!("/lines/{index}")))?;
        }
        check_given(order.subtotal, subtotal, minor, "/subtotal", "the lines")?;
        let tax = tax(order, subtotal, minor)?;
        let total = subtotal.plus(tax.unwrap_or(Minor(0))).ok_or_else(|| too_large("/total"))?;
        check_given(order.total, total, minor, "/total", "the lines and the tax")?;
        Ok(Self { lines, subtotal, tax, total })
    }
}

fn line_totals(order: &PurchaseOrder, minor: u32) -> Result<Vec<Minor>, RenderError> {
    let total = |(index, line): (usize, &super::data::Line)| {
        let exact = line.quantity.times(line.unit_price);
        exact.and_then(|exact| exact.to_minor(minor)).ok_or_else(|| too_large(format!("/lines/{index}")))
    };
    order.lines.iter().enumerate().map(total).collect()
}

/// The tax that is given, if it is plausible, else the one that the rate makes.
fn tax(order: &PurchaseOrder, subtotal: Minor, minor: u32) -> Result<Option<Minor>, RenderError> {
    let exact = order.tax_rate.map(|rate| subtotal.decimal(minor).times(rate.percent()));
    let computed = match exact {
        Some(exact) => Some(exact.and_then(|exact| exact.to_minor(minor)).ok_or_else(|| too_large("/tax_rate"))?),
        None => None,
    };
    let Some(given) = order.tax else { return Ok(computed) };
    let given = whole_minor(given, minor, "/tax")?;
    // Who rounds the tax of each line gets another sum: by less than a minor unit per line.
    let tolerance = i128::try_from(order.lines.len()).unwrap_or(i128::MAX);
    match computed {
        Some(computed) if given.0.abs_diff(computed.0) > tolerance.unsigned_abs() => {
            Err(RenderError::bad_data("/tax", "is not what the tax rate makes of the lines"))
        }
        Some(_) | None => Ok(Some(given)),
    }
}

fn check_given(
    given: Option<Decimal>,
    computed: Minor,
    minor: u32,
    pointer: &str,
    what: &str,
) -> Result<(), RenderError> {
    match given {
        Some(given) if whole_minor(given, minor, pointer)? != computed => {
            Err(RenderError::bad_data(pointer, format!("is not what {what} add up to")))
        }
        Some(_) | None => Ok(()),
    }
}

fn whole_minor(given: Decimal, minor: u32, pointer: &str) -> Result<Minor, RenderError> {
    given
        .to_minor_exactly(minor)
        .ok_or_else(|| RenderError::bad_data(pointer, "has more digits after the point than the currency"))
}

fn too_large(pointer: impl Into<String>) -> RenderError {
    RenderError::bad_data(pointer, "is too large to compute exactly")
}
