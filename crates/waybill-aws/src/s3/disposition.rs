//! The header `Content-Disposition` of a file name (RFC 6266, RFC 8187).

use std::fmt::Write as _;

/// Characters of a name. Its two spellings stay below the 2 KB that S3 keeps for an object's own headers.
const MAX_NAME: usize = 100;
/// A longer part behind the last dot is not an extension.
const MAX_EXTENSION: usize = 10;

/// `attachment` with the name in ASCII for old readers and in UTF-8 for all others. Quotes, control characters, path separators and
/// marks that turn the direction of writing are dropped; a long name loses its end and keeps its extension.
pub fn content_disposition(file_name: &str) -> String {
    let name = shortened(file_name.chars().filter(|c| is_plain(*c)).collect::<String>().trim());
    if name.is_empty() {
        return "attachment".into();
    }
    // A `%` could be taken for the beginning of an escape, a `;` for the end of the value.
    let ascii: String = name.chars().map(|c| if c.is_ascii() && !matches!(c, '%' | ';') { c } else { '_' }).collect();
    let mut header = format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''");
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_') {
            header.push(char::from(byte));
        } else {
            let _ = write!(header, "%{byte:02X}");
        }
    }
    header
}

fn is_plain(c: char) -> bool {
    let turns_direction = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !turns_direction && !matches!(c, '"' | '\\' | '/')
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= MAX_NAME {
        return name.to_owned();
    }
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let extension =
        if (1..=MAX_EXTENSION).contains(&extension.chars().count()) { format!(".{extension}") } else { String::new() };
    let stem: String = name.chars().take(MAX_NAME - extension.chars().count()).collect();
    stem.trim_end().to_owned() + &extension
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pdf_06_a_hostile_file_name_gives_one_safe_header() {
        let header = content_disposition("Relatório \"Março\"; ação\r\nX: 1.pdf");
        assert_eq!(
            header,
            "attachment; filename=\"Relat_rio Mar_o_ a__oX: 1.pdf\"; \
             filename*=UTF-8''Relat%C3%B3rio%20Mar%C3%A7o%3B%20a%C3%A7%C3%A3oX%3A%201.pdf"
        );
    }

    #[test]
    fn pdf_06_a_plain_name_stays_and_signs_of_encodings_are_encoded_once() {
        assert_eq!(content_disposition("PO-1.pdf"), "attachment; filename=\"PO-1.pdf\"; filename*=UTF-8''PO-1.pdf");
        let header = content_disposition("a+b%2F'c.pdf");
        assert_eq!(header, "attachment; filename=\"a+b_2F'c.pdf\"; filename*=UTF-8''a%2Bb%252F%27c.pdf");
    }

    #[test]
    fn pdf_06_nothing_is_left_of_an_empty_name_and_a_path_is_no_path_any_more() {
        for empty in ["", " \r\n", "\"\"", "\u{202e}"] {
            assert_eq!(content_disposition(empty), "attachment", "{empty:?}");
        }
        assert!(content_disposition("../etc/a\\b.pdf").contains("filename=\"..etcab.pdf\""));
    }

    #[test]
    fn pdf_06_a_long_name_keeps_its_extension_and_the_header_its_bound() {
        let header = content_disposition(&format!("{}.pdf", "x".repeat(300)));
        assert!(header.contains(&format!("filename=\"{}.pdf\"", "x".repeat(96))), "{header}");
        let no_extension = content_disposition(&format!("a.{}", "y".repeat(300)));
        assert!(no_extension.contains(&format!("filename=\"a.{}\"", "y".repeat(98))), "{no_extension}");
        let widest = content_disposition(&"\u{1f9fe}".repeat(300));
        assert!(widest.len() < 2048, "{}", widest.len());
        for header in [header, no_extension, widest] {
            assert!(header.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{header}");
        }
    }
}
