//! The list of document types: one line per type.

use crate::error::RenderError;
use crate::purchase_order;

/// One document type.
pub(crate) struct DocumentType {
    /// The name, as a route spells it.
    pub(crate) name: &'static str,
    /// Part of the document's identity: raise it with every change that alters a finished page.
    pub(crate) template_version: i32,
    /// The Typst source. It may import `base.typ` and reads its data with `json("data.json")`.
    pub(crate) template: &'static str,
    /// Checks the data's JSON text and computes what the template shows, as JSON text.
    pub(crate) prepare: fn(&str) -> Result<String, RenderError>,
}

pub(crate) const ALL: &[DocumentType] = &[DocumentType {
    name: "purchase_order",
    template_version: 1,
    template: include_str!("../templates/purchase_order.typ"),
    prepare: purchase_order::prepare,
}];

/// The names of [`ALL`], in its order.
pub(crate) const NAMES: &[&str] = &{
    let mut names = [""; ALL.len()];
    let mut index = 0;
    while index < ALL.len() {
        names[index] = ALL[index].name;
        index += 1;
    }
    names
};

pub(crate) fn find(name: &str) -> Option<&'static DocumentType> {
    ALL.iter().find(|known| known.name == name)
}
