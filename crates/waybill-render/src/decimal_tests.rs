use proptest::prelude::*;

use super::*;

fn decimal(text: &str) -> Decimal {
    Decimal::parse(text).unwrap()
}

#[test]
fn numbers_are_read_as_they_are_spelled() {
    for (text, places, shown) in [
        ("0", 2, "0.00"),
        ("-0.0", 0, "0"),
        ("12.50", 0, "12.5"),
        ("+12.5", 2, "12.50"),
        ("-1234567.891", 2, "\u{2212}1,234,567.891"),
        ("0.005", 2, "0.005"),
        ("1e3", 0, "1,000"),
        ("1.5E-3", 0, "0.0015"),
        ("1200e-2", 0, "12"),
        ("0.100000000000000006", 0, "0.100000000000000006"),
        ("9007199254740993", 0, "9,007,199,254,740,993"),
    ] {
        assert_eq!(decimal(text).format(places), shown, "{text}");
    }
}

#[test]
fn what_is_not_a_number_is_refused() {
    for text in ["", "-", ".", ".5", "5.", "1,000", "1 000", "0x10", "1e", "1e1.5", "NaN", "infinity", "--1", "١"] {
        assert!(Decimal::parse(text).is_err(), "{text}");
    }
}

#[test]
fn numbers_with_too_many_digits_are_refused_and_not_rounded() {
    let longest = "9".repeat(MAX_DIGITS);
    assert!(Decimal::parse(&longest).is_ok());
    assert!(Decimal::parse(&format!("{longest}9")).is_err());
    assert!(Decimal::parse("1e18").is_err());
    assert!(Decimal::parse("1e-19").is_err());
    assert!(Decimal::parse("1e2147483647").is_err());
    assert!(Decimal::parse("1e-2147483648").is_err());
    assert_eq!(decimal("0e2147483647"), Decimal::ZERO);
}

#[test]
fn halves_are_rounded_away_from_zero() {
    for (text, minor, expected) in [
        ("0.005", 2, 1),
        ("-0.005", 2, -1),
        ("0.0049999", 2, 0),
        ("1.015", 2, 102),
        ("2.5", 0, 3),
        ("-2.5", 0, -3),
        ("1.2345", 3, 1235),
        ("7", 3, 7000),
    ] {
        assert_eq!(decimal(text).to_minor(minor), Some(Minor(expected)), "{text}");
    }
}

#[test]
fn tiny_products_round_to_zero_and_huge_ones_are_an_overflow() {
    let tiny = decimal("1e-18").times(decimal("1e-18")).unwrap();
    assert_eq!(tiny.to_minor(2), Some(Minor(0)));
    let longest = decimal(&"9".repeat(MAX_DIGITS));
    assert_eq!(longest.times(longest).and_then(|product| product.to_minor(0)), None);
    assert_eq!(longest.to_minor(0).and_then(|amount| amount.plus(Minor(1))), None);
    assert_eq!(longest.to_minor(2), None);
}

/// The first number with too many digits.
const WIDE: i64 = 1_000_000_000_000_000_000;

proptest! {
    #[test]
    fn a_product_of_whole_cents_is_exact(quantity in 1_i64..1_000_000_000, cents in 0_i64..999_999_999) {
        let price = Minor(i128::from(cents)).decimal(2);
        let product = decimal(&quantity.to_string()).times(price).unwrap();
        prop_assert_eq!(product.to_minor(2), Some(Minor(i128::from(quantity) * i128::from(cents))));
    }

    #[test]
    fn rounding_is_never_off_by_more_than_half_a_unit(units in -WIDE / 1_000..WIDE / 1_000, scale in 0_u32..18, minor in 0_u32..4) {
        let number = Decimal { units: i128::from(units), scale };
        let rounded = number.to_minor(minor).unwrap().0;
        // Twice the error, in units of 10^-(scale + minor): at most one rounding unit.
        let error = (rounded * 10_i128.pow(scale) - i128::from(units) * 10_i128.pow(minor)).abs() * 2;
        prop_assert!(error <= 10_i128.pow(scale));
    }

    #[test]
    fn formatting_and_parsing_agree(units in -WIDE..WIDE, scale in 0_u32..18, places in 0_u32..6) {
        let number = Decimal { units: i128::from(units), scale };
        let shown = number.format(places).replace(',', "").replace('\u{2212}', "-");
        let again = decimal(&shown);
        prop_assert_eq!(again.units * 10_i128.pow(scale - again.scale.min(scale)), number.units);
    }
}
