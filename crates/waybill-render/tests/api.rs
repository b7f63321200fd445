//! The crate as the pipeline sees it.

use serde_json::Value;
use sha2::{Digest, Sha256};
use waybill_render::{RenderError, document_types, render, template_version};

const EXAMPLE: &str = include_str!("../../../examples/purchase-order.json");

/// Each type's version with the digest of the sources its pages are made from. If this fails, a template changed: raise
/// its `template_version` in the registry (finished documents must not be taken for the new ones), then the line here.
const PINNED: [(&str, i32, &str); 1] =
    [("purchase_order", 1, "b6d4aba414117a2d7eb11df214b2ded28db0b48f2de4c00e037b6d7b14db277a")];

#[test]
fn a_changed_template_has_a_higher_version() {
    let sources = [include_str!("../templates/base.typ"), include_str!("../templates/purchase_order.typ")];
    let digest = hex::encode(Sha256::digest(sources.concat()));
    for (document_type, version, pinned) in PINNED {
        assert_eq!((template_version(document_type), digest.as_str()), (Some(version), pinned), "{document_type}");
    }
    assert_eq!(document_types().len(), PINNED.len());
}

#[test]
fn every_type_has_a_version_and_others_have_none() {
    assert_eq!(document_types(), ["purchase_order"]);
    assert!(document_types().iter().all(|known| template_version(known).is_some_and(|version| version > 0)));
    assert_eq!(template_version("invoice"), None);
}

#[test]
fn an_unknown_type_and_bad_data_are_permanent() {
    let unknown = render("invoice", "{}").unwrap_err();
    assert_eq!(unknown, RenderError::UnknownType { document_type: "invoice".to_owned() });
    let bad = render("purchase_order", "{}").unwrap_err();
    assert!(matches!(&bad, RenderError::BadData { pointer, .. } if pointer == "/order_number"), "{bad}");
    assert!(unknown.is_permanent() && bad.is_permanent());
}

#[test]
fn the_example_event_of_the_repository_renders() {
    let event: Value = serde_json::from_str(EXAMPLE).unwrap();
    assert_eq!(event["recipients"].as_array().map(Vec::len), Some(3));
    assert_eq!(event["subject"], event["data"]["order_number"]);
    let document = render("purchase_order", &event["data"].to_string()).unwrap();
    assert!(document.bytes.starts_with(b"%PDF-"));
    assert_eq!(document.pages, 1);
}
