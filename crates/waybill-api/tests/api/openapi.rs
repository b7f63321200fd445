//! The OpenAPI document: checked in, and true.

use crate::support::*;
use serde_json::Value;

const SNAPSHOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");

#[test]
fn openapi_is_the_checked_in_document() {
    let text = waybill_api::openapi::document_text();
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(SNAPSHOT, text).unwrap();
    }
    let checked_in = std::fs::read_to_string(SNAPSHOT).unwrap_or_default();
    assert!(
        text == checked_in,
        "the contract has changed: UPDATE_OPENAPI=1 cargo test -p waybill-api openapi, and review the difference"
    );
}

#[tokio::test]
async fn openapi_is_served_and_is_3_1_and_every_reference_in_it_leads_somewhere() {
    let answer = api().get("/openapi.json").await;
    assert_eq!(answer.header("content-type"), "application/json");
    let document = answer.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(references.len() > 20);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

fn collect(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            let named = members.get("$ref").and_then(Value::as_str);
            out.extend(named.map(str::to_owned));
            members.values().for_each(|member| collect(member, out));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn openapi_names_every_operation_with_its_refusals() {
    let document = serde_json::to_value(waybill_api::document()).unwrap();
    let statuses = |path: &str, method: &str| -> Vec<String> {
        let responses = &document["paths"][path][method]["responses"];
        responses.as_object().unwrap_or_else(|| panic!("{method} {path}")).keys().cloned().collect()
    };
    assert_eq!(
        statuses("/events", "post"),
        ["202", "207", "400", "401", "403", "408", "409", "413", "415", "422", "500", "503"]
    );
    assert_eq!(statuses("/jobs/{id}", "get"), ["200", "400", "401", "403", "404", "500", "503"]);
    assert_eq!(
        statuses("/inbound/{provider}/{account}", "post"),
        ["200", "400", "401", "408", "413", "415", "500", "503"]
    );
    assert_eq!(statuses("/healthz", "get"), ["200", "500"]);
    let media = document["paths"]["/events"]["post"]["requestBody"]["content"].as_object().unwrap();
    assert_eq!(media.len(), 3);
}

#[tokio::test]
async fn openapi_s_event_has_the_fields_that_are_read_and_no_other() {
    let document = serde_json::to_value(waybill_api::document()).unwrap();
    let schema = &document["components"]["schemas"]["Event"];
    assert_eq!(schema["additionalProperties"], false);
    let names: Vec<_> = schema["properties"].as_object().unwrap().keys().cloned().collect();
    let refused = api().post(r#"{"bogus":1}"#).await.problem("invalid_event");
    let known = refused["errors"][0]["detail"].as_str().unwrap();
    let listed = known.split("known are ").nth(1).unwrap().split(". ").next().unwrap();
    let mut listed: Vec<_> = listed.split(", ").map(str::to_owned).collect();
    listed.sort();
    let mut names = names;
    names.sort();
    assert_eq!(names, listed);
}
