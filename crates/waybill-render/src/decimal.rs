//! Decimal numbers, exact: whole units of a power of ten. No binary float anywhere.

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::value::RawValue;

use crate::text::scalar_text;

/// `units / 10^scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal {
    units: i128,
    scale: u32,
}

/// As many digits as the yearly product of the world has, in rupiah: more than any order needs, few enough that three
/// such columns fit on a page, and that the product of two numbers always fits into an `i128`.
const MAX_DIGITS: usize = 18;

/// The limit of a computed amount, in minor units: as many digits as an amount that is given.
const MAX_MINOR: u128 = 10_u128.pow(18) - 1;

impl Decimal {
    pub(crate) const ZERO: Self = Self { units: 0, scale: 0 };

    /// Reads what JSON calls a number (RFC 8259 section 6), in a string or not; a leading `+` is fine, too.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        const NOT_A_NUMBER: &str = "is not a decimal number such as 12.50 (no grouping, a point before the fraction)";
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| NOT_A_NUMBER)?),
            None => (text, 0),
        };
        let (negative, unsigned) = match mantissa.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
        };
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
        let digits_only = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !digits_only(whole) || !digits_only(fraction) {
            return Err(NOT_A_NUMBER);
        }
        let number = Self::from_digits(negative, whole, fraction.trim_end_matches('0'), exponent);
        number.ok_or("has more than 18 digits")
    }

    fn from_digits(negative: bool, whole: &str, fraction: &str, exponent: i32) -> Option<Self> {
        let mut digits = format!("{whole}{fraction}");
        let mut scale = i64::try_from(fraction.len()).ok()? - i64::from(exponent);
        if digits.bytes().all(|digit| digit == b'0') {
            return Some(Self::ZERO);
        }
        while scale > 0 && digits.ends_with('0') {
            digits.pop();
            scale -= 1;
        }
        let significant = digits.trim_start_matches('0').len();
        let zeros_to_add = usize::try_from(-scale).unwrap_or(0);
        let fraction_length = usize::try_from(scale).unwrap_or(0);
        if significant.saturating_add(zeros_to_add) > MAX_DIGITS || fraction_length > MAX_DIGITS {
            return None;
        }
        digits.extend(std::iter::repeat_n('0', zeros_to_add));
        let units: i128 = digits.parse().ok()?;
        Some(Self { units: if negative { -units } else { units }, scale: u32::try_from(fraction_length).ok()? })
    }

    /// How many digits the fraction needs; trailing zeros do not count.
    pub(crate) fn scale(self) -> u32 {
        self.scale
    }

    pub(crate) fn is_positive(self) -> bool {
        self.units > 0
    }

    pub(crate) fn is_negative(self) -> bool {
        self.units < 0
    }

    /// The exact product; `None` if it has more digits than fit.
    pub(crate) fn times(self, other: Self) -> Option<Self> {
        Some(Self { units: self.units.checked_mul(other.units)?, scale: self.scale + other.scale })
    }

    /// A hundredth of the number, exactly.
    pub(crate) fn percent(self) -> Self {
        Self { units: self.units, scale: self.scale + 2 }
    }

    /// Whole units of `10^-minor`, rounded half away from zero, as commerce does. `None` if they are too many.
    pub(crate) fn to_minor(self, minor: u32) -> Option<Minor> {
        if self.scale <= minor {
            return Minor::bounded(self.units.checked_mul(10_i128.checked_pow(minor - self.scale)?)?);
        }
        let Some(divisor) = 10_i128.checked_pow(self.scale - minor) else {
            // The divisor is 10^39 or more, so its half is above every i128.
            return Some(Minor(0));
        };
        let (quotient, remainder) = (self.units / divisor, self.units % divisor);
        let away = if remainder.abs() >= divisor / 2 { self.units.signum() } else { 0 };
        Minor::bounded(quotient + away)
    }

    /// The whole units of `10^-minor` if the number has no finer part.
    pub(crate) fn to_minor_exactly(self, minor: u32) -> Option<Minor> {
        if self.scale > minor { None } else { self.to_minor(minor) }
    }

    /// The number with grouped thousands and at least `places` digits in the fraction.
    pub(crate) fn format(self, places: u32) -> String {
        let places = places.max(self.scale);
        let missing = usize::try_from(places - self.scale).unwrap_or(0);
        let digits = format!("{}{}", self.units.unsigned_abs(), "0".repeat(missing));
        group(self.units < 0, &digits, usize::try_from(places).unwrap_or(0))
    }
}

/// An amount in whole minor units of a currency, such as cents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Minor(pub(crate) i128);

impl Minor {
    fn bounded(units: i128) -> Option<Self> {
        (units.unsigned_abs() <= MAX_MINOR).then_some(Self(units))
    }

    /// The sum; `None` if it is too large.
    pub(crate) fn plus(self, other: Self) -> Option<Self> {
        Self::bounded(self.0.checked_add(other.0)?)
    }

    /// The amount as a decimal number, to compute with.
    pub(crate) fn decimal(self, minor: u32) -> Decimal {
        Decimal { units: self.0, scale: minor }
    }

    /// The amount with grouped thousands and exactly `minor` digits in the fraction.
    pub(crate) fn format(self, minor: u32) -> String {
        self.decimal(minor).format(minor)
    }
}

/// Sets `digits` as a number whose last `places` digits are the fraction. The minus is U+2212, as wide as a digit.
fn group(negative: bool, digits: &str, places: usize) -> String {
    let padded = format!("{digits:0>width$}", width = places + 1);
    let (whole, fraction) = padded.split_at(padded.len() - places);
    let mut text = String::from(if negative { "\u{2212}" } else { "" });
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if places > 0 {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let text = scalar_text(&raw).ok_or_else(|| D::Error::custom("expected a number, or a string with one"))?;
        Self::parse(text.trim()).map_err(D::Error::custom)
    }
}

#[cfg(test)]
#[path = "decimal_tests.rs"]
mod tests;
