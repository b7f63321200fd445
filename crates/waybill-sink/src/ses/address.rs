//! One mailbox in a field of `SendEmail`: `addr@example.com`, `Name <addr@example.com>`, `"A, B" <addr@example.com>`.
//!
//! SES takes no UTF-8 here: names must be RFC 2047 encoded words, domains must be A-labels, and there is no SMTPUTF8
//! for the local part. <https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_Destination.html>

/// The bare address, or what is wrong with the text.
pub(super) fn parse_mailbox(text: &str) -> Result<&str, &'static str> {
    if !text.is_ascii() {
        return Err("Non-ASCII characters: use RFC 2047 for the name and Punycode for the domain");
    }
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return Err("Control characters are not allowed");
    }
    let text = text.trim();
    let address = match after_name(text)? {
        Some(rest) => rest.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).ok_or("Illegal address")?,
        None => text,
    };
    check_address(address)?;
    Ok(address)
}

/// The part that starts at `<`, if there is a display name or angle bracket at all.
fn after_name(text: &str) -> Result<Option<&str>, &'static str> {
    let mut quoted = false;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'<' if !quoted => return Ok(Some(&text[at..])),
            // RFC 5322 atoms hold none of these; unquoted, a comma would even make two mailboxes of one.
            b',' | b';' | b':' | b'(' | b')' if !quoted => {
                return Err("Illegal address: the display name needs quotes");
            }
            _ => {}
        }
    }
    if quoted { Err("Illegal address: a quote is not closed") } else { Ok(None) }
}

fn check_address(address: &str) -> Result<(), &'static str> {
    let (local, domain) = address.rsplit_once('@').ok_or("Missing final '@domain'")?;
    if local.is_empty() || local.len() > 64 {
        return Err("The local part must have 1 to 64 octets");
    }
    let atom = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.".contains(&byte);
    if !local.bytes().all(atom) || local.starts_with('.') || local.ends_with('.') || local.contains("..") {
        return Err("The local part contains an illegal character");
    }
    if local.contains("=?") || local.contains("?=") {
        return Err("An encoded word is not allowed in an address");
    }
    let label = |label: &str| {
        let ldh = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        (1..=63).contains(&label.len()) && ldh && !label.starts_with('-') && !label.ends_with('-')
    };
    if domain.len() > 255 || !domain.contains('.') || !domain.split('.').all(label) {
        return Err("The domain contains an illegal character or has no dot");
    }
    Ok(())
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
