//! Everything that reads bytes from outside, as functions that a fuzzer calls.
//!
//! [`TARGETS`] is the list. Each target is a function of any bytes that panics when something does not hold: a reader never panics, what it
//! gives is bounded and storable, what was read and written is read as the same, an error names its place and repeats no value.
//!
//! Two drivers call them: cargo-fuzz (`fuzz/`, which follows the coverage and needs a nightly toolchain), and the runner of this crate
//! ([`run`]), which changes the corpus at random, by a seed, on the stable toolchain. `cargo xtask fuzz` takes the first where it is
//! installed. The corpus is `fuzz/corpus/TARGET/`: at most twenty small files each, written by hand or found.
//!
//! To add a target: a module in `targets`, a line in [`TARGETS`], a folder of the corpus, a file in `fuzz/fuzz_targets/`. The test
//! `tests/corpus.rs` says what is missing.

mod mutate;
pub mod run;
mod targets;

/// One reader.
#[derive(Clone, Copy)]
pub struct Target {
    /// Also the name of its folder of the corpus and of its program for cargo-fuzz.
    pub name: &'static str,
    /// Panics when something does not hold.
    pub check: fn(&[u8]),
    /// Words that its inputs are made of.
    pub words: &'static [&'static str],
}

#[rustfmt::skip]
pub const TARGETS: &[Target] = &[
    Target { name: "event", check: targets::event::check, words: targets::event::WORDS },
    Target { name: "ses_events", check: targets::provider_events::ses, words: targets::provider_events::SES },
    Target { name: "sendgrid_events", check: targets::provider_events::sendgrid, words: targets::provider_events::SENDGRID },
    Target { name: "queue_message", check: targets::queue_message::check, words: targets::queue_message::WORDS },
    Target { name: "intake", check: targets::intake::check, words: targets::intake::WORDS },
    Target { name: "renderer", check: targets::renderer::check, words: targets::renderer::WORDS },
    Target { name: "address", check: targets::address::check, words: targets::address::WORDS },
    Target { name: "template", check: targets::template::check, words: targets::template::WORDS },
    Target { name: "secret", check: targets::secret::check, words: targets::secret::WORDS },
    Target { name: "header", check: targets::header::check, words: targets::header::WORDS },
    Target { name: "object_name", check: targets::object_name::check, words: targets::object_name::WORDS },
    Target { name: "setting", check: targets::setting::check, words: targets::setting::WORDS },
    Target { name: "text", check: targets::text::check, words: targets::text::WORDS },
];

pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Calls a target by its name: what a program of cargo-fuzz consists of.
///
/// # Panics
/// When there is no such target, or something does not hold.
pub fn check(name: &str, input: &[u8]) {
    match find(name) {
        Some(target) => (target.check)(input),
        None => panic!("no fuzz target `{name}`"),
    }
}
