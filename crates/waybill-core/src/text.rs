//! Text from outside on its way into our rows.

/// Makes a text that came from a provider or another foreign place storable: U+0000 (which Postgres can't hold) becomes U+FFFD, other
/// control characters a space, and at most `max` characters are kept. Used for every `detail`, so that an answer full of NULs
/// spoils nothing but its own wording.
pub fn storable(text: &str, max: usize) -> String {
    text.chars()
        .take(max)
        .map(|c| match c {
            '\0' => '\u{fffd}',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn pg_04_nul_becomes_the_replacement_character_and_length_is_bounded() {
        assert_eq!(super::storable("a\0b\r\nc", 100), "a\u{fffd}b  c");
        assert_eq!(super::storable("ééé", 2), "éé");
    }
}
