//! An event, checked field by field.
//!
//! The contract is that of CloudEvents 1.0 attributes (`specversion`, `id`, `source`, `type`, `subject`, `time`, `data`) with four
//! members of ours: `revision`, `ordering_key`, `recipients` and `expires_at`. Control fields are closed: a name
//! we don't know is refused, because a misspelt `recipient` must not send nothing in silence. `data` is free.

use crate::{
    address::EmailAddress,
    json::{Json, JsonError},
    trace::Traceparent,
};
use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};

/// Bounds of one event. Every refusal names the limit and its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventLimits {
    pub max_recipients: usize,
}

impl Default for EventLimits {
    fn default() -> Self {
        Self { max_recipients: 10_000 }
    }
}

const MAX_TEXT: usize = 255;
const MAX_NAME: usize = 200;
const MAX_ORDERING_KEY: usize = 128;

/// A person to reach, as named by the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipient {
    pub email: EmailAddress,
    /// Display name; may be empty.
    pub name: String,
}

/// A checked event.
#[derive(Debug, Clone)]
pub struct Event {
    pub id: String,
    pub source: String,
    pub event_type: String,
    pub subject: Option<String>,
    pub time: Option<DateTime<Utc>>,
    /// As given; `None` means: by content.
    pub revision: Option<String>,
    /// Events of one key go out in the order of their acceptance.
    pub ordering_key: Option<String>,
    pub recipients: Vec<Recipient>,
    pub expires_at: Option<DateTime<Utc>>,
    pub data: Json,
    /// SHA-256 of the canonical form of the whole event: two posts with one key must agree in it.
    pub fingerprint: [u8; 32],
    /// Of the request or message that brought it; not a member of the event, and not in its fingerprint. Set by whoever received it.
    pub trace: Option<Traceparent>,
}

/// One thing that is wrong with an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// JSON Pointer.
    pub pointer: String,
    /// Stable word for programs.
    pub code: &'static str,
    /// Says what to do.
    pub detail: String,
}

impl From<&JsonError> for FieldError {
    fn from(error: &JsonError) -> Self {
        FieldError { pointer: error.pointer.clone(), code: "invalid_json", detail: error.problem.to_string() }
    }
}

impl Event {
    /// The revision that the identity is made of: the event's own, else the SHA-256 of the canonical `data`.
    pub fn effective_revision(&self) -> String {
        self.revision.clone().unwrap_or_else(|| hex::encode(Sha256::digest(self.data.canonical().as_bytes())))
    }

    /// Checks a parsed document.
    ///
    /// # Errors
    /// Every problem found, not only the first.
    pub fn from_json(json: &Json, limits: &EventLimits) -> Result<Event, Vec<FieldError>> {
        let Json::Object(members) = json else {
            return Err(vec![FieldError {
                pointer: String::new(),
                code: "not_an_object",
                detail: "an event is a JSON object".into(),
            }]);
        };
        let mut fields = Fields { json, errors: Vec::new() };
        const KNOWN: [&str; 13] = [
            "specversion",
            "id",
            "source",
            "type",
            "subject",
            "time",
            "datacontenttype",
            "dataschema",
            "revision",
            "ordering_key",
            "recipients",
            "expires_at",
            "data",
        ];
        for (key, _) in members.iter().filter(|(key, _)| !KNOWN.contains(&key.as_str())) {
            let pointer = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
            fields.error(
                pointer,
                "unknown_field",
                format!("not a field of an event; known are {}. Free-form content goes into `data`", KNOWN.join(", ")),
            );
        }
        if fields.text("specversion").is_some_and(|v| v != "1.0") {
            fields.error(
                "/specversion".into(),
                "unsupported",
                "only \"1.0\" is supported; the field may be left out".into(),
            );
        }
        if fields.text("datacontenttype").is_some_and(|v| v != "application/json") {
            fields.error("/datacontenttype".into(), "unsupported", "`data` is always application/json".into());
        }
        fields.text("dataschema");
        let event = Event {
            id: fields.required_text("id"),
            source: fields.required_text("source"),
            event_type: fields.required_text("type"),
            subject: fields.text("subject"),
            time: fields.time("time"),
            revision: fields.revision(),
            ordering_key: fields.text_up_to("ordering_key", MAX_ORDERING_KEY),
            recipients: fields.recipients(limits),
            expires_at: fields.time("expires_at"),
            data: fields.data(),
            fingerprint: Sha256::digest(json.canonical().as_bytes()).into(),
            trace: None,
        };
        if fields.errors.is_empty() { Ok(event) } else { Err(fields.errors) }
    }
}

struct Fields<'a> {
    json: &'a Json,
    errors: Vec<FieldError>,
}

