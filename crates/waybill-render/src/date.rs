//! Calendar dates: no time, no zone.

use chrono::{Datelike, NaiveDate};
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// A day of the calendar, in the data as `2026-11-30`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Date(NaiveDate);

impl Date {
    fn parse(text: &str) -> Option<Self> {
        // Length and first digit, because the format alone would also take `+2026-1-5`.
        let shaped = text.len() == 10 && text.as_bytes()[0].is_ascii_digit();
        if shaped { NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().map(Self) } else { None }
    }

    /// In words that every English reader takes for the same day: `30 November 2026`.
    pub(crate) fn format(self) -> String {
        self.0.format("%-d %B %Y").to_string()
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("expected a date such as 2026-11-30"))
    }
}

/// As numbers, for the template.
impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut date = serializer.serialize_struct("Date", 3)?;
        date.serialize_field("year", &self.0.year())?;
        date.serialize_field("month", &self.0.month())?;
        date.serialize_field("day", &self.0.day())?;
        date.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_days_that_exist_are_dates() {
        assert_eq!(Date::parse("2026-11-30").map(Date::format).as_deref(), Some("30 November 2026"));
        assert_eq!(Date::parse("2028-02-29").map(Date::format).as_deref(), Some("29 February 2028"));
        for text in ["2026-02-29", "2026-13-01", "2026-1-5", "+2026-1-05", "30.11.2026", "2026-11-30T00:00:00Z", ""] {
            assert_eq!(Date::parse(text), None, "{text}");
        }
    }
}
