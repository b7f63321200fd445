//! Reading a fault script. Strict, because a misspelt fault would make a test pass for the wrong reason.

use serde_json::{Map, Value};

use crate::{
    faults::{Fault, FaultKind},
    mail::Provider,
    problem::FieldError,
};

const FIELDS: [&str; 6] = ["provider", "fault", "count", "delay_ms", "match", "percent"];
const MAX_DELAY_MS: u64 = 600_000;

/// The script, or every mistake in it.
pub(super) fn parse(body: &Value) -> Result<Vec<Fault>, Vec<FieldError>> {
    let Some(entries) = body.as_array() else {
        return Err(vec![FieldError::new("", "expected an array of faults")]);
    };
    let mut errors = Vec::new();
    let faults = entries.iter().enumerate().filter_map(|(at, entry)| parse_entry(at, entry, &mut errors)).collect();
    if errors.is_empty() { Ok(faults) } else { Err(errors) }
}

fn parse_entry(at: usize, entry: &Value, errors: &mut Vec<FieldError>) -> Option<Fault> {
    let Some(entry) = entry.as_object() else {
        errors.push(FieldError::new(format!("/{at}"), "expected an object"));
        return None;
    };
    for name in entry.keys().filter(|name| !FIELDS.contains(&name.as_str())) {
        errors.push(FieldError::new(format!("/{at}/{name}"), format!("unknown field; known: {}", FIELDS.join(", "))));
    }
    let mut fields = Fields { at, entry, errors };
    let provider = fields.name("provider", |name| name.parse().ok(), &Provider::ALL.map(Provider::as_str));
    let known: Vec<&str> = FaultKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let fault = fields.name("fault", FaultKind::parse, &known);
    let count = fields.number("count", 1, u64::MAX);
    let delay_ms = fields.number("delay_ms", 0, MAX_DELAY_MS);
    let percent = fields.number("percent", 1, 100).and_then(|percent| u8::try_from(percent).ok());
    let recipient = fields.text("match");
    Some(Fault { provider: provider?, fault: fault?, count, delay_ms, recipient, percent })
}

struct Fields<'a> {
    at: usize,
    entry: &'a Map<String, Value>,
    errors: &'a mut Vec<FieldError>,
}

impl Fields<'_> {
    fn wrong(&mut self, name: &str, detail: String) {
        self.errors.push(FieldError::new(format!("/{}/{name}", self.at), detail));
    }

    fn name<T>(&mut self, name: &str, parse: impl Fn(&str) -> Option<T>, known: &[&str]) -> Option<T> {
        let parsed = self.entry.get(name).and_then(Value::as_str).and_then(parse);
        if parsed.is_none() {
            self.wrong(name, format!("required; one of {}", known.join(", ")));
        }
        parsed
    }

    fn number(&mut self, name: &str, min: u64, max: u64) -> Option<u64> {
        let value = self.entry.get(name).filter(|value| !value.is_null())?;
        let number = value.as_u64().filter(|number| (min..=max).contains(number));
        if number.is_none() {
            let range = if max == u64::MAX { format!("{min} or more") } else { format!("{min} to {max}") };
            self.wrong(name, format!("expected a whole number, {range}"));
        }
        number
    }

    fn text(&mut self, name: &str) -> Option<String> {
        let value = self.entry.get(name).filter(|value| !value.is_null())?;
        let text = value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        if text.is_none() {
            self.wrong(name, "expected a text that is not empty".to_owned());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_full_entry_is_read() {
        let body = json!([{ "provider": "sendgrid", "fault": "slow", "count": 2, "delay_ms": 10, "match": "ada", "percent": 5 }]);
        let expected = Fault {
            provider: Provider::SendGrid,
            fault: FaultKind::Slow,
            count: Some(2),
            delay_ms: Some(10),
            recipient: Some("ada".to_owned()),
            percent: Some(5),
        };
        assert_eq!(parse(&body), Ok(vec![expected]));
    }

    #[test]
    fn every_mistake_is_named_by_its_pointer() {
        let body = json!([
            { "provider": "ses", "fault": "http_500" },
            { "provider": "postbus", "fault": "explode", "count": 0, "delay_ms": -1, "match": "", "percent": 101, "x": 1 },
            17,
        ]);
        let pointers: Vec<String> = parse(&body).unwrap_err().into_iter().map(|error| error.pointer).collect();
        let expected = ["/1/x", "/1/provider", "/1/fault", "/1/count", "/1/delay_ms", "/1/percent", "/1/match", "/2"];
        assert_eq!(pointers, expected);
    }
}