impl Fields<'_> {
    fn error(&mut self, pointer: String, code: &'static str, detail: String) {
        self.errors.push(FieldError { pointer, code, detail });
    }

    fn present(&self, name: &str) -> Option<&Json> {
        self.json.get(name).filter(|value| **value != Json::Null)
    }

    fn text(&mut self, name: &str) -> Option<String> {
        self.text_up_to(name, MAX_TEXT)
    }

    fn text_up_to(&mut self, name: &str, max: usize) -> Option<String> {
        match self.present(name)? {
            Json::String(text)
                if text.is_empty() || text.chars().count() > max || text.chars().any(char::is_control) =>
            {
                self.error(
                    format!("/{name}"),
                    "invalid_text",
                    format!("1 to {max} characters without control characters"),
                );
                None
            }
            Json::String(text) => Some(text.clone()),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
                self.error(format!("/{name}"), "not_a_string", "expected a string".into());
                None
            }
        }
    }

    fn required_text(&mut self, name: &str) -> String {
        if self.present(name).is_none() {
            self.error(format!("/{name}"), "required", format!("`{name}` is required"));
            return String::new();
        }
        self.text(name).unwrap_or_default()
    }

    fn time(&mut self, name: &str) -> Option<DateTime<Utc>> {
        let text = self.text(name)?;
        match DateTime::parse_from_rfc3339(&text) {
            Ok(time) => Some(time.with_timezone(&Utc)),
            Err(_) => {
                self.error(
                    format!("/{name}"),
                    "invalid_time",
                    "expected an RFC 3339 time such as 2026-11-30T09:00:00Z".into(),
                );
                None
            }
        }
    }

    fn revision(&mut self) -> Option<String> {
        match self.present("revision")? {
            Json::Number(text) if !text.is_empty() && text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit()) => {
                Some(text.clone())
            }
            Json::String(text) if (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) => {
                Some(text.clone())
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => {
                let detail = "a whole number of at most 18 digits (compared as a number: the higher one is newer) or 1 to 64 printable ASCII characters";
                self.error("/revision".into(), "invalid_revision", detail.into());
                None
            }
        }
    }

    fn data(&mut self) -> Json {
        match self.present("data").cloned() {
            Some(data) => data,
            None => {
                self.error("/data".into(), "required", "`data` is required; it is what the document is made of".into());
                Json::Null
            }
        }
    }

    fn recipients(&mut self, limits: &EventLimits) -> Vec<Recipient> {
        let Some(value) = self.present("recipients").cloned() else { return Vec::new() };
        let Json::Array(items) = value else {
            self.error("/recipients".into(), "not_an_array", "expected an array of {\"email\", \"name\"}".into());
            return Vec::new();
        };
        if items.len() > limits.max_recipients {
            self.error(
                "/recipients".into(),
                "too_many_recipients",
                format!("{} recipients; the limit max_recipients is {}", items.len(), limits.max_recipients),
            );
            return Vec::new();
        }
        let mut out = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            // A body full of garbage is answered with the first hundred problems, not with a megabyte of them.
            if self.errors.len() >= 100 {
                break;
            }
            match recipient(item) {
                Ok(recipient) => out.push(recipient),
                Err((step, code, detail)) => self.error(format!("/recipients/{index}{step}"), code, detail),
            }
        }
        out
    }
}

