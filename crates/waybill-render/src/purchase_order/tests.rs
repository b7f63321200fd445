use proptest::prelude::*;
use serde_json::{Value, json};

use crate::error::RenderError;
use crate::render;
use crate::testing::{Pages, example, has, lay_out, smallest, squeezed};

const TYPE: &str = "purchase_order";

fn set(data: &Value) -> Pages {
    lay_out(TYPE, data).unwrap()
}

/// The pointer and the problem that a document is refused with.
fn refusal(data: &Value) -> (String, String) {
    match lay_out(TYPE, data) {
        Err(RenderError::BadData { pointer, problem }) => (pointer, problem),
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("not refused: {data}"),
    }
}

/// The smallest order with one value replaced or added (by JSON Pointer; the parent must exist).
fn with(pointer: &str, value: Value) -> Value {
    let mut data = smallest();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    data.pointer_mut(parent).and_then(Value::as_object_mut).unwrap().insert(key.to_owned(), value);
    data
}

#[test]
fn the_example_is_set_as_it_should_be() {
    let pages = set(&example());
    assert_eq!(pages.len(), 1);
    let text: Vec<&str> = pages[0].iter().map(|run| run.text.as_str()).collect();
    insta::assert_snapshot!(text.join("\n"));
}

#[test]
fn the_example_becomes_a_pdf_file() {
    let document = render(TYPE, &example().to_string()).unwrap();
    assert!(document.bytes.starts_with(b"%PDF-"));
    assert!(document.bytes.trim_ascii_end().ends_with(b"%%EOF"));
    assert_eq!(document.pages, 1);
}

#[test]
fn the_same_data_gives_the_same_bytes_whatever_else_is_rendered() {
    let data = example().to_string();
    let first = render(TYPE, &data).unwrap();
    let other = smallest().to_string();
    let together: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = [&data, &other, &data].map(|data| scope.spawn(move || render(TYPE, data))).into();
        threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
    });
    assert!(together[0] == first && together[2] == first);
    assert!(together[1] != first);
}

#[test]
fn the_date_in_the_file_is_the_orders() {
    let bytes = render(TYPE, &example().to_string()).unwrap().bytes;
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("(D:20261130"), "no creation date");
    assert!(text.contains("Purchase order PO-4711"), "no title");
}

#[test]
fn text_from_the_data_is_never_markup() {
    let nasty = [
        "#panic()",
        "$x$ *b* _i_ `raw`",
        "= no heading",
        "<label> @reference",
        "#include \"base.typ\"",
        "// no comment /* nor here */",
        "\\ \\u{41} ~ -- ---",
        "]#[ } {",
        "https://example.com",
    ];
    let mut data = smallest();
    data["lines"] = nasty.iter().map(|&text| json!({"description": text, "quantity": 1, "unit_price": 1})).collect();
    data["buyer"]["name"] = json!("#panic() $x$");
    data["buyer"]["address"] = json!(["*Street* 1"]);
    data["notes"] = json!("#let x = 1; #x");
    data["order_number"] = json!("#sys.version");
    let page = &set(&data)[0];
    for text in nasty.into_iter().chain(["#panic() $x$", "*Street* 1", "#let x = 1; #x", "#sys.version"]) {
        assert!(has(page, text), "{text}: {page:?}");
    }
}

#[test]
fn three_hundred_lines_go_over_pages_with_head_and_page_numbers() {
    let mut data = example();
    let line = |index: usize| {
        json!({"position": index, "sku": format!("A-{index}"), "description": "Part with a name that needs two lines of \
               the column because it is long", "quantity": "1.5", "unit": "kg", "unit_price": "0.99"})
    };
    data["lines"] = (1..=300).map(line).collect();
    data["total"] = json!("531.93");
    data["notes"] = Value::Null;
    let pages = set(&data);
    assert!(pages.len() > 5, "{}", pages.len());
    for (index, page) in pages.iter().enumerate() {
        assert!(has(page, &format!("Page {} of {}", index + 1, pages.len())), "page {index}");
        assert!(has(page, "Description") && has(page, "Unit price"), "no table head on page {index}");
    }
    let skus: Vec<_> = pages.iter().flatten().filter(|run| run.text.starts_with("A-")).map(|run| &run.text).collect();
    assert_eq!(skus, (1..=300).map(|index| format!("A-{index}")).collect::<Vec<_>>().iter().collect::<Vec<_>>());
    // 1.5 * 0.99 = 1.485, rounded to 1.49 per line.
    let last = pages.last().unwrap();
    assert!(has(last, "A-300"), "the totals stand alone");
    assert!(has(last, "EUR 447.00") && has(last, "EUR 84.93") && has(last, "EUR 531.93"), "{last:?}");
}

