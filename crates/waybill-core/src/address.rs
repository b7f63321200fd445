//! Recipients: how an address is read, what it is compared by, and what we refuse to send to.
//!
//! Two different questions are kept apart. *Is it an address at all* decides at ingest ([`EmailAddress::parse`]; a request that holds
//! garbage is refused with the field's name). *Can we send to it* decides per recipient ([`EmailAddress::sendable`]): a local part with
//! characters outside ASCII needs SMTPUTF8, which SES and Postmark do not speak, so that one delivery fails with a reason and its
//! neighbours go out.

use unicode_normalization::UnicodeNormalization;

/// How a delivery reaches its recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Channel {
    Email,
}

impl Channel {
    pub const ALL: [Channel; 1] = [Channel::Email];

    /// The word stored in rows and shown in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Channel::Email => "email",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.as_str() == text)
    }
}

/// Octets in a forward-path without its brackets (RFC 5321 section 4.5.3.1.3).
pub const MAX_ADDRESS_OCTETS: usize = 254;
const MAX_LOCAL_OCTETS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("an e-mail address has one `@` with something on both sides")]
    Shape,
    #[error("an e-mail address holds no spaces and no control characters")]
    Characters,
    #[error(
        "an e-mail address has at most {MAX_ADDRESS_OCTETS} octets, at most {MAX_LOCAL_OCTETS} of them before the `@`"
    )]
    TooLong,
    #[error(
        "the part before the `@` is a dot-atom: letters, digits and !#$%&'*+-/=?^_`{{|}}~, single dots inside; quoted strings and comments are not supported"
    )]
    LocalPart,
    #[error(
        "the domain needs two or more labels of letters, digits and hyphens (a literal such as [127.0.0.1] is not supported)"
    )]
    Domain,
}

/// Why an address that is well-formed can't be sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsendable {
    #[error("the part before the `@` has characters outside ASCII, which our providers can't carry (no SMTPUTF8)")]
    LocalPartNotAscii,
    #[error("the part before the `@` is an encoded word, which is not an address (RFC 2047 section 5)")]
    EncodedWord,
}

/// A well-formed e-mail address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmailAddress {
    given: String,
    local: String,
    domain: String,
}

impl EmailAddress {
    /// Reads an address; surrounding white space is ignored, everything else is kept as it was spelt.
    ///
    /// # Errors
    /// [`AddressError`] says which rule is broken (RFC 5321 limits, RFC 5322 dot-atom, UTS #46 domain).
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let given = text.trim();
        if given.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(AddressError::Characters);
        }
        let (local, domain) = given.rsplit_once('@').ok_or(AddressError::Shape)?;
        if local.is_empty() || domain.is_empty() {
            return Err(AddressError::Shape);
        }
        if local.len() > MAX_LOCAL_OCTETS || given.len() > MAX_ADDRESS_OCTETS {
            return Err(AddressError::TooLong);
        }
        if local.split('.').any(str::is_empty) || !local.chars().all(is_local_character) {
            return Err(AddressError::LocalPart);
        }
        let domain = idna::domain_to_ascii_strict(domain).map_err(|_| AddressError::Domain)?.to_ascii_lowercase();
        if !is_host_name(&domain) {
            return Err(AddressError::Domain);
        }
        if local.len() + 1 + domain.len() > MAX_ADDRESS_OCTETS {
            return Err(AddressError::TooLong);
        }
        Ok(Self { given: given.to_owned(), local: local.to_owned(), domain })
    }

    /// The spelling that was given.
    pub fn as_given(&self) -> &str {
        &self.given
    }

    /// What is handed to a provider: the local part as given, the domain as A-labels.
    ///
    /// # Errors
    /// [`Unsendable`] when no provider of ours can carry it.
    pub fn sendable(&self) -> Result<String, Unsendable> {
        if !self.local.is_ascii() {
            return Err(Unsendable::LocalPartNotAscii);
        }
        if self.local.starts_with("=?") && self.local.ends_with("?=") {
            return Err(Unsendable::EncodedWord);
        }
        Ok(format!("{}@{}", self.local, self.domain))
    }

    /// For comparing only: NFC, the local part case-folded, the domain as A-labels in lower case; `+tag` and dots are kept. Local parts
    /// are case-sensitive by RFC 5321 section 2.4 and nowhere in practice.
    pub fn key(&self) -> String {
        format!("{}@{}", self.local.nfc().collect::<String>().to_lowercase().nfc().collect::<String>(), self.domain)
    }
}

fn is_local_character(c: char) -> bool {
    c == '.' || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || (!c.is_ascii() && !c.is_control())
}