type RecipientProblem = (String, &'static str, String);

/// Reads one recipient: an object with `email` and an optional `name`, or a bare address.
///
/// # Errors
/// The pointer below the recipient, a code and what to do.
pub fn recipient(item: &Json) -> Result<Recipient, RecipientProblem> {
    let (address, name) = match item {
        Json::String(text) => (text.as_str(), ""),
        Json::Object(members) => {
            if let Some((key, _)) = members.iter().find(|(key, _)| key != "email" && key != "name") {
                return Err((
                    format!("/{}", key.replace('~', "~0").replace('/', "~1")),
                    "unknown_field",
                    "a recipient has `email` and `name`".into(),
                ));
            }
            let Some(address) = item.get("email").and_then(Json::as_str) else {
                return Err(("/email".into(), "required", "`email` is required and is a string".into()));
            };
            let name = match item.get("name") {
                None | Some(Json::Null) => "",
                Some(Json::String(name)) => name.as_str(),
                Some(Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => {
                    return Err(("/name".into(), "not_a_string", "expected a string".into()));
                }
            };
            (address, name)
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) => {
            return Err((String::new(), "not_a_recipient", "expected {\"email\", \"name\"} or an address".into()));
        }
    };
    if name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
        return Err((
            "/name".into(),
            "invalid_text",
            format!("at most {MAX_NAME} characters without control characters"),
        ));
    }
    let step = if matches!(item, Json::Object(_)) { "/email" } else { "" };
    let email = EmailAddress::parse(address).map_err(|e| (step.to_owned(), "invalid_address", e.to_string()))?;
    Ok(Recipient { email, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn read(text: &str) -> Result<Event, Vec<FieldError>> {
        Event::from_json(&json::parse(text.as_bytes()).unwrap(), &EventLimits { max_recipients: 3 })
    }
    fn codes(text: &str) -> Vec<(String, &'static str)> {
        read(text).unwrap_err().into_iter().map(|e| (e.pointer, e.code)).collect()
    }
    const MINIMAL: &str = r#"{"id":"1","source":"/s","type":"t","data":{"a":1}}"#;

    #[test]
    fn a_minimal_event_is_read() {
        let event = read(MINIMAL).unwrap();
        assert_eq!((event.id.as_str(), event.event_type.as_str()), ("1", "t"));
        assert_eq!(event.effective_revision().len(), 64);
    }

    #[test]
    fn every_problem_is_named_at_once() {
        let found = codes(
            r#"{"id":7,"type":"","specversion":"0.3","recipient":[],"time":"soon","recipients":[{"email":"x"},{"name":"n"},{"email":"a@b.example","nick":1}]}"#,
        );
        for wanted in [
            ("/recipient", "unknown_field"),
            ("/specversion", "unsupported"),
            ("/id", "not_a_string"),
            ("/source", "required"),
            ("/type", "invalid_text"),
            ("/time", "invalid_time"),
            ("/recipients/0/email", "invalid_address"),
            ("/recipients/1/email", "required"),
            ("/recipients/2/nick", "unknown_field"),
            ("/data", "required"),
        ] {
            assert!(found.iter().any(|(p, c)| (p.as_str(), *c) == wanted), "{wanted:?} in {found:?}");
        }
    }

    #[test]
    fn in_02_too_many_recipients_names_the_limit_and_its_number() {
        let errors = read(&MINIMAL.replace("{\"id\"", r#"{"recipients":[{},{},{},{}],"id""#)).unwrap_err();
        assert_eq!(errors.len(), 1);
        assert!(errors[0].detail.contains("max_recipients is 3"), "{errors:?}");
    }

    #[test]
    fn the_fingerprint_ignores_spelling_of_white_space_and_order_and_nothing_else() {
        let same = read(r#" {"data":{"a":1}, "type":"t","source":"/s","id":"1"}"#).unwrap();
        assert_eq!(same.fingerprint, read(MINIMAL).unwrap().fingerprint);
        assert_ne!(read(&MINIMAL.replace("\"a\":1", "\"a\":1.0")).unwrap().fingerprint, same.fingerprint);
    }

    #[test]
    fn an_ordering_key_is_a_short_text_and_part_of_the_content() {
        let with = |key: &str| read(&MINIMAL.replace("{\"id\"", &format!("{{\"ordering_key\":{key},\"id\"")));
        let longest = "ä".repeat(128);
        assert_eq!(with(&format!("\"{longest}\"")).unwrap().ordering_key.as_deref(), Some(longest.as_str()));
        assert_eq!(with("null").unwrap().ordering_key, None);
        for (bad, code) in [
            ("\"\"", "invalid_text"),
            (&*format!("\"{longest}x\""), "invalid_text"),
            ("\"a\\u0007\"", "invalid_text"),
            ("7", "not_a_string"),
        ] {
            let error = with(bad).unwrap_err().remove(0);
            assert_eq!((error.pointer.as_str(), error.code), ("/ordering_key", code), "{bad}");
            assert!(code != "invalid_text" || error.detail.contains("128"), "{}", error.detail);
        }
        assert_ne!(with("\"a\"").unwrap().fingerprint, with("\"b\"").unwrap().fingerprint);
    }

    #[test]
    fn a_name_is_a_line_of_bounded_length_and_the_content_type_is_json() {
        let named = |name: &str| {
            let recipients = format!(r#"{{"recipients":[{{"email":"a@b.example","name":"{name}"}}],"id""#);
            read(&MINIMAL.replace("{\"id\"", &recipients))
        };
        assert_eq!(named(&"n".repeat(200)).unwrap().recipients[0].name.len(), 200);
        for bad in ["n".repeat(201), "a\\u0007b".into()] {
            assert_eq!(named(&bad).unwrap_err()[0].pointer, "/recipients/0/name", "{bad}");
        }
        let typed = |text: &str| read(&MINIMAL.replace("{\"id\"", &format!(r#"{{"datacontenttype":"{text}","id""#)));
        assert!(typed("application/json").is_ok());
        assert_eq!(typed("text/plain").unwrap_err()[0].pointer, "/datacontenttype");
    }

    #[test]
    fn a_revision_is_a_number_or_a_short_text() {
        let with = |r: &str| read(&MINIMAL.replace("{\"id\"", &format!("{{\"revision\":{r},\"id\"")));
        assert_eq!(with("7").unwrap().effective_revision(), "7");
        assert_eq!(with("\"v7\"").unwrap().effective_revision(), "v7");
        for bad in ["-1", "1.5", "1e3", "\"\"", "\"a b\"", "[]", "1234567890123456789"] {
            assert_eq!(with(bad).unwrap_err()[0].code, "invalid_revision", "{bad}");
        }
    }
}
