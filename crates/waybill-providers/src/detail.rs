//! A provider's words, made fit for our rows and logs.

use waybill_core::text::storable;

/// Characters kept of a provider's words.
const MAX_CHARS: usize = 300;
/// Characters looked at: an error page of a megabyte is not searched for addresses.
const MAX_LOOKED_AT: usize = 4 * MAX_CHARS;

/// Storable, bounded, and without addresses: providers like to repeat the recipient (SES: "The following identities failed the check:
/// …", mail servers: "550 5.1.1 <…> unknown"), and an outcome's detail never holds one.
pub(crate) fn detail(words: &str) -> String {
    let mut out = String::new();
    let mut token = String::new();
    for c in words.chars().take(MAX_LOOKED_AT) {
        if is_delimiter(c) {
            push_token(&mut out, &mut token);
            out.push(c);
        } else {
            token.push(c);
        }
    }
    push_token(&mut out, &mut token);
    storable(out.trim(), MAX_CHARS)
}

/// None of these is part of an address that we could have sent to (RFC 5322 dot-atom).
fn is_delimiter(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "<>()[]\",;:\\".contains(c)
}

fn push_token(out: &mut String, token: &mut String) {
    out.push_str(if token.contains('@') { "(address)" } else { token.as_str() });
    token.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_out_and_the_words_stay() {
        for (words, expected) in [
            ("smtp; 550 5.1.1 <ada@example.com> unknown", "smtp; 550 5.1.1 <(address)> unknown"),
            ("check in region X: ada@example.com, o'b+x@example.com", "check in region X: (address), (address)"),
            ("to=\"ada@example.com\"", "to=\"(address)\""),
            ("Throttling: slow down", "Throttling: slow down"),
            ("", ""),
        ] {
            assert_eq!(detail(words), expected);
        }
    }

    #[test]
    fn pg_04_nul_and_length_are_tamed() {
        assert_eq!(detail("a\0b\r\nc"), "a\u{fffd}b  c");
        assert_eq!(detail(&"é".repeat(5000)).chars().count(), 300);
    }
}
