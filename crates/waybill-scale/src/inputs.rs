//! The numbers that the simulation is fed with: `measured.json`, where each has its source.

use serde_json::Value;

const MEASURED: &str = include_str!("../measured.json");

/// All numbers, by name.
#[derive(Debug, Clone)]
pub struct Inputs(Value);

impl Default for Inputs {
    fn default() -> Self {
        Self(serde_json::from_str(MEASURED).unwrap_or(Value::Null))
    }
}

impl Inputs {
    /// The value called `name`; NaN where there is none, which no result survives (a test looks at all of them).
    pub fn get(&self, name: &str) -> f64 {
        self.0["values"][name]["value"].as_f64().unwrap_or(f64::NAN)
    }

    pub fn set(&mut self, name: &str, value: f64) {
        self.0["values"][name]["value"] = value.into();
    }

    /// Milliseconds as seconds.
    pub fn ms(&self, name: &str) -> f64 {
        self.get(name) / 1_000.0
    }

    pub fn count(&self, name: &str) -> usize {
        self.get(name) as usize
    }

    /// Of every number: its name, its value and its source.
    pub fn all(&self) -> Vec<(&str, f64, &str)> {
        let values = self.0["values"].as_object();
        values
            .into_iter()
            .flatten()
            .map(|(name, v)| {
                (name.as_str(), v["value"].as_f64().unwrap_or(f64::NAN), v["source"].as_str().unwrap_or(""))
            })
            .collect()
    }
}

/// Seconds that a statement over `rows` takes: measured at 1, 10 and 100 rows, straight lines between and behind.
#[derive(Debug, Clone, Copy)]
pub struct StatementTime([(f64, f64); 3]);

impl StatementTime {
    pub fn new(inputs: &Inputs) -> Self {
        let at = |rows, name| (rows, inputs.ms(name));
        Self([at(1.0, "statement_1_ms"), at(10.0, "statement_10_ms"), at(100.0, "statement_100_ms")])
    }

    pub fn of(&self, rows: usize) -> f64 {
        let [a, b, c] = self.0;
        let rows = rows.max(1) as f64;
        let (from, to) = if rows <= b.0 { (a, b) } else { (b, c) };
        from.1 + (to.1 - from.1) * (rows - from.0) / (to.0 - from.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_a_number_and_says_where_it_comes_from() {
        let inputs = Inputs::default();
        assert!(inputs.all().len() > 30);
        for (name, value, source) in inputs.all() {
            assert!(value.is_finite() && value > 0.0, "{name}");
            assert!(!source.is_empty(), "{name}");
        }
    }

    #[test]
    fn statements_take_what_was_measured_and_grow_by_the_row_behind_it() {
        let time = StatementTime::new(&Inputs::default());
        for (rows, ms) in [(1, 0.90), (10, 1.05), (100, 7.74), (190, 14.43)] {
            assert!((time.of(rows) * 1_000.0 - ms).abs() < 0.001, "{rows} rows: {}", time.of(rows));
        }
    }
}
