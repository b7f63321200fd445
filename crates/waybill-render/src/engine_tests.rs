use super::*;
use crate::testing::{has, runs};

fn fails(template: &str) -> String {
    match lay_out(template, "{}".to_owned()) {
        Err(RenderError::Typesetting { message }) => message,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("was set: {template}"),
    }
}

#[test]
fn a_template_sees_its_data_and_nothing_else() {
    let shown = lay_out(r#"#json("data.json").word"#, r#"{"word":"here"}"#.to_owned()).unwrap();
    assert!(has(&runs(&shown)[0], "here"));
    for template in [
        r#"#read("/etc/hostname")"#,
        r#"#read("../../Cargo.toml")"#,
        r#"#import "other.typ": *"#,
        r#"#image("logo.png")"#,
    ] {
        assert!(fails(template).contains("access denied") || fails(template).contains("escape"), "{}", fails(template));
    }
    assert!(!fails(r#"#import "@preview/cetz:0.3.4": *"#).is_empty());
}

#[test]
fn a_template_knows_no_clock() {
    assert!(fails("#datetime.today().display()").contains("date"));
}

#[test]
fn the_engines_message_is_kept_and_is_not_permanent() {
    let error = typeset("#panic(\"broken\")", "{}".to_owned()).unwrap_err();
    assert!(error.to_string().contains("broken"), "{error}");
    assert!(!error.is_permanent());
}

#[test]
fn a_render_is_no_longer_counted_when_it_ends_by_a_panic() {
    // Other tests render at the same time: only this thread's own balance can be asserted, so count in a quiet moment.
    let unwound = std::panic::catch_unwind(|| {
        let _running = RunningRender::begin();
        assert!(RUNNING.load(Ordering::SeqCst) >= 1);
        std::panic::resume_unwind(Box::new("stop"));
    });
    assert!(unwound.is_err());
    let quiet = (0..3_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        RUNNING.load(Ordering::SeqCst) == 0
    });
    assert!(quiet, "a render is still counted");
}
