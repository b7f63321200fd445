//! What travels between the pipeline and a renderer in another process: one order, one answer, both JSON.
//!
//! Compatibility: a field that an old reader may ignore is added without a new version; anything else raises [`VERSION`]. A renderer reads
//! every version up to its own and answers a newer one with a temporary failure, so the renderer is deployed first and an order that came
//! too early is only late.

use super::{RenderFailure, RenderRequest};
use serde::{Deserialize, Serialize};

/// Of the orders that this build writes, and the highest that it reads.
pub const VERSION: u32 = 1;

/// A document to render. The bucket is not in it: it is the renderer's own configuration, so an order can't point anywhere else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderOrder {
    pub version: u32,
    pub document_type: String,
    /// As the caller knows it; part of the document's identity and of its key.
    pub template_version: i32,
    /// JSON text inside a JSON string: whoever carries the order can't change the spelling of a number in it.
    pub data: String,
    pub object_key: String,
}

/// What became of an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum RenderAnswer {
    /// A PDF stands at the key; this call's or one that was there before.
    Rendered {
        size: u64,
        /// Hexadecimal.
        sha256: String,
        template_version: i32,
    },
    Failed {
        kind: FailureKind,
        detail: String,
    },
}

/// The variants of [`RenderFailure`] as words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    Permanent,
    Temporary,
    Denied,
}

impl RenderOrder {
    pub fn new(request: &RenderRequest, template_version: i32) -> Self {
        Self {
            version: VERSION,
            document_type: request.document_type.clone(),
            template_version,
            data: request.data.clone(),
            object_key: request.object_key.clone(),
        }
    }

    /// Reads an order. The message of a failure repeats nothing of the order but its version.
    ///
    /// # Errors
    /// [`RenderFailure::Temporary`]: not this build's version, or not an order; a deployment mends both.
    pub fn parse(text: &str) -> Result<Self, RenderFailure> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let unreadable = |e: serde_json::Error| {
            RenderFailure::Temporary(format!("the order can't be read (at line {}, column {})", e.line(), e.column()))
        };
        let Versioned { version } = serde_json::from_str(text).map_err(unreadable)?;
        if version == 0 || version > VERSION {
            return Err(RenderFailure::Temporary(format!(
                "the order has version {version} and this renderer knows 1 to {VERSION}: the renderer has to be deployed first"
            )));
        }
        serde_json::from_str(text).map_err(unreadable)
    }
}

impl From<RenderFailure> for RenderAnswer {
    fn from(failure: RenderFailure) -> Self {
        let (kind, detail) = match failure {
            RenderFailure::Permanent(detail) => (FailureKind::Permanent, detail),
            RenderFailure::Temporary(detail) => (FailureKind::Temporary, detail),
            RenderFailure::Denied(detail) => (FailureKind::Denied, detail),
        };
        Self::Failed { kind, detail }
    }
}

impl FailureKind {
    pub fn with(self, detail: String) -> RenderFailure {
        match self {
            Self::Permanent => RenderFailure::Permanent(detail),
            Self::Temporary => RenderFailure::Temporary(detail),
            Self::Denied => RenderFailure::Denied(detail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> RenderOrder {
        let request = RenderRequest {
            document_type: "purchase_order".into(),
            data: r#"{"total":1.10,"big":0.1000000000000000055511151231257827}"#.into(),
            object_key: "a/b+c %2F.pdf".into(),
        };
        RenderOrder::new(&request, 3)
    }

    #[test]
    fn an_order_is_read_back_with_its_numbers_as_they_were_spelt_and_may_carry_fields_of_later_builds() {
        let text = serde_json::to_string(&order()).unwrap();
        assert_eq!(RenderOrder::parse(&text), Ok(order()));
        let later = text.replacen('{', r#"{"priority":"high","#, 1);
        assert_eq!(RenderOrder::parse(&later), Ok(order()));
    }

    #[test]
    fn what_is_no_order_of_ours_is_a_temporary_failure_that_repeats_no_data() {
        let newer = serde_json::to_string(&RenderOrder { version: 2, ..order() }).unwrap();
        let newer = RenderOrder::parse(&newer.replace("\"data\"", "\"content\""));
        let Err(RenderFailure::Temporary(detail)) = newer else { panic!("{newer:?}") };
        assert!(detail.contains("version 2") && detail.contains("1 to 1"), "{detail}");
        for text in ["", "{", "null", "[]", "{}", r#"{"version":0}"#, r#"{"version":1,"data":{"secret":1}}"#] {
            let failed = RenderOrder::parse(text);
            let Err(RenderFailure::Temporary(detail)) = failed else { panic!("{text}: {failed:?}") };
            assert!(!detail.contains("secret"), "{detail}");
        }
    }

    #[test]
    fn the_words_of_the_contract_stay() {
        let order = serde_json::to_value(order()).unwrap();
        let mut fields: Vec<&str> = order.as_object().unwrap().keys().map(String::as_str).collect();
        fields.sort_unstable();
        assert_eq!(fields, ["data", "document_type", "object_key", "template_version", "version"]);
        let rendered = RenderAnswer::Rendered { size: 7, sha256: "ab".into(), template_version: 3 };
        let text = r#"{"result":"rendered","size":7,"sha256":"ab","template_version":3}"#;
        assert_eq!(serde_json::to_string(&rendered).unwrap(), text);
        for (failure, word) in [
            (RenderFailure::Permanent("x".into()), "permanent"),
            (RenderFailure::Temporary("x".into()), "temporary"),
            (RenderFailure::Denied("x".into()), "denied"),
        ] {
            let answer = RenderAnswer::from(failure.clone());
            let text = format!(r#"{{"result":"failed","kind":"{word}","detail":"x"}}"#);
            assert_eq!(serde_json::to_string(&answer).unwrap(), text);
            assert_eq!(serde_json::from_str::<RenderAnswer>(&text).unwrap(), answer);
            let RenderAnswer::Failed { kind, detail } = answer else { panic!("{word}") };
            assert_eq!(kind.with(detail), failure);
        }
    }
}
