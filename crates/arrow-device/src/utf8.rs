//! Checks that texts which may lie in each other are UTF-8.
//!
//! Views of an array may name the same bytes again and again, so that a few megabytes stand for any
//! amount of text. The algorithm:
//!
//! 1. Texts are checked one by one as long as they have no more bytes together than twice what the
//!    buffers have, in which each byte counts once ([`distinct_bytes`]). Views that do not overlap
//!    never get further.
//! 2. The others are kept, and sorted by their addresses in the end. A byte is then decoded once,
//!    but for the last three of a text that ends within a character: where a text begins inside of
//!    what was decoded, at the beginning of a character, decoding it would find the same
//!    characters. So a text is right if it begins and ends with a whole character, and if decoding
//!    has come to its end.
//!
//! What must stay true: of several wrong texts the first one is told, as if each had been checked
//! by itself.

use std::str;

/// A check of many texts.
#[derive(Debug)]
pub(crate) struct Utf8Check<'a> {
    /// How many bytes are still checked one text after the other.
    left: usize,
    /// The texts that are checked in the end, each with its number.
    kept: Vec<(usize, &'a [u8])>,
}

impl<'a> Utf8Check<'a> {
    /// A check of texts that lie in so many bytes.
    pub(crate) fn within(bytes: usize) -> Self {
        Self { left: bytes.saturating_mul(2), kept: Vec::new() }
    }

    /// Returns whether a text is UTF-8, as far as the text is looked at now. Each text has a higher
    /// number than the text before.
    pub(crate) fn admits(&mut self, number: usize, text: &'a [u8]) -> bool {
        match self.left.checked_sub(text.len()) {
            Some(left) => {
                self.left = left;
                str::from_utf8(text).is_ok()
            }
            None => {
                self.kept.push((number, text));
                true
            }
        }
    }

    /// Returns the first text that was admitted and is not UTF-8.
    pub(crate) fn first_wrong(mut self) -> Option<(usize, &'a [u8])> {
        self.kept.sort_unstable_by_key(|(_, text)| text.as_ptr().addr());
        let mut first: Option<(usize, &'a [u8])> = None;
        // The address up to which there are whole characters, and whether none follows there.
        let (mut reached, mut is_broken) = (0, false);
        for (number, text) in self.kept {
            let begin = text.as_ptr().addr();
            let end = begin + text.len();
            if begin > reached {
                (reached, is_broken) = (begin, false);
            }
            let mut is_right = text.first().is_none_or(|byte| !continues(*byte));
            if is_right && reached < end && !is_broken {
                match str::from_utf8(text.get(reached - begin..).unwrap_or_default()) {
                    Ok(_) => reached = end,
                    Err(error) => {
                        reached += error.valid_up_to();
                        // Where the text ends within a character, a longer one may have all of it.
                        is_broken = error.error_len().is_some();
                    }
                }
            }
            is_right &= end <= reached && ends_with_whole_character(text);
            if !is_right && first.is_none_or(|(known, _)| number < known) {
                first = Some((number, text));
            }
        }
        first
    }
}

/// Returns how many bytes there are, each byte counted once that lies in several parts.
pub(crate) fn distinct_bytes<'a>(parts: impl Iterator<Item = &'a [u8]>) -> usize {
    let place = |part: &[u8]| (part.as_ptr().addr(), part.as_ptr().addr() + part.len());
    let mut places: Vec<_> = parts.map(place).collect();
    places.sort_unstable();
    let (mut reached, mut all) = (0, 0_usize);
    for (begin, end) in places {
        all = all.saturating_add(end.saturating_sub(begin.max(reached)));
        reached = reached.max(end);
    }
    all
}

/// Whether a byte is not the first one of a character.
fn continues(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Whether the last character of a text is there as a whole, where all before it are right.
fn ends_with_whole_character(text: &[u8]) -> bool {
    let Some(after) = text.iter().rev().position(|byte| !continues(*byte)) else {
        return text.is_empty();
    };
    let len = match text.iter().rev().nth(after) {
        Some(..0x80) | None => 0,
        Some(..0xe0) => 1,
        Some(..0xf0) => 2,
        Some(_) => 3,
    };
    after == len
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    /// Bytes of which many are parts of characters.
    fn bytes(random: &mut impl FnMut() -> usize) -> Vec<u8> {
        let pieces: [&[u8]; 9] = [
            b"a",
            "é".as_bytes(),
            "€".as_bytes(),
            "🦀".as_bytes(),
            b"\x80",
            b"\xe2\x82",
            b"\xf0\x9f\xa6",
            b"\xff",
            b"\xed\xa0\x80",
        ];
        let most = if random().is_multiple_of(3) { pieces.len() } else { 4 };
        (0..random() % 20).flat_map(|_| pieces[random() % most].to_vec()).collect()
    }

    #[test]
    fn the_first_wrong_text_is_that_of_a_check_of_each_by_itself() {
        let mut state = 1_u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize
        };
        let (mut right, mut wrong) = (0, 0);
        for _ in 0..if cfg!(miri) { 100 } else { 20_000 } {
            let (one, two) = (bytes(&mut random), bytes(&mut random));
            let count = random() % 8;
            let texts: Vec<&[u8]> = (0..count)
                .map(|_| {
                    let whole = if random().is_multiple_of(4) { &two } else { &one };
                    let (a, b) = (random() % (whole.len() + 1), random() % (whole.len() + 1));
                    &whole[a.min(b)..a.max(b)]
                })
                .collect();
            let expected = texts.iter().position(|text| str::from_utf8(text).is_err());
            let mut check = Utf8Check::within(random() % 4);
            let admitted = texts.iter().enumerate().position(|(n, text)| !check.admits(n, text));
            let found = check.first_wrong().map(|(number, _)| number).or(admitted);
            assert_eq!(found, expected, "{texts:x?}");
            *if expected.is_some() { &mut wrong } else { &mut right } += 1;
        }
        let least = if cfg!(miri) { 5 } else { 1000 };
        assert!(right > least && wrong > least, "{right} right, {wrong} wrong");
    }

    #[test]
    fn bytes_of_parts_that_lie_in_each_other_count_once() {
        let bytes = [0_u8; 100];
        let count =
            |parts: &[Range<usize>]| distinct_bytes(parts.iter().map(|part| &bytes[part.clone()]));
        assert_eq!(count(&[0..100, 0..100, 20..30, 0..100]), 100);
        assert_eq!(count(&[50..60, 10..20, 15..55, 70..70, 90..95]), 55);
        assert_eq!(count(&[]), 0);
    }

    #[test]
    fn texts_without_bytes_are_right() {
        let mut check = Utf8Check::within(0);
        assert!(check.admits(0, b"") && check.admits(1, "é".as_bytes()) && check.admits(2, b""));
        assert_eq!(check.first_wrong(), None);
    }
}
