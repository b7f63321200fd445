//! The data of a purchase order, as an event carries it. Unknown fields are ignored; `null` means missing.

use serde::Deserialize;

use crate::currency::Currency;
use crate::date::Date;
use crate::decimal::Decimal;
use crate::error::RenderError;
use crate::text::{Code, Paragraph, Text, optional};

/// More lines than any order has, and few enough that a render stays a matter of seconds.
pub(crate) const MAX_LINES: usize = 2_000;

const MAX_ADDRESS_LINES: usize = 8;

#[derive(Debug, Deserialize)]
pub(crate) struct PurchaseOrder {
    pub(crate) order_number: Code<60>,
    pub(crate) order_date: Date,
    pub(crate) requested_delivery_date: Option<Date>,
    /// Who orders; the letterhead.
    pub(crate) buyer: Party,
    /// Who is to deliver; the addressee.
    pub(crate) supplier: Party,
    /// Where the goods go; the buyer's address if missing.
    pub(crate) ship_to: Option<Party>,
    pub(crate) currency: Currency,
    pub(crate) lines: Vec<Line>,
    /// Checked against the lines when given.
    pub(crate) subtotal: Option<Decimal>,
    /// In percent: 20 or "7.7".
    pub(crate) tax_rate: Option<Decimal>,
    /// What the tax is called; `VAT` if missing.
    #[serde(default, deserialize_with = "optional")]
    pub(crate) tax_name: Option<Text<30>>,
    /// The amount of tax. Needed without a rate; beside one, it may differ by what rounding per line makes out.
    pub(crate) tax: Option<Decimal>,
    /// Checked against the lines and the tax when given.
    pub(crate) total: Option<Decimal>,
    #[serde(default, deserialize_with = "optional")]
    pub(crate) payment_terms: Option<Paragraph<500>>,
    #[serde(default, deserialize_with = "optional")]
    pub(crate) delivery_terms: Option<Paragraph<500>>,
    #[serde(default, deserialize_with = "optional")]
    pub(crate) notes: Option<Paragraph<4000>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Party {
    pub(crate) name: Text<100>,
    /// Street, postcode and town, country: one entry per printed line.
    pub(crate) address: Vec<Text<120>>,
    pub(crate) vat_id: Option<Code<20>>,
    pub(crate) contact: Option<Contact>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Contact {
    #[serde(default, deserialize_with = "optional")]
    pub(crate) name: Option<Text<120>>,
    #[serde(default, deserialize_with = "optional")]
    pub(crate) email: Option<Text<254>>,
    #[serde(default, deserialize_with = "optional")]
    pub(crate) phone: Option<Text<40>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Line {
    /// What the order calls the line; counted from 1 if missing.
    pub(crate) position: Option<Code<10>>,
    pub(crate) sku: Option<Code<60>>,
    pub(crate) description: Paragraph<4000>,
    pub(crate) quantity: Decimal,
    #[serde(default, deserialize_with = "optional")]
    pub(crate) unit: Option<Text<12>>,
    /// Per unit, in the order's currency; may have more digits than the currency, and may be negative (a discount).
    pub(crate) unit_price: Decimal,
}

impl PurchaseOrder {
    /// The rules that the types alone do not hold.
    pub(crate) fn check(&self) -> Result<(), RenderError> {
        match self.lines.len() {
            0 => return Err(RenderError::bad_data("/lines", "an order needs at least one line")),
            count if count > MAX_LINES => {
                return Err(RenderError::bad_data("/lines", format!("has more than {MAX_LINES} lines")));
            }
            _ => {}
        }
        for (index, line) in self.lines.iter().enumerate() {
            if !line.quantity.is_positive() {
                return Err(RenderError::bad_data(format!("/lines/{index}/quantity"), "is not above zero"));
            }
        }
        if self.tax_rate.is_some_and(Decimal::is_negative) {
            return Err(RenderError::bad_data("/tax_rate", "is below zero"));
        }
        if self.requested_delivery_date.is_some_and(|day| day < self.order_date) {
            return Err(RenderError::bad_data("/requested_delivery_date", "is before the order date"));
        }
        self.buyer.check("/buyer")?;
        self.supplier.check("/supplier")?;
        self.ship_to.as_ref().map_or(Ok(()), |party| party.check("/ship_to"))
    }
}

impl Party {
    fn check(&self, pointer: &str) -> Result<(), RenderError> {
        if self.address.len() > MAX_ADDRESS_LINES {
            let problem = format!("has more than {MAX_ADDRESS_LINES} lines");
            return Err(RenderError::bad_data(format!("{pointer}/address"), problem));
        }
        Ok(())
    }
}
