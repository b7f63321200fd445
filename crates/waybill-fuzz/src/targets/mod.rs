//! One module per reader. What each asserts is what the rest of the program relies on.

pub(crate) mod address;
pub(crate) mod event;
pub(crate) mod header;
pub(crate) mod intake;
pub(crate) mod object_name;
pub(crate) mod provider_events;
pub(crate) mod queue_message;
pub(crate) mod renderer;
pub(crate) mod secret;
pub(crate) mod setting;
pub(crate) mod template;
pub(crate) mod text;

/// The input as a text, if it is one; most readers are only given texts.
fn as_text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}

/// A text that a `detail` column takes: no U+0000 and nothing else that controls, of bounded length.
fn assert_storable(text: &str, max: usize) {
    assert!(text.chars().count() <= max, "{} characters", text.chars().count());
    assert!(!text.chars().any(char::is_control), "{text:?}");
}
