//! Rebases offsets: after the bytes before the first offset were cut off, the offsets begin at 0.
//! The offsets are changed on their way through host memory.

/// How the offsets of one buffer change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::copy) struct Rebase {
    /// Whether offsets are 64 bits wide, and not 32.
    pub(in crate::copy) is_wide: bool,
    /// The offset that becomes 0.
    pub(in crate::copy) first: i64,
    /// How many offsets at the beginning become 0, because their elements travel only for the sake
    /// of a bitmap.
    pub(in crate::copy) skip: u64,
}

impl Rebase {
    /// Changes offsets. The first offset in `bytes` is `at` bytes into the buffer. Both `at` and
    /// the length of `bytes` are multiples of an offset's width.
    ///
    /// Nothing is checked: an offset that was wrong stays wrong.
    pub(in crate::copy) fn apply(self, bytes: &mut [u8], at: u64) {
        if self.is_wide {
            let numbers = bytes.as_chunks_mut::<8>().0;
            self.change(numbers, at / 8, |bytes| {
                let offset = i64::from_ne_bytes(bytes);
                offset.wrapping_sub(self.first).to_ne_bytes()
            });
        } else {
            let numbers = bytes.as_chunks_mut::<4>().0;
            self.change(numbers, at / 4, |bytes| {
                let offset = i32::from_ne_bytes(bytes);
                // `first` is an offset of 32 bits too, so it fits.
                offset.wrapping_sub(self.first as i32).to_ne_bytes()
            });
        }
    }

    fn change<const WIDTH: usize>(
        self,
        numbers: &mut [[u8; WIDTH]],
        at: u64,
        change: impl Fn([u8; WIDTH]) -> [u8; WIDTH],
    ) {
        let skipped = usize::try_from(self.skip.saturating_sub(at)).unwrap_or(usize::MAX);
        let (before, live) = numbers.split_at_mut(skipped.min(numbers.len()));
        before.fill([0; WIDTH]);
        for number in live {
            *number = change(*number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_begin_at_zero_and_those_before_are_zero() {
        let rebase = Rebase { is_wide: false, first: 10, skip: 2 };
        let mut bytes: Vec<u8> =
            [3_i32, 7, 10, 12, 15].iter().flat_map(|n| n.to_ne_bytes()).collect();
        let mut halves = bytes.clone();
        rebase.apply(&mut bytes, 0);
        let expected: Vec<u8> = [0_i32, 0, 0, 2, 5].iter().flat_map(|n| n.to_ne_bytes()).collect();
        assert_eq!(bytes, expected);
        // Two halves, changed one after the other, give the same offsets.
        rebase.apply(&mut halves[..4], 0);
        rebase.apply(&mut halves[4..], 4);
        assert_eq!(halves, expected);
    }

    #[test]
    fn a_wrong_offset_stays_wrong() {
        let mut bytes = (-1_i64).to_ne_bytes();
        Rebase { is_wide: true, first: 5, skip: 0 }.apply(&mut bytes, 0);
        assert!(i64::from_ne_bytes(bytes) < 0);
    }
}