fn is_host_name(domain: &str) -> bool {
    let mut labels = 0;
    let fine = domain.split('.').all(|label| {
        labels += 1;
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    });
    // A last label of digits would be read as an IPv4 address.
    fine && labels >= 2 && !domain.rsplit('.').next().is_some_and(|tld| tld.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> String {
        EmailAddress::parse(text).unwrap().key()
    }

    #[test]
    fn rl_04_variants_of_one_address_share_a_key_and_tags_and_dots_keep_them_apart() {
        assert_eq!(key("Ana.Reader@Example.TEST"), key("ana.reader@example.test "));
        assert_eq!(key("jos\u{e9}@example.test"), key("jose\u{301}@example.test"));
        assert_eq!(key("a@b\u{fc}cher.example"), key("a@xn--bcher-kva.example"));
        assert_ne!(key("ana@example.test"), key("ana+x@example.test"));
        assert_ne!(key("a.b@example.test"), key("ab@example.test"));
    }

    #[test]
    fn ses_02_idn_domains_go_out_as_a_labels_and_local_parts_outside_ascii_are_not_sendable() {
        assert_eq!(
            EmailAddress::parse("ana@b\u{fc}cher.example").unwrap().sendable().unwrap(),
            "ana@xn--bcher-kva.example"
        );
        assert_eq!(
            EmailAddress::parse("s\u{f8}ren@example.test").unwrap().sendable(),
            Err(Unsendable::LocalPartNotAscii)
        );
        assert_eq!(
            EmailAddress::parse("\u{7528}\u{6237}@\u{4f8b}\u{5b50}.\u{6d4b}\u{8bd5}").unwrap().sendable(),
            Err(Unsendable::LocalPartNotAscii)
        );
        assert_eq!(
            EmailAddress::parse("=?utf-8?q?=C3=A5sa?=@example.test").unwrap().sendable(),
            Err(Unsendable::EncodedWord)
        );
    }

    #[test]
    fn the_spelling_given_is_kept_for_sending() {
        assert_eq!(
            EmailAddress::parse(" Ana.Reader@Example.TEST ").unwrap().sendable().unwrap(),
            "Ana.Reader@example.test"
        );
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_broken_rule() {
        for (text, error) in [
            ("", AddressError::Shape),
            ("ana", AddressError::Shape),
            ("@example.test", AddressError::Shape),
            ("ana@", AddressError::Shape),
            ("ana b@example.test", AddressError::Characters),
            ("ana@example.test\r\nBcc: x@example.test", AddressError::Characters),
            ("a\0@example.test", AddressError::Characters),
            ("a..b@example.test", AddressError::LocalPart),
            (".a@example.test", AddressError::LocalPart),
            ("\"q\"@example.test", AddressError::LocalPart),
            ("a@localhost", AddressError::Domain),
            ("a@[127.0.0.1]", AddressError::Domain),
            ("a@127.0.0.1", AddressError::Domain),
            ("a@example.test.", AddressError::Domain),
            ("a@-x.test", AddressError::Domain),
            ("a@x_y.test", AddressError::Domain),
        ] {
            assert_eq!(EmailAddress::parse(text), Err(error), "{text:?}");
        }
        assert_eq!(EmailAddress::parse(&format!("{}@example.test", "a".repeat(65))), Err(AddressError::TooLong));
        assert_eq!(EmailAddress::parse(&format!("a@{}.test", "a.".repeat(130))), Err(AddressError::TooLong));
    }

    #[test]
    fn the_longest_address_is_taken_and_one_octet_more_is_not() {
        let local = |n: usize| "a".repeat(n);
        assert!(EmailAddress::parse(&format!("{}@example.test", local(64))).is_ok());
        // 64 + 1 + 189 = 254 octets.
        let domain = |last: usize| format!("{0}.{0}.{1}.test", "b".repeat(63), "c".repeat(last));
        let longest = format!("{}@{}", local(64), domain(56));
        assert_eq!(longest.len(), MAX_ADDRESS_OCTETS);
        assert!(EmailAddress::parse(&longest).is_ok());
        assert_eq!(EmailAddress::parse(&format!("{}@{}", local(64), domain(57))), Err(AddressError::TooLong));
        // Short as it was given, and too long as A-labels.
        let wide = format!("{}@{}.test", local(64), ["\u{fc}"; 25].join("."));
        assert!(wide.len() < MAX_ADDRESS_OCTETS);
        assert_eq!(EmailAddress::parse(&wide), Err(AddressError::TooLong));
    }

    #[test]
    fn only_a_whole_encoded_word_is_one() {
        for text in ["=?x@example.test", "x?=@example.test"] {
            assert!(EmailAddress::parse(text).unwrap().sendable().is_ok(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_key_is_a_fixed_point(local in "[A-Za-z0-9.+é-]{1,20}", domain in "[A-Za-z]{1,8}\\.[A-Za-z]{2,5}") {
            if let Ok(address) = EmailAddress::parse(&format!("{local}@{domain}")) {
                let key = address.key();
                proptest::prop_assert_eq!(EmailAddress::parse(&key).unwrap().key(), key);
            }
        }
    }
}
