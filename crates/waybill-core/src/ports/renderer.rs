use super::ObjectError;
use async_trait::async_trait;

#[derive(Debug, Clone)]
pub struct RenderRequest {
    pub document_type: String,
    /// The event's `data`, as JSON text.
    pub data: String,
    /// Where the PDF has to stand afterwards.
    pub object_key: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedDocument {
    pub size: u64,
    pub sha256: [u8; 32],
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderFailure {
    /// Rendering the same data again can't help.
    #[error("{0}")]
    Permanent(String),
    #[error("{0}")]
    Temporary(String),
    /// The object store refused us (403). Tried again, since rights are mended by people while we wait, but it ends under its own name
    /// and not as a time-out.
    #[error("{0}")]
    Denied(String),
}

impl RenderFailure {
    /// A failure of the object store while rendering.
    pub fn of_objects(error: &ObjectError) -> Self {
        match error {
            ObjectError::Unavailable(_) => Self::Temporary(error.to_string()),
            ObjectError::Denied(_) => Self::Denied(error.to_string()),
            ObjectError::BadKey(_) => Self::Permanent(error.to_string()),
        }
    }
}

/// Renders a document into the object store, conditionally: if the key is taken, the object there is the result.
#[async_trait]
pub trait Renderer: Send + Sync {
    async fn render(&self, request: &RenderRequest) -> Result<RenderedDocument, RenderFailure>;

    /// Part of a document's identity. `None`: no such document type.
    fn template_version(&self, document_type: &str) -> Option<i32>;
}
