//! The contract suites on an emulator: S3, and the renderer's real zip in its Lambda.
//!
//! Needs `AWS_ENDPOINT_URL` (with `AWS_REGION` and any credentials) and `WAYBILL_RENDERER_ZIP`, as `cargo xtask lambda` prints it.

#![expect(clippy::disallowed_methods, reason = "each run has its own bucket and function")]

use aws_sdk_lambda::{
    primitives::Blob,
    types::{Environment, FunctionCode, Runtime},
};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;
use waybill_aws::{LambdaConfig, LambdaRenderer, S3Objects};
use waybill_core::ports::{ObjectStore, RenderFailure, RenderRequest, Renderer};
use waybill_testkit::contract;

const EXAMPLE: &str = include_str!("../../../examples/purchase-order.json");
const TIMEOUT: Duration = Duration::from_secs(28);

fn variable(name: &str) -> String {
    std::env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set: cargo xtask test --aws starts what this test needs"))
}

fn unique(what: &str) -> String {
    format!("waybill-{what}-{}", Uuid::new_v4().simple())
}

/// A bucket of this test's own.
async fn bucket() -> (aws_config::SdkConfig, String, S3Objects) {
    variable("AWS_ENDPOINT_URL");
    let (aws, bucket) = (waybill_aws::load(None).await, unique("documents"));
    let s3 = aws_sdk_s3::config::Builder::from(&aws).force_path_style(true).build();
    let region = variable("AWS_REGION");
    let place = aws_sdk_s3::types::CreateBucketConfiguration::builder()
        .location_constraint(aws_sdk_s3::types::BucketLocationConstraint::from(region.as_str()))
        .build();
    let made = aws_sdk_s3::Client::from_conf(s3).create_bucket().bucket(&bucket).create_bucket_configuration(place);
    made.send().await.expect("makes a bucket");
    let objects = S3Objects::new(&aws, &bucket);
    (aws, bucket, objects)
}

/// The function as it is deployed, but for its architecture.
async fn deploy(aws: &aws_config::SdkConfig, bucket: &str) -> String {
    let zip = std::fs::read(variable("WAYBILL_RENDERER_ZIP")).expect("reads the zip");
    let (lambda, function) = (aws_sdk_lambda::Client::new(aws), unique("renderer"));
    let environment = Environment::builder()
        .variables("WAYBILL_BUCKET", bucket)
        .variables("AWS_ENDPOINT_URL", variable("AWS_ENDPOINT_URL"))
        .build();
    let create = lambda
        .create_function()
        .function_name(&function)
        .runtime(Runtime::Providedal2023)
        .handler("bootstrap")
        .role("arn:aws:iam::000000000000:role/renderer")
        .timeout(25)
        .memory_size(1769)
        .environment(environment)
        .code(FunctionCode::builder().zip_file(Blob::new(zip)).build());
    create.send().await.expect("makes the function");
    function
}

fn data() -> serde_json::Value {
    serde_json::from_str::<serde_json::Value>(EXAMPLE).expect("JSON")["data"].take()
}

fn renderer(
    aws: &aws_config::SdkConfig,
    function: &str,
    objects: &S3Objects,
    version: fn(&str) -> Option<i32>,
) -> LambdaRenderer {
    let config = LambdaConfig { function: function.into(), timeout: TIMEOUT };
    LambdaRenderer::new(aws, config, Arc::new(objects.clone()), version)
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask test --aws"]
async fn s3_keeps_the_contract_of_the_object_store() {
    let (_, _, objects) = bucket().await;
    contract::objects::run(&objects).await;
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask test --aws"]
async fn pdf_06_keys_with_every_kind_of_character_come_back_as_they_are() {
    let (_, _, objects) = bucket().await;
    for key in ["inv/Acme & Co/fatura ação+1.pdf", "inv/a%2Fb.pdf", "inv/a?b#c.pdf", "inv/a=b&c;d.pdf"] {
        let bytes = bytes::Bytes::from(key.as_bytes().to_vec());
        objects.put_named(key, bytes.clone(), "application/pdf", "Relatório \"Março\".pdf").await.expect("puts");
        assert_eq!(objects.get(key).await, Ok(Some(bytes)), "{key}");
    }
}

#[tokio::test]
#[ignore = "needs an emulator: cargo xtask test --aws"]
async fn the_real_function_keeps_the_contract_of_the_renderer() {
    let (aws, bucket, objects) = bucket().await;
    let function = deploy(&aws, &bucket).await;
    let mut other = data();
    other["order_number"] = "PO-9999".into();
    let known = renderer(&aws, &function, &objects, |name| (name == "purchase_order").then_some(1));
    contract::renderer::run(contract::renderer::Subject {
        renderer: &known,
        objects: &objects,
        document_type: "purchase_order",
        good_data: &data().to_string(),
        other_data: &other.to_string(),
        bad_data: "{}",
    })
    .await;

    let request = RenderRequest {
        document_type: "purchase_order".into(),
        data: data().to_string(),
        object_key: "t/Acme & Co/ação+1.pdf".into(),
    };
    let newer = renderer(&aws, &function, &objects, |_| Some(2)).render(&request).await;
    let Err(RenderFailure::Temporary(detail)) = &newer else { panic!("{newer:?}") };
    assert!(detail.contains("wants version 2") && detail.contains("has 1"), "{detail}");
    let document = known.render(&request).await.expect("renders");
    let stored = objects.get(&request.object_key).await.expect("reads").expect("is there");
    assert!(document.size > 10_000 && stored.len() as u64 == document.size, "{document:?}");

    let missing = renderer(&aws, "no-such-function", &objects, |_| Some(1)).render(&request).await;
    let Err(RenderFailure::Temporary(detail)) = &missing else { panic!("{missing:?}") };
    assert!(detail.contains("no-such-function does not exist"), "{detail}");
}
