//! How large a mail becomes on the wire. Providers count octets after encoding (RFC 2045), about 37 % more than the file.

use waybill_core::{mail::OutgoingMail, outcome::Outcome};

/// Headers and boundaries of the whole message, and of each attachment, generously.
const MESSAGE_OVERHEAD: usize = 4096;
const PART_OVERHEAD: usize = 512;

/// An upper bound of the encoded message in octets: base64 in lines of 76 for attachments, quoted-printable at its worst (three octets
/// for one) for the texts.
pub fn encoded_size(mail: &OutgoingMail) -> usize {
    let names = mail.from_name.len() + mail.to_name.len() + mail.subject.len();
    let texts = quoted_printable_size(mail.text.len()) + quoted_printable_size(mail.html.len());
    let attachments: usize = mail.attachments.iter().map(|a| base64_size(a.bytes.len()) + PART_OVERHEAD).sum();
    // Encoded words are base64 too, with 12 more characters for each 52.
    MESSAGE_OVERHEAD + 2 * base64_size(names) + texts + attachments
}

/// RFC 2045 section 6.8: four characters for three octets, CRLF after each 76.
fn base64_size(octets: usize) -> usize {
    let characters = octets.div_ceil(3) * 4;
    characters + 2 * characters.div_ceil(76)
}

/// RFC 2045 section 6.7: `=XX` for each octet, and a soft line break (`=` CRLF) after at most 75.
fn quoted_printable_size(octets: usize) -> usize {
    let characters = 3 * octets;
    characters + 3 * characters.div_ceil(75)
}

/// The adapters' own guard behind the pipeline's check: what is too large is refused without a call.
///
/// # Errors
/// The outcome for a mail that this provider can't take.
pub(crate) fn check(mail: &OutgoingMail, max: usize) -> Result<(), Outcome> {
    let size = encoded_size(mail);
    if size <= max {
        return Ok(());
    }
    Err(Outcome::RejectedMessage { detail: format!("the encoded mail has {size} octets, this provider takes {max}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{postmark, sendgrid, ses, test_mail::mail_with_attachment};
    use base64::{Engine as _, engine::general_purpose::STANDARD};

    #[test]
    fn base64_size_is_what_an_encoder_makes_of_it() {
        for octets in [0, 1, 2, 3, 56, 57, 58, 114, 1000] {
            let encoded = STANDARD.encode(vec![0u8; octets]);
            let lines: usize = encoded.as_bytes().chunks(76).map(|line| line.len() + 2).sum();
            assert_eq!(base64_size(octets), lines, "{octets}");
        }
    }

    #[test]
    fn ses_05_the_limit_is_checked_after_encoding_with_its_line_breaks() {
        let octets: usize = 59 * 1024 * 1024 / 2;
        assert!(octets.div_ceil(3) * 4 < ses::MAX_ENCODED_BYTES, "as bare base64 it would fit");
        let mail = mail_with_attachment(octets);
        assert!(encoded_size(&mail) > ses::MAX_ENCODED_BYTES);
        assert!(matches!(check(&mail, ses::MAX_ENCODED_BYTES), Err(Outcome::RejectedMessage { .. })));
    }

    #[test]
    fn ses_05_each_provider_has_its_own_limit() {
        let mail = mail_with_attachment(25 * 1024 * 1024);
        assert!(check(&mail, ses::MAX_ENCODED_BYTES).is_ok());
        assert!(check(&mail, sendgrid::MAX_ENCODED_BYTES).is_err());
        let fits_sendgrid = mail_with_attachment(20 * 1024 * 1024);
        assert!(check(&fits_sendgrid, sendgrid::MAX_ENCODED_BYTES).is_ok());
        assert!(check(&fits_sendgrid, postmark::MAX_ENCODED_BYTES).is_err());
    }

    #[test]
    fn the_bound_holds_for_a_text_that_is_all_non_ascii() {
        let mut mail = mail_with_attachment(0);
        mail.text = "漢".repeat(10_000);
        assert!(encoded_size(&mail) > 3 * 30_000 + 30_000 * 3 / 75 * 3);
    }
}
