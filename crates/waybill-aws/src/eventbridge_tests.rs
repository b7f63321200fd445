use super::*;

fn event(detail: &str) -> BusEvent {
    BusEvent { source: "waybill".into(), detail_type: "job.done".into(), detail: detail.into() }
}

fn sized(bytes: usize) -> BusEvent {
    let empty = event("{\"x\":\"\"}");
    event(&format!("{{\"x\":\"{}\"}}", "x".repeat(bytes - empty.bytes())))
}

#[test]
fn requests_hold_ten_events_and_less_than_a_megabyte() {
    let sizes = |sizes: &[usize]| {
        let events: Vec<BusEvent> = sizes.iter().map(|n| sized(*n)).collect();
        split(&events.iter().collect::<Vec<_>>()).iter().map(ExactSizeIterator::len).collect::<Vec<_>>()
    };
    assert_eq!(sizes(&[100; 25]), [10, 10, 5]);
    assert_eq!(sizes(&[200_000; 6]), [4, 2], "five are exactly 1 MB, which is not less");
    assert_eq!(sizes(&[999_999, 100]), [1, 1]);
    assert_eq!(sizes(&[]), [0usize; 0]);
}

#[test]
fn what_no_bus_takes_is_refused_with_its_limit() {
    assert_eq!(sized(999_999).check(), Ok(()));
    assert_eq!(event(" {\"a\":1}").check(), Ok(()));
    let long = BusEvent { detail_type: "\u{e9}".repeat(129), ..event("{}") };
    let cases = [
        (sized(1_000_000), "the event has 1000000 bytes, 999999 are allowed"),
        (long, "129 characters, 128"),
        (BusEvent { source: String::new(), ..event("{}") }, "source"),
        (BusEvent { detail_type: String::new(), ..event("{}") }, "detail-type"),
        (event("[]"), "no JSON object"),
        (event("{\"a\":"), "no JSON object"),
        (event("null"), "no JSON object"),
    ];
    for (event, part) in cases {
        let error = event.check().unwrap_err();
        assert!(matches!(&error, BusError::Permanent(text) if text.contains(part)), "{part}: {error}");
    }
}

#[test]
fn every_entry_of_the_answer_has_its_meaning() {
    let entry = PutEventsResultEntry::builder;
    let entries = [
        entry().event_id("e1").build(),
        entry().error_code("InternalFailure").error_message("m").build(),
        entry().error_code("ThrottlingException").build(),
        entry().error_code("MalformedDetail").build(),
        entry().error_code("NotAuthorizedForSourceException").build(),
        entry().build(),
    ];
    let answers = results(6, &entries);
    assert_eq!(answers[0], Ok("e1".into()));
    for at in [1, 2, 5] {
        assert!(matches!(answers[at], Err(BusError::Temporary(_))), "{at}: {:?}", answers[at]);
    }
    for at in [3, 4] {
        assert!(matches!(answers[at], Err(BusError::Permanent(_))), "{at}: {:?}", answers[at]);
    }
    let short = results(7, &entries);
    assert!(short.len() == 7 && short.iter().all(|r| matches!(r, Err(BusError::Temporary(_)))), "{short:?}");
}
