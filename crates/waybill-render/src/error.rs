//! Why a document could not be rendered.

/// Why a document could not be rendered. No variant holds a value from the data, so every message may be logged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// There is no document type of that name.
    #[error("there is no document type `{document_type}`")]
    UnknownType {
        /// The name asked for.
        document_type: String,
    },
    /// The data misses a field or has a wrong one.
    #[error("the document's data is wrong at `{pointer}`: {problem}")]
    BadData {
        /// JSON Pointer (RFC 6901) to the field, relative to `data`; empty for `data` itself.
        pointer: String,
        /// What is wrong and what is expected.
        problem: String,
    },
    /// The typesetter failed: a fault of a template or of the engine, not of the data.
    #[error("typesetting failed: {message}")]
    Typesetting {
        /// The engine's own words.
        message: String,
    },
}

impl RenderError {
    /// Whether the same call would fail the same way again, so that retrying can't help.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::UnknownType { .. } | Self::BadData { .. } => true,
            Self::Typesetting { .. } => false,
        }
    }

    pub(crate) fn bad_data(pointer: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::BadData { pointer: pointer.into(), problem: problem.into() }
    }
}
