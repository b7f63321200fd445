//! Changes to an input: bytes, pieces of others, words of the target, numbers, nesting.

/// Inputs grow no larger than this.
const MAX_BYTES: usize = 16 * 1024;

/// Texts that readers of every kind have stumbled over.
const COMMON: &[&str] = &[
    "\0",
    "\u{feff}",
    "\u{2028}",
    "\u{202e}",
    "\u{fffe}",
    "\u{1f4e6}",
    "e\u{301}",
    "\u{df}",
    "\u{130}",
    "\\ud800",
    "\\u0000",
    "\\",
    "\"",
    "'",
    "\r\n",
    "\t",
    "%00",
    "%",
    "..",
    "/",
    "//",
    "~",
    "@",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "null",
    "true",
    "-0",
    "1e999",
    "1.10",
    "0",
    "9007199254740993",
    "-1",
    "4294967296",
    "18446744073709551616",
    "2026-01-01T00:00:00Z",
    "9999-12-31T23:59:60Z",
    " ",
];

/// Reproducible luck (SplitMix64).
pub(crate) struct Luck(pub(crate) u64);

impl Luck {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len()))
    }
}

/// A changed copy of one of the corpus.
pub(crate) fn mutate(corpus: &[Vec<u8>], words: &[&str], luck: &mut Luck) -> Vec<u8> {
    let mut input = luck.pick(corpus).cloned().unwrap_or_default();
    for _ in 0..1 + luck.below(6) {
        change(&mut input, corpus, words, luck);
        input.truncate(MAX_BYTES);
    }
    input
}

fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], words: &[&str], luck: &mut Luck) {
    let (from, to) = {
        let (a, b) = (luck.below(input.len() + 1), luck.below(input.len() + 1));
        (a.min(b), a.max(b))
    };
    match luck.below(11) {
        0 => {
            if let Some(byte) = input.get_mut(from) {
                *byte ^= 1 << luck.below(8);
            }
        }
        1 => {
            if let Some(byte) = input.get_mut(from) {
                *byte = luck.below(256) as u8;
            }
        }
        2 => drop(input.drain(from..to)),
        3 => {
            let piece = input[from..to].to_vec();
            insert(input, from, &piece);
        }
        4 => input.truncate(to),
        5 => {
            let other = luck.pick(corpus).cloned().unwrap_or_default();
            let (a, b) = (luck.below(other.len() + 1), luck.below(other.len() + 1));
            insert(input, from, &other[a.min(b)..a.max(b)]);
        }
        6 | 7 => {
            let word = luck.pick(words).copied().unwrap_or_default();
            replace(input, (from, to), word, luck);
        }
        8 => {
            let word = luck.pick(COMMON).copied().unwrap_or_default();
            replace(input, (from, to), word, luck);
        }
        9 => {
            let piece = *luck.pick(&["[", "{\"a\":", "a", "\u{e4}", "(", "%"]).unwrap_or(&"a");
            let many = piece.repeat(1 << luck.below(10));
            insert(input, from, many.as_bytes());
        }
        _ => number(input, luck),
    }
}

fn insert(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    drop(input.splice(at..at, piece.iter().copied()));
}

/// Puts a word somewhere, or in the place of up to as many bytes.
fn replace(input: &mut Vec<u8>, (from, to): (usize, usize), word: &str, luck: &mut Luck) {
    let end = if luck.below(2) == 0 { from } else { to.min(from + word.len()) };
    drop(input.splice(from..end, word.bytes()));
}

/// Another number in the place of one.
fn number(input: &mut Vec<u8>, luck: &mut Luck) {
    let starts: Vec<usize> = (0..input.len()).filter(|at| input[*at].is_ascii_digit()).collect();
    let Some(from) = luck.pick(&starts).copied() else { return };
    let to = (from..input.len()).find(|at| !input[*at].is_ascii_digit()).unwrap_or(input.len());
    let other = match luck.below(4) {
        0 => "0".to_owned(),
        1 => luck.next().to_string(),
        2 => "9".repeat(1 + luck.below(40)),
        _ => luck.below(1_000).to_string(),
    };
    drop(input.splice(from..to, other.bytes()));
}
