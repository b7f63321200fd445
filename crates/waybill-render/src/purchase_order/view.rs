//! What the template sets: finished strings. The template decides where and how, never what.

use serde::Serialize;

use super::amounts::Amounts;
use super::data::{Line, Party, PurchaseOrder};
use crate::date::Date;
use crate::decimal::Decimal;
use crate::text::breakable;

#[derive(Debug, Serialize)]
pub(crate) struct View {
    number: String,
    /// For the file's metadata.
    date: Date,
    order_date: String,
    requested_delivery_date: Option<String>,
    buyer: PartyView,
    supplier: PartyView,
    ship_to: PartyView,
    currency: &'static str,
    /// Numbers so long that the table needs a smaller size.
    compact: bool,
    lines: Vec<LineView>,
    subtotal: String,
    tax_label: String,
    tax: Option<String>,
    total: String,
    payment_terms: Option<String>,
    delivery_terms: Option<String>,
    notes: Option<String>,
}

#[derive(Debug, Serialize)]
struct PartyView {
    name: String,
    address: Vec<String>,
    vat_id: Option<String>,
    contact: Vec<String>,
}

#[derive(Debug, Serialize)]
struct LineView {
    position: String,
    sku: String,
    description: String,
    quantity: Aligned,
    unit: String,
    unit_price: Aligned,
    total: String,
    /// A very long line may be split between pages; others stay whole.
    splittable: bool,
}

/// A number that stands under others of different length: `hidden` is what it lacks of the longest fraction.
#[derive(Debug, Serialize)]
struct Aligned {
    shown: String,
    hidden: String,
}

/// Above this many characters (a third of a page), a description may be split between pages.
const LONGEST_WHOLE: usize = 900;

/// How many characters the three number columns may take at the normal size.
const WIDEST_NORMAL: usize = 42;

impl View {
    pub(crate) fn of(order: &PurchaseOrder, amounts: &Amounts) -> Self {
        let minor = order.currency.minor();
        let text = |given: &str| breakable(given);
        let lines = lines(order, amounts);
        Self {
            number: text(&order.order_number),
            date: order.order_date,
            order_date: order.order_date.format(),
            requested_delivery_date: order.requested_delivery_date.map(Date::format),
            buyer: PartyView::of(&order.buyer),
            supplier: PartyView::of(&order.supplier),
            ship_to: PartyView::of(order.ship_to.as_ref().unwrap_or(&order.buyer)),
            currency: order.currency.code(),
            compact: numbers_width(&lines) > WIDEST_NORMAL,
            lines,
            subtotal: amounts.subtotal.format(minor),
            tax_label: tax_label(order),
            tax: amounts.tax.map(|tax| tax.format(minor)),
            total: amounts.total.format(minor),
            payment_terms: order.payment_terms.as_deref().map(text),
            delivery_terms: order.delivery_terms.as_deref().map(text),
            notes: order.notes.as_deref().map(text),
        }
    }
}

fn tax_label(order: &PurchaseOrder) -> String {
    let name = order.tax_name.as_deref().unwrap_or("VAT");
    order.tax_rate.map_or_else(|| name.to_owned(), |rate| format!("{name} {}\u{202F}%", rate.format(0)))
}

impl PartyView {
    fn of(party: &Party) -> Self {
        let contact = party.contact.as_ref();
        let contact = contact.map(|contact| [contact.name.as_deref(), contact.email.as_deref(), contact.phone.as_deref()]);
        Self {
            name: breakable(&party.name),
            address: party.address.iter().map(|line| breakable(line)).collect(),
            vat_id: party.vat_id.as_deref().map(breakable),
            contact: contact.into_iter().flatten().flatten().map(str::to_owned).collect(),
        }
    }
}

fn lines(order: &PurchaseOrder, amounts: &Amounts) -> Vec<LineView> {
    let minor = order.currency.minor();
    let quantity_places = order.lines.iter().map(|line| line.quantity.scale()).max().unwrap_or(0);
    let price_places = order.lines.iter().map(|line| line.unit_price.scale()).max().unwrap_or(0).max(minor);
    let view = |(index, (line, total)): (usize, (&Line, &crate::decimal::Minor))| LineView {
        position: line.position.as_deref().map_or_else(|| (index + 1).to_string(), breakable),
        sku: line.sku.as_deref().map(breakable).unwrap_or_default(),
        description: breakable(&line.description),
        quantity: Aligned::of(line.quantity, 0, quantity_places),
        unit: line.unit.as_deref().map(breakable).unwrap_or_default(),
        unit_price: Aligned::of(line.unit_price, minor, price_places),
        total: total.format(minor),
        splittable: line.description.chars().count() > LONGEST_WHOLE,
    };
    order.lines.iter().zip(&amounts.lines).enumerate().map(view).collect()
}

/// How many characters the three number columns take together.
fn numbers_width(lines: &[LineView]) -> usize {
    let widest = |width: fn(&LineView) -> usize| lines.iter().map(width).max().unwrap_or(0);
    widest(|line| line.quantity.width())
        + widest(|line| line.unit_price.width())
        + widest(|line| line.total.chars().count())
}

impl Aligned {
    fn width(&self) -> usize {
        self.shown.chars().count() + self.hidden.chars().count()
    }

    fn of(number: Decimal, least_places: u32, column_places: u32) -> Self {
        let shown = number.format(least_places);
        let full = number.format(column_places);
        let hidden = full.strip_prefix(&shown).unwrap_or_default().to_owned();
        Self { shown, hidden }
    }
}
