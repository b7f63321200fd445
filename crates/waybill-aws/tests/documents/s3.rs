use crate::endpoint::{Answer, Endpoint, answer, config};
use axum::{body::Body, http::Method};
use bytes::Bytes;
use futures::StreamExt;
use std::{convert::Infallible, time::Duration};
use waybill_aws::{MAX_OBJECT_BYTES, S3Objects};
use waybill_core::ports::{ObjectError, ObjectInfo, ObjectStore, PutOutcome};

const PDF: &str = "application/pdf";
const BODY: Bytes = Bytes::from_static(b"%PDF-1.7 x");

fn refused(status: u16, code: &str) -> Answer {
    let body = format!("<Error><Code>{code}</Code><Message>said so</Message><RequestId>1</RequestId></Error>");
    answer(status, &[("content-type", "application/xml")], body)
}

async fn objects(endpoint: &Endpoint) -> S3Objects {
    S3Objects::new(&endpoint.config().await, "documents")
}

fn denied<T: std::fmt::Debug>(result: Result<T, ObjectError>) -> String {
    match result {
        Err(ObjectError::Denied(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn unavailable<T: std::fmt::Debug>(result: Result<T, ObjectError>) -> String {
    match result {
        Err(ObjectError::Unavailable(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn pdf_03_a_403_for_ever_is_denied_each_time_and_not_asked_again() {
    let endpoint = Endpoint::start(async |seen| match seen.method {
        // Without s3:ListBucket: a HEAD has no body that could tell why.
        Method::HEAD => answer(403, &[], Body::empty()),
        _ => refused(403, "AccessDenied"),
    })
    .await;
    let objects = objects(&endpoint).await;
    for _ in 0..2 {
        assert!(denied(objects.head("k").await).contains("403"));
        assert!(denied(objects.get("k").await).contains("403 AccessDenied: said so"));
        assert!(denied(objects.put_if_absent("k", BODY, PDF).await).contains("bucket documents"));
    }
    assert_eq!(endpoint.seen().len(), 6);
}

#[tokio::test]
async fn pdf_03_a_404_means_not_yet_and_then_it_is_there() {
    let length = BODY.len().to_string();
    let endpoint = Endpoint::script([
        answer(404, &[], Body::empty()),
        refused(404, "NoSuchKey"),
        answer(200, &[("content-length", &length)], Body::empty()),
        answer(200, &[], BODY),
    ])
    .await;
    let objects = objects(&endpoint).await;
    assert_eq!((objects.head("k").await, objects.get("k").await), (Ok(None), Ok(None)));
    assert_eq!(objects.head("k").await, Ok(Some(ObjectInfo { size: BODY.len() as u64 })));
    assert_eq!(objects.get("k").await, Ok(Some(BODY)));
}

#[tokio::test]
async fn pdf_03_slow_down_is_waited_for_and_three_times_are_unavailable() {
    let busy = || refused(503, "SlowDown");
    let endpoint = Endpoint::script([busy(), busy(), answer(200, &[], BODY), busy(), busy(), busy()]).await;
    let objects = objects(&endpoint).await;
    assert_eq!(objects.get("k").await, Ok(Some(BODY)));
    assert!(unavailable(objects.put_if_absent("k", BODY, PDF).await).contains("503 SlowDown"));
    assert_eq!(endpoint.seen().len(), 6);
}

#[tokio::test]
async fn pdf_02_a_key_that_is_taken_is_412_and_somebody_was_first() {
    let endpoint = Endpoint::script([refused(412, "PreconditionFailed")]).await;
    let put = objects(&endpoint).await.put_if_absent("k", BODY, PDF).await;
    assert_eq!((put, endpoint.seen().len()), (Ok(PutOutcome::Existed), 1));
}

#[tokio::test]
async fn pdf_02_two_writes_at_once_are_409_which_is_tried_again_and_not_for_ever() {
    let conflict = || refused(409, "ConditionalRequestConflict");
    let endpoint = Endpoint::script([conflict(), conflict(), answer(200, &[], "")]).await;
    let put = objects(&endpoint).await.put_if_absent("k", BODY, PDF).await;
    assert_eq!((put, endpoint.seen().len()), (Ok(PutOutcome::Created), 3));

    let endpoint = Endpoint::start(move |_| async move { conflict() }).await;
    let put = objects(&endpoint).await.put_if_absent("k", BODY, PDF).await;
    assert!(unavailable(put).contains("409 ConditionalRequestConflict"));
    assert_eq!(endpoint.seen().len(), 4);
}

#[tokio::test]
async fn pdf_02_a_write_whose_answer_got_lost_ends_in_the_object_that_is_there() {
    let endpoint = Endpoint::script([Answer::HangUp, refused(412, "PreconditionFailed")]).await;
    let put = objects(&endpoint).await.put_if_absent("k", BODY, PDF).await;
    assert_eq!((put, endpoint.seen().len()), (Ok(PutOutcome::Existed), 2));
}

#[tokio::test]
async fn a_write_is_conditional_and_carries_hash_type_and_name() {
    let endpoint = Endpoint::script([answer(200, &[], ""), answer(200, &[], "")]).await;
    let objects = objects(&endpoint).await;
    assert_eq!(objects.put_named("k", BODY, PDF, "ação.pdf").await, Ok(PutOutcome::Created));
    assert_eq!(objects.put_if_absent("k", BODY, PDF).await, Ok(PutOutcome::Created));
    let seen = endpoint.seen();
    assert_eq!((&seen[0].method, &seen[0].body), (&Method::PUT, &BODY));
    assert_eq!((seen[0].header("if-none-match"), seen[0].header("content-type")), (Some("*"), Some(PDF)));
    // printf '%s' '%PDF-1.7 x' | openssl dgst -sha256 -binary | base64
    let hash = Some("7CeS9SxEFr6GucPZ9M4RIuaAJ6hUnFS+UEDJE9ZxqgI=");
    assert_eq!(seen[0].header("x-amz-checksum-sha256"), hash);
    let name = Some("attachment; filename=\"a__o.pdf\"; filename*=UTF-8''a%C3%A7%C3%A3o.pdf");
    assert_eq!((seen[0].header("content-disposition"), seen[1].header("content-disposition")), (name, None));
}

#[tokio::test]
async fn pdf_06_keys_are_encoded_exactly_once() {
    let endpoint = Endpoint::start(async |_| answer(200, &[], BODY)).await;
    let objects = objects(&endpoint).await;
    for key in ["inv/Acme & Co/fatura ação+1.pdf", "inv/a%2Fb.pdf", "inv/a?b#c.pdf"] {
        assert_eq!(objects.get(key).await, Ok(Some(BODY)));
        let uri = endpoint.seen().pop().unwrap().uri;
        let path = uri.split('?').next().unwrap().strip_prefix("/documents/").unwrap();
        assert_eq!(decoded(path), key, "{uri}");
    }
}

fn decoded(path: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), path.as_bytes());
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first == b'%' {
            bytes.push(u8::from_str_radix(std::str::from_utf8(&more[..2]).unwrap(), 16).unwrap());
            rest = &more[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_wrong_bucket_or_region_is_named_as_configuration() {
    let endpoint = Endpoint::script([
        refused(404, "NoSuchBucket"),
        refused(404, "NoSuchBucket"),
        refused(301, "PermanentRedirect"),
        refused(400, "AuthorizationHeaderMalformed"),
    ])
    .await;
    let objects = objects(&endpoint).await;
    let put = denied(objects.put_if_absent("k", BODY, PDF).await);
    assert!(put.contains("bucket documents: 404 NoSuchBucket") && put.contains("configuration"), "{put}");
    assert!(denied(objects.get("k").await).contains("configuration"));
    for _ in 0..2 {
        assert!(denied(objects.get("k").await).contains("another region"));
    }
}

#[tokio::test]
async fn bodies_over_the_limit_are_refused_whether_announced_or_not() {
    let chunk = Bytes::from(vec![0; 1024 * 1024]);
    let endpoint = Endpoint::start(move |seen| {
        let chunks = std::iter::repeat_n(Ok::<_, Infallible>(chunk.clone()), 65);
        let body = Body::from_stream(futures::stream::iter(chunks));
        let length = (65 * 1024 * 1024).to_string();
        let headers: &[(&str, &str)] =
            if seen.uri.contains("announced") { &[("content-length", &length)] } else { &[] };
        let answer = answer(200, headers, body);
        async { answer }
    })
    .await;
    let objects = objects(&endpoint).await;
    for key in ["announced", "surprise"] {
        let text = unavailable(objects.get(key).await);
        assert!(text.contains(&MAX_OBJECT_BYTES.to_string()), "{text}");
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_or_is_not_what_was_stored_is_no_object() {
    let gone = futures::stream::once(async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Err(std::io::Error::other("gone"))
    });
    let broken = futures::stream::iter([Ok(BODY)]).chain(gone);
    let endpoint = Endpoint::script([answer(200, &[("content-length", "100")], Body::from_stream(broken))]).await;
    let text = unavailable(objects(&endpoint).await.get("k").await);
    assert!(text.contains("its body broke off"), "{text}");

    let hash_of_nothing = ("x-amz-checksum-sha256", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    let endpoint = Endpoint::script([answer(200, &[hash_of_nothing], BODY)]).await;
    let text = unavailable(objects(&endpoint).await.get("k").await);
    assert!(text.contains("checksum mismatch"), "{text}");
}

#[tokio::test]
async fn nobody_there_is_unavailable_with_its_cause() {
    let objects = S3Objects::new(&config("http://127.0.0.1:1").await, "documents");
    let text = unavailable(objects.head("k").await);
    assert!(text.contains("HeadObject: no answer") && text.to_lowercase().contains("refused"), "{text}");
}
