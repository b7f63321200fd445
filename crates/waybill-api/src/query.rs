//! Query parameters, read strictly: an unknown, repeated or odd one is a 400 that names it. A misspelt filter must not list everything.

use crate::problem::Problem;
use axum::extract::Query;
use chrono::{DateTime, Utc};
use hyper::Uri;
use std::str::FromStr;

/// Page sizes that are allowed.
pub const MAX_LIMIT: usize = 200;
pub const DEFAULT_LIMIT: usize = 50;

/// The parameters of one request.
#[derive(Debug)]
pub struct Params(Vec<(String, String)>);

impl Params {
    /// Takes the query apart and checks every name against `known`.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn read(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|_| Problem::parameter("query", "not a readable query string"))?;
        for (index, (name, value)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let shown: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
                return Err(Problem::parameter(&shown, format!("unknown parameter; known are {}", known.join(", "))));
            }
            if pairs[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(Problem::parameter(name, "given more than once"));
            }
            // U+FFFD is what percent-encoded bytes become that are not UTF-8; U+0000 is a value no row can hold.
            if value.is_empty()
                || value.chars().count() > 320
                || value.contains(|c: char| c.is_control() || c == '\u{fffd}')
            {
                return Err(Problem::parameter(name, "1 to 320 characters of UTF-8 without control characters"));
            }
        }
        Ok(Self(pairs))
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Reads a value with `read`.
    ///
    /// # Errors
    /// 400 naming the parameter, with `read`'s words.
    pub fn parse<T>(&self, name: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Result<Option<T>, Problem> {
        self.text(name).map(|value| read(value).map_err(|detail| Problem::parameter(name, detail))).transpose()
    }

    pub fn id<T: FromStr<Err = waybill_core::ids::IdError>>(&self, name: &str) -> Result<Option<T>, Problem> {
        self.parse(name, |text| text.parse().map_err(|e: waybill_core::ids::IdError| e.to_string()))
    }

    pub fn time(&self, name: &str) -> Result<Option<DateTime<Utc>>, Problem> {
        self.parse(name, |text| {
            let time = DateTime::parse_from_rfc3339(text)
                .map_err(|_| "expected an RFC 3339 time such as 2026-11-30T09:00:00Z (write `+` as %2B)".to_owned())?;
            Ok(time.with_timezone(&Utc))
        })
    }

    pub fn limit(&self) -> Result<usize, Problem> {
        let limit = self.parse("limit", |text| {
            let digits = text.bytes().all(|b| b.is_ascii_digit());
            let number = text.parse::<usize>().ok().filter(|n| digits && (1..=MAX_LIMIT).contains(n));
            number.ok_or_else(|| format!("a whole number from 1 to {MAX_LIMIT}"))
        })?;
        Ok(limit.unwrap_or(DEFAULT_LIMIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Params, Problem> {
        Params::read(&format!("/jobs?{query}").parse().unwrap(), &["limit", "since", "subject"])
    }
    fn detail(result: Result<impl std::fmt::Debug, Problem>) -> String {
        result.unwrap_err().body().detail.clone()
    }

    #[test]
    fn unknown_repeated_and_odd_parameters_are_named() {
        assert!(detail(read("limits=1")).starts_with("`limits`: unknown parameter; known are limit"));
        assert!(detail(read("limit=1&limit=1")).contains("`limit`: given more than once"));
        for odd in ["subject=", "subject=%00", "subject=%ff", "subject=a%0Ab"] {
            assert!(detail(read(odd)).starts_with("`subject`"), "{odd}");
        }
    }

    #[test]
    fn a_limit_is_1_to_200() {
        assert_eq!(read("").unwrap().limit().unwrap(), DEFAULT_LIMIT);
        assert_eq!(read("limit=200").unwrap().limit().unwrap(), 200);
        for bad in ["0", "201", "-1", "%2B5", "1.0", "x", "99999999999999999999999"] {
            assert!(detail(read(&format!("limit={bad}")).unwrap().limit()).contains("1 to 200"), "{bad}");
        }
    }

    #[test]
    fn times_are_rfc_3339() {
        let time = |q: &str| read(q).unwrap().time("since");
        assert_eq!(
            time("since=2026-11-30T10:00:00%2B01:00").unwrap().unwrap().to_rfc3339(),
            "2026-11-30T09:00:00+00:00"
        );
        assert!(detail(time("since=2026-11-30T10:00:00+01:00")).contains("%2B"));
        assert!(time("since=yesterday").is_err());
    }
}
