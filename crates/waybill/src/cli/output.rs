//! Tables for people, JSON for programs.

use chrono::{DateTime, SecondsFormat, Utc};
use std::time::Duration;

/// A table with aligned columns.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = headings.iter().map(|h| h.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| -> String {
        let padded: Vec<String> = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let mut out = line(&mut headings.iter().copied());
    rows.iter().for_each(|row| out.push_str(&line(&mut row.iter().map(String::as_str))));
    out
}

pub(crate) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// `3 d 4 h`, `12 m 5 s`, `8 s`.
pub(crate) fn age(age: Duration) -> String {
    let s = age.as_secs();
    match s {
        0..60 => format!("{s} s"),
        60..3_600 => format!("{} m {} s", s / 60, s % 60),
        3_600..86_400 => format!("{} h {} m", s / 3_600, s % 3_600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_ages_are_short() {
        let text = table(&["a", "long"], &[vec!["xxx".into(), "y".into()]]);
        assert_eq!(text, "a    long\nxxx  y\n");
        assert_eq!(
            [8, 725, 7_260, 273_600].map(|s| age(Duration::from_secs(s))),
            ["8 s", "12 m 5 s", "2 h 1 m", "3 d 4 h"]
        );
    }
}
