//! The embedded fonts: found once, parsed when a page first needs them.

use std::sync::{LazyLock, OnceLock};

use typst::foundations::Bytes;
use typst::text::{Font, FontBook, FontInfo};
use typst::utils::LazyHash;

/// The families that templates may name, of all those that `typst-assets` brings. The mathematical ones stay away.
pub(crate) const FAMILIES: [&str; 2] = ["Libertinus Serif", "DejaVu Sans Mono"];

/// The fonts of [`FAMILIES`]. The files stay where they are in the binary; what costs memory is a parsed [`Font`], so
/// that waits for its first use.
pub(crate) struct Fonts {
    pub(crate) book: LazyHash<FontBook>,
    slots: Vec<Slot>,
}

struct Slot {
    file: &'static [u8],
    parsed: OnceLock<Option<Font>>,
}

pub(crate) static FONTS: LazyLock<Fonts> = LazyLock::new(Fonts::embedded);

impl Fonts {
    fn embedded() -> Self {
        let mut book = FontBook::new();
        let mut slots = Vec::new();
        for file in typst_assets::fonts() {
            let Some(info) = FontInfo::new(file, 0) else { continue };
            if FAMILIES.contains(&info.family.as_str()) {
                book.push(info);
                slots.push(Slot { file, parsed: OnceLock::new() });
            }
        }
        Self { book: LazyHash::new(book), slots }
    }

    /// The font at an index of the book, parsed now if nobody needed it before.
    pub(crate) fn get(&self, index: usize) -> Option<Font> {
        let slot = self.slots.get(index)?;
        slot.parsed.get_or_init(|| Font::new(Bytes::new(slot.file), 0)).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(text: &str) -> bool {
        let infos: Vec<_> = FONTS.slots.iter().enumerate().filter_map(|(index, _)| FONTS.book.info(index)).collect();
        text.chars().all(|wanted| infos.iter().any(|info| info.coverage.contains(u32::from(wanted))))
    }

    #[test]
    fn both_families_are_there_with_the_weights_the_templates_use() {
        for family in FAMILIES {
            assert!(FONTS.book.select_family(&family.to_lowercase()).count() >= 4, "{family}");
        }
        assert!(FONTS.get(0).is_some());
        assert!(FONTS.get(1_000).is_none());
    }

    #[test]
    fn the_scripts_the_crate_doc_promises_are_covered() {
        assert!(covers("Łódź Þórður Çağlar Đặng ẞ"));
        assert!(covers("Ἀθῆναι Καλημέρα"));
        assert!(covers("Київ Ђорђе Щукин"));
        assert!(covers("שלום العربية"));
        assert!(covers("€ £ ¥ ₹ ₽ ₺ ₴ – — “ ” ‘ ’ … × ° ± ² ½ № → ✓"));
    }

    #[test]
    fn the_scripts_the_crate_doc_excludes_are_not_covered() {
        for text in ["漢", "カ", "한", "ไ", "अ", "🚚"] {
            assert!(!covers(text), "{text} is covered: say so in the crate doc");
        }
    }
}
