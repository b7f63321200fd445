use super::*;
use serde_json::Value;
use waybill_core::ports::{
    RenderRequest,
    renderer_contract::{FailureKind, VERSION},
};
use waybill_testkit::fakes::{FakeObjects, ObjectCall, ObjectFault};

const EXAMPLE: &str = include_str!("../../../examples/purchase-order.json");
const KEY: &str = "t/purchase_order/1.pdf";

fn request() -> RenderRequest {
    let data = serde_json::from_str::<Value>(EXAMPLE).unwrap()["data"].to_string();
    RenderRequest { document_type: "purchase_order".into(), data, object_key: KEY.into() }
}

fn order() -> RenderOrder {
    RenderOrder::new(&request(), waybill_render::template_version("purchase_order").unwrap())
}

fn text(order: &RenderOrder) -> String {
    serde_json::to_string(order).unwrap()
}

async fn done(order: &RenderOrder, objects: &FakeObjects) -> RenderAnswer {
    handle(&text(order), objects).await
}

async fn failed(order: &RenderOrder, objects: &FakeObjects) -> (FailureKind, String) {
    match done(order, objects).await {
        RenderAnswer::Failed { kind, detail } => (kind, detail),
        RenderAnswer::Rendered { .. } => panic!("rendered"),
    }
}

fn answer_of(bytes: &[u8]) -> RenderAnswer {
    RenderAnswer::Rendered { size: bytes.len() as u64, sha256: hex::encode(Sha256::digest(bytes)), template_version: 1 }
}

#[tokio::test]
async fn an_order_ends_in_a_pdf_at_its_key_and_the_answer_describes_it() {
    let objects = FakeObjects::new();
    let rendered = done(&order(), &objects).await;
    let stored = objects.get(KEY).await.unwrap().unwrap();
    assert!(stored.starts_with(b"%PDF-"));
    assert_eq!(rendered, answer_of(&stored));
    assert_eq!(objects.content_type(KEY).as_deref(), Some("application/pdf"));
}

#[tokio::test]
async fn pdf_02_a_document_that_is_there_is_the_answer_and_nothing_is_typeset() {
    let objects = FakeObjects::new();
    objects.plant(KEY, &b"%PDF-1.7 somebody was first"[..]);
    let never = Typesetter { render: |_, _| panic!("typeset"), ..TYPESETTER };
    let found = handle_with(never, &text(&order()), &objects).await;
    assert_eq!(found, answer_of(b"%PDF-1.7 somebody was first"));
}

#[tokio::test]
async fn pdf_02_somebody_who_finishes_meanwhile_wins_and_a_lost_answer_of_the_store_ends_in_the_same_document() {
    let objects = FakeObjects::new();
    objects.plant(KEY, &b"%PDF-1.7 somebody was first"[..]);
    objects.fail_next(ObjectCall::Get, ObjectFault::Missing);
    assert_eq!(done(&order(), &objects).await, answer_of(b"%PDF-1.7 somebody was first"));

    objects.remove(KEY);
    objects.fail_next(ObjectCall::Put, ObjectFault::AnswerLost);
    assert_eq!(failed(&order(), &objects).await.0, FailureKind::Temporary);
    let stored = objects.get(KEY).await.unwrap().unwrap();
    assert_eq!(done(&order(), &objects).await, answer_of(&stored));
}

#[tokio::test]
async fn an_object_that_is_no_pdf_is_never_the_answer() {
    let objects = FakeObjects::new();
    objects.plant(KEY, &b"<html>"[..]);
    let (kind, detail) = failed(&order(), &objects).await;
    assert_eq!(kind, FailureKind::Temporary);
    assert!(detail.contains("(6 octets) is not a PDF"), "{detail}");
}

#[tokio::test]
async fn a_store_that_fails_is_temporary_and_one_that_refuses_is_named() {
    let objects = FakeObjects::new();
    for (fault, kind) in
        [(ObjectFault::Unavailable, FailureKind::Temporary), (ObjectFault::Denied, FailureKind::Denied)]
    {
        objects.fail_next(ObjectCall::Put, fault);
        assert_eq!(failed(&order(), &objects).await.0, kind);
    }
    let outside = RenderOrder { object_key: "../x.pdf".into(), ..order() };
    assert_eq!(failed(&outside, &objects).await.0, FailureKind::Permanent);
    assert_eq!(objects.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn pdf_03_a_look_that_is_refused_does_not_stop_the_render() {
    let objects = FakeObjects::new();
    objects.fail_next(ObjectCall::Get, ObjectFault::Denied);
    assert!(matches!(done(&order(), &objects).await, RenderAnswer::Rendered { .. }));
    objects.plant(KEY, &b"%PDF-1.7 somebody was first"[..]);
    objects.fail_next(ObjectCall::Get, ObjectFault::Denied);
    objects.fail_next(ObjectCall::Get, ObjectFault::Denied);
    assert_eq!(failed(&order(), &objects).await.0, FailureKind::Denied);
}

#[tokio::test]
async fn data_that_can_not_be_set_are_permanent_with_a_pointer_and_without_their_values() {
    let objects = FakeObjects::new();
    let mut data: Value = serde_json::from_str(&order().data).unwrap();
    data["order_number"] = serde_json::json!({"secret": "Ana"});
    for data in ["{".to_owned(), "{}".into(), data.to_string()] {
        let (kind, detail) = failed(&RenderOrder { data, ..order() }, &objects).await;
        assert_eq!(kind, FailureKind::Permanent);
        assert!(!detail.contains("Ana") && !detail.contains("secret"), "{detail}");
    }
    assert_eq!(objects.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn another_template_version_is_temporary_and_both_are_named() {
    let objects = FakeObjects::new();
    let (kind, detail) = failed(&RenderOrder { template_version: 7, ..order() }, &objects).await;
    assert_eq!(kind, FailureKind::Temporary);
    assert!(detail.contains("version 7") && detail.contains("has 1"), "{detail}");
    let newer = RenderOrder { document_type: "invoice".into(), ..order() };
    let (kind, detail) = failed(&newer, &objects).await;
    assert_eq!(kind, FailureKind::Temporary);
    assert!(detail.contains("`invoice`") && detail.contains("has none"), "{detail}");
}

#[tokio::test]
async fn an_order_of_a_newer_build_and_one_that_is_none_are_temporary() {
    let objects = FakeObjects::new();
    let (kind, detail) = failed(&RenderOrder { version: VERSION + 1, ..order() }, &objects).await;
    assert_eq!(kind, FailureKind::Temporary);
    assert!(detail.contains("deployed first"), "{detail}");
    for text in ["null", "{}", "[1]"] {
        let answer = handle(text, &objects).await;
        assert!(matches!(answer, RenderAnswer::Failed { kind: FailureKind::Temporary, .. }), "{text}: {answer:?}");
    }
    assert_eq!(objects.calls(), 0);
}

#[tokio::test]
async fn a_panic_of_the_typesetter_and_its_own_fault_are_temporary() {
    let objects = FakeObjects::new();
    for (render, words) in [
        ((|_, _| panic!("customer Ana")) as fn(&str, &str) -> Result<RenderedPdf, RenderError>, "panicked"),
        (|_, _| Err(RenderError::Typesetting { message: "no font".into() }), "no font"),
    ] {
        let answer = handle_with(Typesetter { render, ..TYPESETTER }, &text(&order()), &objects).await;
        let RenderAnswer::Failed { kind, detail } = answer else { panic!("{answer:?}") };
        assert_eq!(kind, FailureKind::Temporary);
        assert!(detail.contains(words) && !detail.contains("Ana"), "{detail}");
    }
}