#[test]
fn amounts_are_exact_where_binary_floats_are_not() {
    for (currency, quantity, price, shown) in [
        ("EUR", json!(1), json!("9007199254740993"), "9,007,199,254,740,993.00"),
        ("EUR", json!(3), json!("0.1"), "0.30"),
        ("EUR", json!("1.005"), json!(1), "1.01"),
        ("EUR", json!("10000000.1"), json!("9999999.9"), "99,999,999,999,999.99"),
        ("JPY", json!("0.5"), json!("999999999999999999"), "500,000,000,000,000,000"),
        ("KWD", json!(7), json!("0.0005"), "0.004"),
    ] {
        let mut data = with("/currency", json!(currency));
        data["lines"][0]["quantity"] = quantity;
        data["lines"][0]["unit_price"] = price;
        let pages = set(&data);
        assert!(has(&pages[0], shown) && has(&pages[0], &format!("{currency} {shown}")), "{shown}: {pages:?}");
    }
}

#[test]
fn number_text_that_no_float_holds_is_read_as_spelled() {
    let data = smallest().to_string().replace("\"2.50\"", "1234567890123456.78");
    let view = super::prepare(&data).unwrap();
    assert!(view.contains("1,234,567,890,123,456.78"), "{view}");
}

#[test]
fn bad_fields_are_named_by_pointer() {
    for (pointer, value) in [
        ("/order_number", json!("")),
        ("/order_number", json!(["PO-1"])),
        ("/order_date", json!("30.11.2026")),
        ("/requested_delivery_date", json!("2026-11-29")),
        ("/currency", json!("euro")),
        ("/buyer", json!("Buyer")),
        ("/buyer/name", json!(null)),
        ("/buyer/address", json!("Street")),
        ("/buyer/address", json!(vec!["x"; 9])),
        ("/supplier/contact", json!("Ann")),
        ("/lines", json!([])),
        ("/lines", json!({})),
        ("/lines/0/quantity", json!("many")),
        ("/lines/0/quantity", json!(0)),
        ("/lines/0/quantity", json!(-1)),
        ("/lines/0/unit_price", json!(true)),
        ("/lines/0/unit_price", json!("1,50")),
        ("/lines/0/unit_price", json!("1".repeat(19))),
        ("/lines/0/description", json!("x".repeat(4001))),
        ("/tax_rate", json!(-1)),
        ("/tax", json!("0.001")),
        ("/subtotal", json!("2.51")),
        ("/total", json!("2.49")),
        ("/notes", json!(7)),
    ] {
        assert_eq!(refusal(&with(pointer, value.clone())).0, pointer, "{value}");
    }
}

#[test]
fn missing_fields_are_named_by_pointer() {
    for (parent, key) in [
        ("", "order_number"),
        ("", "currency"),
        ("", "supplier"),
        ("", "lines"),
        ("/supplier", "name"),
        ("/lines/0", "quantity"),
        ("/lines/0", "unit_price"),
    ] {
        let mut data = smallest();
        data.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key);
        assert_eq!(refusal(&data), (format!("{parent}/{key}"), "is missing".to_owned()));
    }
}

#[test]
fn a_refusal_never_repeats_what_the_data_says() {
    let secret = "ann@example.com";
    for pointer in ["/order_date", "/currency", "/buyer", "/lines", "/lines/0/quantity", "/total", "/ship_to"] {
        let (_, problem) = refusal(&with(pointer, json!(secret)));
        assert!(!problem.contains("ann"), "{pointer}: {problem}");
    }
}

