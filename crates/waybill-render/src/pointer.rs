//! Reads the data into structs and turns what goes wrong into a JSON Pointer and a sentence.

use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};

use crate::error::RenderError;

/// Parses the data of a document. Unknown fields are fine: the same event may feed other documents and templates.
pub(crate) fn parse<T: DeserializeOwned>(data: &str) -> Result<T, RenderError> {
    let mut json = serde_json::Deserializer::from_str(data);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let mut pointer = to_pointer(error.path());
        let (field, problem) = explain(&error.inner().to_string());
        if let Some(field) = field {
            push(&mut pointer, &field);
        }
        RenderError::BadData { pointer, problem }
    })?;
    json.end().map_err(|_| RenderError::bad_data("", "is followed by something that is not JSON"))?;
    Ok(parsed)
}

fn to_pointer(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => push(&mut pointer, &index.to_string()),
            Segment::Map { key } => push(&mut pointer, key),
            Segment::Enum { variant } => push(&mut pointer, variant),
            Segment::Unknown => {}
        }
    }
    pointer
}

/// Appends one reference token, escaped as RFC 6901 section 3 has it.
fn push(pointer: &mut String, token: &str) {
    pointer.push('/');
    pointer.push_str(&token.replace('~', "~0").replace('/', "~1"));
}

/// Gives the field's name, if the path does not end with it yet, and the problem without any value from the data:
/// problems are logged and shown, and a value may be an address.
fn explain(message: &str) -> (Option<String>, String) {
    let message = message.rsplit_once(" at line ").map_or(message, |(before, _)| before);
    if let Some(field) = message.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        return (Some(field.to_owned()), "is missing".to_owned());
    }
    if message.starts_with("invalid ")
        && let Some((_, expected)) = message.rsplit_once(", expected ")
    {
        return (None, format!("expected {expected}"));
    }
    (None, message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Outer {
        #[expect(dead_code, reason = "only parsed")]
        inner: Vec<Inner>,
    }

    #[derive(Debug, serde::Deserialize)]
    struct Inner {
        #[serde(rename = "a/b~c")]
        #[expect(dead_code, reason = "only parsed")]
        odd: u32,
    }

    fn refuse(data: &str) -> (String, String) {
        match parse::<Outer>(data) {
            Err(RenderError::BadData { pointer, problem }) => (pointer, problem),
            other => panic!("not refused: {other:?}"),
        }
    }

    fn pair(pointer: &str, problem: &str) -> (String, String) {
        (pointer.to_owned(), problem.to_owned())
    }

    #[test]
    fn a_missing_field_is_named_itself_and_not_its_parent() {
        assert_eq!(refuse("{}"), pair("/inner", "is missing"));
        assert_eq!(refuse(r#"{"inner":[{"a/b~c":1},{}]}"#), pair("/inner/1/a~1b~0c", "is missing"));
    }

    #[test]
    fn a_problem_never_repeats_the_value() {
        let (pointer, problem) = refuse(r#"{"inner":[{"a/b~c":"ann@example.com, expected joy"}]}"#);
        assert_eq!((pointer.as_str(), problem.as_str()), ("/inner/0/a~1b~0c", "expected u32"));
    }

    #[test]
    fn broken_json_is_refused() {
        assert_eq!(refuse(r#"{"inner":[]} x"#), pair("", "is followed by something that is not JSON"));
        assert_eq!(refuse("[]").0, "");
        assert_eq!(refuse(r#"{"inner":[],"inner":[]}"#), pair("", "duplicate field `inner`"));
    }
}
