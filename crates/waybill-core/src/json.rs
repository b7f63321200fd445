//! Strict reading of JSON that comes from outside.
//!
//! Differences from a lenient reader, each because two readers that disagree act on different recipients (RFC 7493 asks for the same):
//! a repeated key is refused anywhere, U+0000 and lone surrogates are refused, depth is bounded, and the text of a number is kept, so
//! that 9007199254740993 and 1.10 keep their digits in the canonical form. Every refusal names the place as a JSON Pointer (RFC 6901).

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt::{self, Write as _};

/// Nesting deeper than this is refused.
pub const MAX_DEPTH: usize = 64;

/// A JSON value; numbers keep the text they were received as.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(String),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at {}", if pointer.is_empty() { "the top level" } else { pointer })]
pub struct JsonError {
    /// JSON Pointer to the value (or key) that is wrong; empty for the whole document.
    pub pointer: String,
    pub problem: JsonProblem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonProblem {
    #[error("not valid JSON ({0})")]
    Syntax(String),
    #[error("not valid UTF-8")]
    Utf8,
    #[error("the key is repeated")]
    RepeatedKey,
    #[error("the character U+0000 is not allowed")]
    Nul,
    #[error("nesting is deeper than {MAX_DEPTH} levels")]
    TooDeep,
}

/// Reads a whole document. `bytes` is expected to be bounded by the caller.
///
/// # Errors
/// [`JsonError`] with the pointer of the first problem.
pub fn parse(bytes: &[u8]) -> Result<Json, JsonError> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| JsonError { pointer: String::new(), problem: JsonProblem::Utf8 })?;
    let raw: &RawValue = serde_json::from_str(text).map_err(|e| syntax("", &e))?;
    read(raw.get(), &mut String::new(), 0)
}

fn syntax(pointer: &str, error: &serde_json::Error) -> JsonError {
    JsonError { pointer: pointer.to_owned(), problem: JsonProblem::Syntax(error.to_string()) }
}

fn problem(pointer: &str, problem: JsonProblem) -> JsonError {
    JsonError { pointer: pointer.to_owned(), problem }
}

/// `text` is one valid JSON value; strings inside are checked when they are decoded.
fn read(text: &str, pointer: &mut String, depth: usize) -> Result<Json, JsonError> {
    let text = text.trim_ascii();
    match text.as_bytes().first() {
        Some(b'{') | Some(b'[') if depth >= MAX_DEPTH => Err(problem(pointer, JsonProblem::TooDeep)),
        Some(b'{') => {
            let members: Members<'_> = serde_json::from_str(text).map_err(|e| syntax(pointer, &e))?;
            let mut seen = std::collections::HashSet::with_capacity(members.0.len());
            let mut out = Vec::with_capacity(members.0.len());
            for (key, raw) in &members.0 {
                within(pointer, key, |pointer| {
                    check_nul(key, pointer)?;
                    if !seen.insert(key.as_str()) {
                        return Err(problem(pointer, JsonProblem::RepeatedKey));
                    }
                    out.push((key.clone(), read(raw.get(), pointer, depth + 1)?));
                    Ok(())
                })?;
            }
            Ok(Json::Object(out))
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|e| syntax(pointer, &e))?;
            let mut out = Vec::with_capacity(items.len());
            for (index, raw) in items.iter().enumerate() {
                within(pointer, &index.to_string(), |pointer| {
                    out.push(read(raw.get(), pointer, depth + 1)?);
                    Ok(())
                })?;
            }
            Ok(Json::Array(out))
        }
        Some(b'"') => {
            // Refuses lone surrogates ("\ud800") while decoding.
            let value: String = serde_json::from_str(text).map_err(|e| syntax(pointer, &e))?;
            check_nul(&value, pointer)?;
            Ok(Json::String(value))
        }
        Some(b't') => Ok(Json::Bool(true)),
        Some(b'f') => Ok(Json::Bool(false)),
        Some(b'n') => Ok(Json::Null),
        Some(_) | None => Ok(Json::Number(text.to_owned())),
    }
}

fn within<T>(
    pointer: &mut String,
    step: &str,
    then: impl FnOnce(&mut String) -> Result<T, JsonError>,
) -> Result<T, JsonError> {
    let length = pointer.len();
    pointer.push('/');
    pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
    let result = then(pointer);
    pointer.truncate(length);
    result
}

fn check_nul(text: &str, pointer: &str) -> Result<(), JsonError> {
    if text.contains('\0') { Err(problem(pointer, JsonProblem::Nul)) } else { Ok(()) }
}

/// An object's members in their order, repeats included.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut out = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    out.push((key, map.next_value::<&RawValue>()?));
                }
                Ok(Members(out))
            }
        }
        d.deserialize_map(V)
    }
}