#[test]
fn optional_fields_may_be_missing_null_or_empty() {
    let mut data = smallest();
    for field in ["ship_to", "notes", "tax", "tax_rate", "total", "requested_delivery_date"] {
        data[field] = Value::Null;
    }
    data["payment_terms"] = json!("  ");
    data["unknown"] = json!({"ignored": [1]});
    let text = squeezed(&set(&data)[0]);
    assert!(text.contains("EUR2.50") && !text.contains("NOTES") && !text.contains("VAT"), "{text}");
    assert!(!text.contains("PAYMENTTERMS"), "{text}");
}

#[test]
fn tax_is_computed_or_taken_over_within_rounding() {
    let taxed = |rate: Value, tax: Value| {
        let mut data = with("/lines/0/unit_price", json!("10.05"));
        data["tax_rate"] = rate;
        data["tax"] = tax;
        data
    };
    // 10.05 * 10 % = 1.005, half away from zero.
    assert!(has(&set(&taxed(json!(10), json!(null)))[0], "EUR 1.01"));
    assert!(has(&set(&taxed(json!(10), json!("1.00")))[0], "EUR 11.05"));
    assert!(has(&set(&taxed(json!(null), json!("3.00")))[0], "EUR 13.05"));
    assert_eq!(refusal(&taxed(json!(10), json!("1.03"))).0, "/tax");
}

#[test]
fn products_that_do_not_fit_are_refused_and_not_rounded() {
    assert_eq!(refusal(&with("/lines/0/unit_price", json!("999999999999999999"))).0, "/lines/0");
    let line = json!({"description": "a", "quantity": 1, "unit_price": "9999999999999999.99"});
    assert!(lay_out(TYPE, &with("/lines", json!([line]))).is_ok());
    assert_eq!(refusal(&with("/lines", json!([line, line]))).0, "/lines/1");
}

/// Text that is as long as the limits allow, in letters that are as wide as they come.
fn longest() -> Value {
    let wide = |length: usize| "W".repeat(length);
    let party = json!({"name": wide(100), "address": vec![wide(120); 8], "vat_id": wide(20),
                       "contact": {"name": wide(120), "email": wide(254), "phone": wide(40)}});
    let line = json!({"position": wide(10), "sku": wide(60), "description": wide(4000), "unit": wide(12),
                      "quantity": "1.23456789012345678", "unit_price": "12345.6789012345678"});
    json!({"order_number": wide(60), "order_date": "2026-11-30", "currency": "EUR", "buyer": party, "supplier": party,
           "ship_to": party, "lines": [line, {"description": "a\n".repeat(1_999), "quantity": 1,
           "unit_price": "7876543210123456.78"}], "tax_rate": 20, "tax_name": wide(30), "payment_terms": wide(500),
           "delivery_terms": wide(500), "notes": wide(4000)})
}

#[test]
fn the_longest_text_stays_on_the_page() {
    let (width, height, margin) = (595.3, 841.9, 56.6);
    let pages = set(&longest());
    for run in pages.iter().flatten() {
        assert!(run.x >= margin - 1.0 && run.x + run.width <= width - margin + 1.0, "beside the page: {run:?}");
        assert!(run.y > 15.0 && run.y < height - 15.0, "above or below the page: {run:?}");
    }
    let all: String = pages.iter().map(|page| squeezed(page)).collect();
    assert!(all.matches('W').count() > 9_000);
}

#[test]
fn points_of_numbers_stand_in_line() {
    let page = &set(&example())[0];
    let point = |text: &str| {
        let run = page.iter().find(|run| run.text == text).unwrap();
        let digits_after = text.len() - text.find('.').unwrap();
        // Tabular figures: every digit has the same width, so the place of the point follows from the right end.
        run.x + run.width - 9.5 * 0.464 * (digits_after as f64 - 1.0)
    };
    let places = ["148.50", "12.485", "0.1175", "96.00"].map(point);
    assert!(places.iter().all(|place| (place - places[0]).abs() < 0.5), "{places:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_text_makes_the_typesetter_fail(name in any::<String>(), description in any::<String>(), sku in "\\PC{0,80}") {
        let mut data = with("/buyer/name", json!(name));
        data["lines"][0]["description"] = json!(description);
        data["lines"][0]["sku"] = json!(sku);
        match lay_out(TYPE, &data) {
            Ok(pages) => prop_assert!(has(&pages[0], "EUR 2.50")),
            // Text of nothing but spaces or control characters, or too long.
            Err(error) => prop_assert!(error.is_permanent(), "{error}"),
        }
    }
}
