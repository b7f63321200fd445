//! The contract of [`Renderer`].

use sha2::{Digest, Sha256};
use uuid::Uuid;
use waybill_core::ports::{ObjectStore, RenderFailure, RenderRequest, RenderedDocument, Renderer};

/// A renderer, the store it writes to, and data that fit its document type.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub renderer: &'a dyn Renderer,
    pub objects: &'a dyn ObjectStore,
    pub document_type: &'a str,
    pub good_data: &'a str,
    /// Good too, and different.
    pub other_data: &'a str,
    pub bad_data: &'a str,
}

impl Subject<'_> {
    fn request(&self, data: &str) -> RenderRequest {
        RenderRequest {
            document_type: self.document_type.into(),
            data: data.into(),
            object_key: format!("contract/{}.pdf", Uuid::new_v4().simple()),
        }
    }

    async fn stored(&self, request: &RenderRequest) -> Option<RenderedDocument> {
        let bytes = self.objects.get(&request.object_key).await.expect("reads")?;
        assert!(bytes.starts_with(b"%PDF-"), "a PDF");
        Some(RenderedDocument { size: bytes.len() as u64, sha256: Sha256::digest(&bytes).into() })
    }
}

/// All rules, one after the other.
pub async fn run(subject: Subject<'_>) {
    the_document_stands_where_it_was_asked_for(subject).await;
    a_document_that_is_there_is_the_result(subject).await;
    one_document_of_many_at_once(subject).await;
    what_can_t_be_rendered_is_permanent(subject).await;
}

pub async fn the_document_stands_where_it_was_asked_for(subject: Subject<'_>) {
    assert!(subject.renderer.template_version(subject.document_type).is_some_and(|version| version > 0));
    let request = subject.request(subject.good_data);
    let document = subject.renderer.render(&request).await.expect("renders");
    assert_eq!(subject.stored(&request).await, Some(document), "size and hash are those of the object");
}

pub async fn a_document_that_is_there_is_the_result(subject: Subject<'_>) {
    let first = subject.request(subject.good_data);
    let document = subject.renderer.render(&first).await.expect("renders");
    let second = RenderRequest { data: subject.other_data.into(), ..first.clone() };
    assert_eq!(subject.renderer.render(&second).await, Ok(document.clone()), "the object there is the document");
    assert_eq!(subject.stored(&first).await, Some(document));
}

pub async fn one_document_of_many_at_once(subject: Subject<'_>) {
    let request = subject.request(subject.good_data);
    let render = async || subject.renderer.render(&request).await.expect("renders");
    let (a, b, c, d) = tokio::join!(render(), render(), render(), render());
    assert_eq!([&b, &c, &d], [&a, &a, &a]);
    assert_eq!(subject.stored(&request).await, Some(a));
}

pub async fn what_can_t_be_rendered_is_permanent(subject: Subject<'_>) {
    let unknown = RenderRequest { document_type: "no_such_type".into(), ..subject.request(subject.good_data) };
    assert_eq!(subject.renderer.template_version("no_such_type"), None);
    for request in [unknown, subject.request(subject.bad_data), subject.request("{")] {
        let result = subject.renderer.render(&request).await;
        assert!(matches!(result, Err(RenderFailure::Permanent(_))), "{request:?}: {result:?}");
        assert_eq!(subject.stored(&request).await, None, "nothing is left behind");
    }
}
