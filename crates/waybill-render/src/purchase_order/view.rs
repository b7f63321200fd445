//! What the template sets: finished strings. The template decides where and how, never what.

use serde::Serialize;

use super::amounts::Amounts;
use super::data::{Line, Party, PurchaseOrder};
use crate::date::Date;
use crate::decimal::Decimal;
use crate::text::breakable;

#[derive(Debug, Serialize)]
pub(crate) struct View {
    title: String,
    author: String,
    number: String,
    /// For the file's metadata.
    date: Date,
    order_date: String,
    requested_delivery_date: Option<String>,
    buyer: PartyView,
    supplier: PartyView,
    ship_to: PartyView,
    currency: &'static str,
    /// How many characters the narrow columns take together; the table's size depends on it.
    narrow_width: usize,
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

/// Above this (a third of a page), a description may be split between pages.
const LONGEST_WHOLE_CHARS: usize = 900;
const LONGEST_WHOLE_LINES: usize = 20;

/// The longest runs that fit into a line, a column, and a cell of the table: about, for letters of middling width.
const LINE_RUN: usize = 40;
const COLUMN_RUN: usize = 26;
const CELL_RUN: usize = 14;

impl View {
    pub(crate) fn of(order: &PurchaseOrder, amounts: &Amounts) -> Self {
        let minor = order.currency.minor();
        let column = |given: &str| breakable(given, COLUMN_RUN);
        let lines = lines(order, amounts);
        Self {
            title: format!("Purchase order {}", &*order.order_number),
            author: order.buyer.name.to_string(),
            number: column(&order.order_number),
            date: order.order_date,
            order_date: order.order_date.format(),
            requested_delivery_date: order.requested_delivery_date.map(Date::format),
            buyer: PartyView::of(&order.buyer),
            supplier: PartyView::of(&order.supplier),
            ship_to: PartyView::of(order.ship_to.as_ref().unwrap_or(&order.buyer)),
            currency: order.currency.code(),
            narrow_width: narrow_width(&lines),
            lines,
            subtotal: amounts.subtotal.format(minor),
            tax_label: tax_label(order),
            tax: amounts.tax.map(|tax| tax.format(minor)),
            total: amounts.total.format(minor),
            payment_terms: order.payment_terms.as_deref().map(column),
            delivery_terms: order.delivery_terms.as_deref().map(column),
            notes: order.notes.as_deref().map(|notes| breakable(notes, LINE_RUN)),
        }
    }
}

fn tax_label(order: &PurchaseOrder) -> String {
    let name = breakable(order.tax_name.as_deref().unwrap_or("VAT"), CELL_RUN);
    order.tax_rate.map_or_else(|| name.clone(), |rate| format!("{name} {}\u{202F}%", rate.format(0)))
}

impl PartyView {
    fn of(party: &Party) -> Self {
        let line = |given: &str| breakable(given, LINE_RUN);
        let contact = party.contact.as_ref();
        let contact = contact.map(|given| [given.name.as_deref(), given.email.as_deref(), given.phone.as_deref()]);
        Self {
            name: breakable(&party.name, COLUMN_RUN),
            address: party.address.iter().map(|given| breakable(given, COLUMN_RUN)).collect(),
            vat_id: party.vat_id.as_deref().map(line),
            contact: contact.into_iter().flatten().flatten().map(line).collect(),
        }
    }
}

fn lines(order: &PurchaseOrder, amounts: &Amounts) -> Vec<LineView> {
    let minor = order.currency.minor();
    let quantity_places = order.lines.iter().map(|line| line.quantity.scale()).max().unwrap_or(0);
    let price_places = order.lines.iter().map(|line| line.unit_price.scale()).max().unwrap_or(0).max(minor);
    let view = |(index, (line, total)): (usize, (&Line, &crate::decimal::Minor))| LineView {
        position: line.position.as_deref().map_or_else(|| (index + 1).to_string(), str::to_owned),
        sku: line.sku.as_deref().map(|sku| breakable(sku, CELL_RUN)).unwrap_or_default(),
        description: breakable(&line.description, COLUMN_RUN),
        quantity: Aligned::of(line.quantity, 0, quantity_places),
        unit: line.unit.as_deref().unwrap_or_default().to_owned(),
        unit_price: Aligned::of(line.unit_price, minor, price_places),
        total: total.format(minor),
        splittable: line.description.chars().count() > LONGEST_WHOLE_CHARS
            || line.description.lines().count() > LONGEST_WHOLE_LINES,
    };
    order.lines.iter().zip(&amounts.lines).enumerate().map(view).collect()
}

fn narrow_width(lines: &[LineView]) -> usize {
    let widest = |width: fn(&LineView) -> usize| lines.iter().map(width).max().unwrap_or(0);
    widest(|line| line.quantity.width())
        + widest(|line| line.unit_price.width())
        + widest(|line| line.total.chars().count())
        + widest(|line| line.position.chars().count())
        + widest(|line| line.unit.chars().count())
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