impl Json {
    /// The member of an object, or `None`.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(s) => Some(s),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => None,
        }
    }

    pub fn as_array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(items) => Some(items),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => None,
        }
    }

    /// Follows a JSON Pointer (RFC 6901).
    pub fn pointer(&self, pointer: &str) -> Option<&Json> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |value, step| {
            let step = step.replace("~1", "/").replace("~0", "~");
            match value {
                Json::Object(_) => value.get(&step),
                Json::Array(items) => items.get(step.parse::<usize>().ok()?),
                Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => None,
            }
        })
    }

    /// The canonical text: members sorted by key, no white space, numbers as received. Equal texts mean equal content; numbers that
    /// were written differently (`1.0` and `1.00`) count as different content, since nobody can know that they print the same.
    pub fn canonical(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, true);
        out
    }

    /// The same value with its members in the order received.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, false);
        out
    }

    fn write(&self, out: &mut String, sorted: bool) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Json::Number(n) => out.push_str(n),
            Json::String(s) => quote(s, out),
            Json::Array(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    item.write(out, sorted);
                }
                out.push(']');
            }
            Json::Object(members) => {
                let mut order: Vec<&(String, Json)> = members.iter().collect();
                if sorted {
                    order.sort_by(|a, b| a.0.cmp(&b.0));
                }
                out.push('{');
                for (i, (key, value)) in order.into_iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    quote(key, out);
                    out.push(':');
                    value.write(out, sorted);
                }
                out.push('}');
            }
        }
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            // SQS carries XML 1.0 characters only; escaping U+FFFE and U+FFFF here keeps every text that we write sendable.
            c if (c as u32) < 0x20 || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> JsonError {
        parse(text.as_bytes()).unwrap_err()
    }

    #[test]
    fn in_01_repeated_keys_are_refused_with_their_pointer_also_when_spelt_with_escapes() {
        assert_eq!(
            error(r#"{"recipients":[1],"recipi\u0065nts":[2]}"#),
            problem("/recipients", JsonProblem::RepeatedKey)
        );
        assert_eq!(error(r#"{"data":{"a/b":{"x":1,"x":1}}}"#), problem("/data/a~1b/x", JsonProblem::RepeatedKey));
        assert_eq!(error(r#"{"l":[0,{"k":1,"k":2}]}"#), problem("/l/1/k", JsonProblem::RepeatedKey));
    }

    #[test]
    fn pg_04_nul_lone_surrogates_and_bad_utf_8_are_refused_with_their_pointer_and_the_escaped_text_is_kept() {
        assert_eq!(error(r#"{"data":{"name":"Ana\u0000"}}"#), problem("/data/name", JsonProblem::Nul));
        assert_eq!(error(r#"{"data":{"n\u0000":1}}"#).problem, JsonProblem::Nul);
        let lone = error(r#"{"data":{"name":"\ud800"}}"#);
        assert_eq!(lone.pointer, "/data/name");
        assert!(matches!(lone.problem, JsonProblem::Syntax(_)));
        assert_eq!(parse(b"{\"a\":\"\xff\"}").unwrap_err().problem, JsonProblem::Utf8);
        let kept = parse(br#"{"a":"\\u0000"}"#).unwrap();
        assert_eq!(kept.get("a").unwrap().as_str(), Some("\\u0000"));
    }

    #[test]
    fn lists_and_escapes_are_written_as_they_are_read() {
        let text = r#"[1,[],[2,{"a":[3]}]," \u001f"]"#;
        let json = parse(text.as_bytes()).unwrap();
        assert_eq!((json.to_text().as_str(), json.canonical().as_str()), (text, text));
        assert_eq!(json.as_array().map(<[Json]>::len), Some(4));
        assert_eq!(json.get("a"), None);
    }

    #[test]
    fn objects_too_have_a_deepest_level() {
        let nested = |depth: usize| parse(format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth)).as_bytes());
        assert!(nested(MAX_DEPTH).is_ok());
        assert!(matches!(nested(MAX_DEPTH + 1), Err(JsonError { problem: JsonProblem::TooDeep, .. })));
    }

    #[test]
    fn in_02_deep_nesting_is_refused_without_a_stack_overflow() {
        let deep = "[".repeat(200_000) + &"]".repeat(200_000);
        assert_eq!(error(&deep).problem, JsonProblem::TooDeep);
        let fits = "[".repeat(MAX_DEPTH) + &"]".repeat(MAX_DEPTH);
        assert!(parse(fits.as_bytes()).is_ok());
    }

    #[test]
    fn numbers_keep_their_text_and_order_of_members_does_not_matter() {
        let a = parse(br#"{"b":1.10,"a":9007199254740993}"#).unwrap();
        let b = parse(br#" { "a" : 9007199254740993 , "b" : 1.10 } "#).unwrap();
        assert_eq!(a.canonical(), r#"{"a":9007199254740993,"b":1.10}"#);
        assert_eq!(a.canonical(), b.canonical());
        assert_ne!(a.canonical(), parse(br#"{"b":1.1,"a":9007199254740993}"#).unwrap().canonical());
        assert_ne!(a.canonical(), parse(br#"{"b":1.10,"a":9007199254740992}"#).unwrap().canonical());
    }

    #[test]
    fn sqs_03_characters_outside_xml_are_escaped_in_what_we_write() {
        let value = parse("\"Ana\u{ffff}\\u0001\"".as_bytes()).unwrap();
        assert_eq!(value.to_text(), "\"Ana\\uffff\\u0001\"");
        assert_eq!(parse(value.to_text().as_bytes()).unwrap(), value);
    }

    #[test]
    fn pointers_reach_into_objects_and_arrays() {
        let v = parse(br#"{"a/b":[{"m~n":"x"}]}"#).unwrap();
        assert_eq!(v.pointer("/a~1b/0/m~0n").and_then(Json::as_str), Some("x"));
        assert_eq!(v.pointer("/a~1b/7"), None);
        assert_eq!(v.pointer(""), Some(&v));
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_read_is_read_again_from_its_canonical_text(text in r#"[\[\]{}",:0-9a-e\\u. -]{0,60}"#) {
            if let Ok(value) = parse(text.as_bytes()) {
                let again = parse(value.canonical().as_bytes()).unwrap();
                proptest::prop_assert_eq!(again.canonical(), value.canonical());
            }
        }
    }
}
