//! One mailbox in a field of `SendEmail`: `addr@example.com`, `Name <addr@example.com>`, `"A, B" <addr@example.com>`.
//!
//! SES takes no UTF-8 here: names must be RFC 2047 encoded words, domains must be A-labels, and there is no SMTPUTF8
//! for the local part. <https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_Destination.html>

use crate::address::bare;

/// The bare address, or what is wrong with the text.
pub(super) fn parse_mailbox(text: &str) -> Result<&str, &'static str> {
    if !text.is_ascii() {
        return Err("Non-ASCII characters: use RFC 2047 for the name and Punycode for the domain");
    }
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err("Control characters are not allowed");
    }
    bare(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mailbox_in_its_usual_spellings() {
        for text in [
            "ada@example.com",
            "Ada Lovelace <ada@example.com>",
            r#""Silva, Ana \"Nina\" (Vendas)" <ada@example.com>"#,
            "=?utf-8?B?w4Vzc2E=?= <ada@example.com>",
            "<ada@example.com>",
        ] {
            assert_eq!(parse_mailbox(text), Ok("ada@example.com"), "{text}");
        }
    }

    #[test]
    fn ses_03_an_unquoted_name_with_specials_is_refused() {
        for text in ["Silva, Ana <ada@example.com>", "Bo (;- <ada@example.com>", "\"open <ada@example.com>"] {
            assert!(parse_mailbox(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ses_02_addresses_that_ses_can_not_take_are_refused() {
        for text in [
            "søren@example.test",
            "ana@bücher.example",
            "用户@例子.测试",
            "=?utf-8?q?=C3=A5sa?=@example.test",
            "ada@localhost",
            "ada@@example.com",
            "a..b@example.com",
            "ada@example.com\r\nBcc: eve@example.com",
            "ada@example.com, eve@example.com",
        ] {
            assert!(parse_mailbox(text).is_err(), "{text}");
        }
        assert_eq!(parse_mailbox("ana@xn--bcher-kva.example"), Ok("ana@xn--bcher-kva.example"));
    }
}
