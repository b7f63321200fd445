//! One mailbox in a text: `addr@example.com`, `Name <addr@example.com>`, `"A, B" <addr@example.com>`.

/// The bare address, or what is wrong with the text. The name may hold any character; the address is ASCII, as no provider here knows
/// SMTPUTF8.
pub(crate) fn bare(text: &str) -> Result<&str, &'static str> {
    let text = text.trim();
    let address = match after_name(text)? {
        Some(rest) => rest.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).ok_or("Illegal address")?,
        None => text,
    };
    check_address(address)?;
    Ok(address)
}

/// The mailboxes of a list, at the commas that stand in no quotes.
pub(crate) fn split_list(text: &str) -> Vec<&str> {
    let (mut quoted, mut escaped, mut from) = (false, false, 0);
    let mut mailboxes = Vec::new();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => {
                mailboxes.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    mailboxes.push(&text[from..]);
    mailboxes
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

pub(crate) fn check_address(address: &str) -> Result<(), &'static str> {
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
    fn ses_03_a_comma_in_quotes_makes_no_second_mailbox() {
        assert_eq!(split_list(r#""A, \"B" <a@x.test>,b@x.test"#), [r#""A, \"B" <a@x.test>"#, "b@x.test"]);
    }

    #[test]
    fn ses_03_a_name_in_any_script_needs_its_quotes_only() {
        for text in ["ada@example.com", "Ada <ada@example.com>", r#""漢, \"字\"" <ada@example.com>"#] {
            assert_eq!(bare(text), Ok("ada@example.com"), "{text}");
        }
        for text in
            ["A, B <ada@example.com>", "\"A <ada@example.com>", "søren@example.test", "a@b", "ada@bücher.example"]
        {
            assert!(bare(text).is_err(), "{text}");
        }
    }
}
