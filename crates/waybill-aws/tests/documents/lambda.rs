use crate::endpoint::{Answer, Endpoint, answer};
use axum::http::Method;
use sha2::{Digest, Sha256};
use std::{sync::Arc, time::Duration};
use waybill_aws::{LambdaConfig, LambdaRenderer, MAX_PAYLOAD_BYTES};
use waybill_core::ports::{
    ObjectStore, PutOutcome, RenderFailure, RenderRequest, RenderedDocument, Renderer, renderer_contract::RenderOrder,
};
use waybill_testkit::fakes::{FakeObjects, ObjectCall, ObjectFault};

const DOCUMENT: &[u8] = b"%PDF-1.7 purchase order";
const KEY: &str = "t/purchase_order/1.pdf";
const ERROR: (&str, &str) = ("x-amz-function-error", "Unhandled");

fn request() -> RenderRequest {
    RenderRequest { document_type: "purchase_order".into(), data: r#"{"total":1.10}"#.into(), object_key: KEY.into() }
}

async fn renderer(endpoint: &Endpoint, objects: &Arc<FakeObjects>, timeout: Duration) -> LambdaRenderer {
    let config = LambdaConfig { function: "waybill-renderer".into(), timeout };
    let version = |name: &str| (name == "purchase_order").then_some(3);
    LambdaRenderer::new(&endpoint.config().await, config, objects.clone(), version)
}

fn rendered(bytes: &[u8], template_version: i32) -> Answer {
    let (size, hash) = (bytes.len(), hex::encode(Sha256::digest(bytes)));
    let body =
        format!(r#"{{"result":"rendered","size":{size},"sha256":"{hash}","template_version":{template_version}}}"#);
    answer(200, &[], body)
}

fn document(bytes: &[u8]) -> RenderedDocument {
    RenderedDocument { size: bytes.len() as u64, sha256: Sha256::digest(bytes).into() }
}

fn temporary(result: Result<RenderedDocument, RenderFailure>) -> String {
    match result {
        Err(RenderFailure::Temporary(detail)) => detail,
        other => panic!("{other:?}"),
    }
}

/// One render that meets `answer`, with the finished document at its key all the same; says why it failed and with how many requests.
async fn failure(answer: Answer) -> String {
    let (endpoint, objects) = (Endpoint::script([answer]).await, Arc::new(FakeObjects::new()));
    objects.plant(KEY, DOCUMENT);
    let detail = temporary(renderer(&endpoint, &objects, Duration::from_secs(5)).await.render(&request()).await);
    assert_eq!((endpoint.seen().len(), objects.calls()), (1, 0), "asked once, and nothing is believed: {detail}");
    detail
}

#[tokio::test]
async fn the_order_is_a_synchronous_invocation_of_the_contract_and_its_document_is_the_result() {
    let (endpoint, objects) = (Endpoint::script([rendered(DOCUMENT, 3)]).await, Arc::new(FakeObjects::new()));
    objects.plant(KEY, DOCUMENT);
    let result = renderer(&endpoint, &objects, Duration::from_secs(5)).await.render(&request()).await;
    assert_eq!(result, Ok(document(DOCUMENT)));
    let seen = &endpoint.seen()[0];
    assert_eq!(
        (&seen.method, seen.uri.as_str()),
        (&Method::POST, "/2015-03-31/functions/waybill-renderer/invocations")
    );
    assert_eq!(seen.header("x-amz-invocation-type"), Some("RequestResponse"));
    let order = RenderOrder::parse(std::str::from_utf8(&seen.body).unwrap());
    assert_eq!(order, Ok(RenderOrder::new(&request(), 3)));
}

#[tokio::test]
async fn pdf_01_200_with_unhandled_is_a_failed_render_of_which_the_type_is_kept() {
    let died = r#"{"errorType":"Runtime.ExitError","errorMessage":"RequestId: 1 Error: Runtime exited, customer Ana"}"#;
    let detail = failure(answer(200, &[ERROR], died)).await;
    assert!(detail.contains("(Unhandled): Runtime.ExitError") && !detail.contains("Ana"), "{detail}");
}

#[tokio::test]
async fn pdf_01_200_with_handled_is_a_failed_render_also_with_a_good_payload() {
    let Answer::With(mut good) = rendered(DOCUMENT, 3) else { panic!("no answer") };
    good.headers_mut().insert("x-amz-function-error", "Handled".parse().unwrap());
    assert!(failure(Answer::With(good)).await.contains("(Handled)"));
}

#[tokio::test]
async fn pdf_01_200_without_an_answer_of_the_contract_is_a_failed_render() {
    assert!(failure(answer(200, &[], r#"{"statusCode":500}"#)).await.contains("not of the contract"));
    assert!(failure(answer(200, &[], "null")).await.contains("not of the contract"));
}

#[tokio::test]
async fn pdf_01_200_with_an_empty_payload_is_a_failed_render() {
    assert!(failure(answer(200, &[], "")).await.contains("empty"));
}

#[tokio::test]
async fn pdf_01_202_only_means_queued() {
    assert!(failure(answer(202, &[], "")).await.contains("202"));
}

#[tokio::test]
async fn pdf_01_429_backs_off_and_so_does_every_refusal_with_the_functions_name() {
    for (status, code, words) in [
        (429, "TooManyRequestsException", "is throttled"),
        (404, "ResourceNotFoundException", "does not exist"),
        (403, "AccessDeniedException", "may not be invoked"),
        (500, "ServiceException", "500 ServiceException"),
        (502, "KMSDisabledException", "could not be invoked"),
    ] {
        let body = r#"{"Message":"said so","Type":"User"}"#;
        let detail = failure(answer(status, &[("x-amzn-errortype", code)], body)).await;
        assert!(detail.contains("waybill-renderer") && detail.contains(words), "{detail}");
    }
}

#[tokio::test]
async fn pdf_01_success_is_compared_with_the_object() {
    for (stands, words) in
        [(None, "not there"), (Some(&b""[..]), "(0 octets) is not a PDF"), (Some(b"<html>"), "not a PDF")]
    {
        let (endpoint, objects) = (Endpoint::script([rendered(DOCUMENT, 3)]).await, Arc::new(FakeObjects::new()));
        if let Some(bytes) = stands {
            objects.plant(KEY, bytes);
        }
        let detail = temporary(renderer(&endpoint, &objects, Duration::from_secs(5)).await.render(&request()).await);
        assert!(detail.contains(words), "{detail}");
    }
}

#[tokio::test]
async fn pdf_02_a_document_of_somebody_who_was_first_is_the_result_with_its_own_hash() {
    let (endpoint, objects) = (Endpoint::script([rendered(DOCUMENT, 3)]).await, Arc::new(FakeObjects::new()));
    objects.plant(KEY, &b"%PDF-1.7 another run"[..]);
    let result = renderer(&endpoint, &objects, Duration::from_secs(5)).await.render(&request()).await;
    assert_eq!(result, Ok(document(b"%PDF-1.7 another run")));
}

#[tokio::test]
async fn pdf_02_a_render_slower_than_the_client_is_not_repeated_by_itself_and_ends_in_one_object() {
    let objects = Arc::new(FakeObjects::new());
    let store = objects.clone();
    // A function whose first run takes long, and which goes on when its caller has left.
    let endpoint = Endpoint::start(move |_| {
        let store = store.clone();
        let run = tokio::spawn(async move {
            if store.get(KEY).await.unwrap().is_none() {
                tokio::time::sleep(Duration::from_millis(900)).await;
            }
            let put = store.put_if_absent(KEY, DOCUMENT.into(), "application/pdf").await;
            (put, store.get(KEY).await.unwrap().unwrap())
        });
        async move {
            let (put, bytes) = run.await.unwrap();
            assert!(put.is_ok());
            rendered(&bytes, 3)
        }
    })
    .await;
    let renderer = renderer(&endpoint, &objects, Duration::from_millis(300)).await;
    let detail = temporary(renderer.render(&request()).await);
    assert!(detail.contains("no answer within 300ms"), "{detail}");
    assert_eq!(endpoint.seen().len(), 1, "no retry of the SDK");
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(renderer.render(&request()).await, Ok(document(DOCUMENT)));
    assert_eq!((endpoint.seen().len(), objects.keys()), (2, vec![KEY.to_owned()]));
    let late = objects.put_if_absent(KEY, b"%PDF-late".as_slice().into(), "application/pdf").await;
    assert_eq!(late, Ok(PutOutcome::Existed), "nor does a late one replace it");
}

#[tokio::test]
async fn pdf_03_an_object_that_may_not_be_read_ends_as_denied_and_not_as_time_out() {
    let endpoint = Endpoint::script([
        rendered(DOCUMENT, 3),
        rendered(DOCUMENT, 3),
        answer(200, &[], r#"{"result":"failed","kind":"denied","detail":"access to the object denied: 403"}"#),
    ])
    .await;
    let objects = Arc::new(FakeObjects::new());
    let renderer = renderer(&endpoint, &objects, Duration::from_secs(5)).await;
    objects.fail_next(ObjectCall::Get, ObjectFault::Denied);
    objects.fail_next(ObjectCall::Get, ObjectFault::Unavailable);
    let read = renderer.render(&request()).await;
    assert!(matches!(read, Err(RenderFailure::Denied(_))), "{read:?}");
    assert!(temporary(renderer.render(&request()).await).contains("unavailable"));
    let written = renderer.render(&request()).await;
    assert!(matches!(&written, Err(RenderFailure::Denied(detail)) if detail.contains("403")), "{written:?}");
}

#[tokio::test]
async fn a_renderer_with_another_template_version_is_waited_for() {
    let endpoint = Endpoint::script([rendered(DOCUMENT, 4)]).await;
    let objects = Arc::new(FakeObjects::new());
    objects.plant(KEY, DOCUMENT);
    let detail = temporary(renderer(&endpoint, &objects, Duration::from_secs(5)).await.render(&request()).await);
    assert!(detail.contains("version 4") && detail.contains("has 3"), "{detail}");
}

#[tokio::test]
async fn what_can_never_be_ordered_is_permanent_and_not_sent() {
    let (endpoint, objects) = (Endpoint::script([]).await, Arc::new(FakeObjects::new()));
    let renderer = renderer(&endpoint, &objects, Duration::from_secs(5)).await;
    let unknown = RenderRequest { document_type: "invoice".into(), ..request() };
    let huge = RenderRequest { data: "x".repeat(MAX_PAYLOAD_BYTES - 100), ..request() };
    for (request, words) in [(unknown, "`invoice`"), (huge, "below 6291456")] {
        let result = renderer.render(&request).await;
        let Err(RenderFailure::Permanent(detail)) = &result else { panic!("{result:?}") };
        assert!(detail.contains(words), "{detail}");
    }
    assert_eq!(endpoint.seen().len(), 0);
}
